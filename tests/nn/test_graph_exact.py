"""Graph mode end to end: what it makes of a float model is what the compiler computes, to the last bit."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import headrace
import headrace.nn as qnn
from headrace.export import export_qonnx
from headrace.graph.calibrate import bias_correction_mode, calibration_mode
from headrace.graph.capture import NotTraceableError, capture
from headrace.graph.equalize import equalize
from headrace.graph.fold import fold_batch_norms
from headrace.graph.gpfq import gpfq
from headrace.graph.gptq import gptq
from headrace.graph.quantize import quantize
from headrace.ingest import from_proto, read_onnx
from headrace.passes import to_integer


class Residual(nn.Module):
    """The basic block of ResNet-18."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        shortcut = [nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)]
        self.shortcut = nn.Sequential(*(shortcut if stride != 1 or inputs != outputs else []))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


class Inverted(nn.Module):
    """The block of MobileNetV2."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.residual = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, 2 * inputs, 1, bias=False),
            nn.BatchNorm2d(2 * inputs),
            nn.ReLU6(),
            nn.Conv2d(2 * inputs, 2 * inputs, 3, stride, 1, groups=2 * inputs, bias=False),
            nn.BatchNorm2d(2 * inputs),
            nn.ReLU6(),
            nn.Conv2d(2 * inputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class DenselyConnected(nn.Module):
    """Functions instead of modules, a concatenation, a mean."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.left, self.right = nn.Conv2d(4, 3, 1), nn.Conv2d(4, 5, 3, padding=1)
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = torch.cat([F.relu(self.left(x)), torch.relu(self.right(x))], dim=1)
        return self.last(F.max_pool2d(x, 2).mean([2, 3]))


class Upsampling(nn.Module):
    """A decoder: transposed convolutions with norms, dense and grouped."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 6, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(6, 4, 3, 2, 1, 1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.ConvTranspose2d(4, 4, 2, 2, groups=2),
        )

    def forward(self, x):
        return self.body(x)


def _stem(width):
    return nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width)


NETWORKS = {
    "resnet": lambda: nn.Sequential(
        *_stem(6), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Residual(6, 6, 1), Residual(6, 8, 2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 5),
    ),
    "mobilenet": lambda: nn.Sequential(
        *_stem(6), nn.ReLU6(), Inverted(6, 6, 1), Inverted(6, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    ),
    "concatenation": DenselyConnected,
    "transposed": Upsampling,
}  # fmt: skip


def _with_statistics(model, shape):
    """Batch norms far from the start."""
    model.train()
    for _ in range(2):
        model(torch.randn(shape))
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.weight, 0.5, 2.0)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    return model.eval()


def _calibrated(model, x):
    with torch.no_grad(), calibration_mode(model):
        model(x)
    with torch.no_grad(), bias_correction_mode(model):
        model(x)
    return model


def _compiled_equals_finalized(model, x, path):
    """The written file, compiled, on random data and on extremes."""
    export_qonnx(model, x, path)
    compiled = to_integer(from_proto(read_onnx(path)))
    assert compiled.blockers == ()
    (feed,) = (str(n) for n in compiled.graph.inputs)
    final = headrace.finalize(model)
    for data in (x, 100 * torch.sign(x), torch.zeros_like(x)):
        (out,) = compiled.graph.run({feed: data.numpy()}).values()
        assert np.array_equal(out, final(data).numpy())


@pytest.mark.parametrize(
    ("name", "search"),
    [*((name, None) for name in NETWORKS), ("resnet", gpfq), ("mobilenet", gptq), ("transposed", gptq)],
)
def test_compiler_computes_what_graph_mode_made(name, search, tmp_path):
    model, x = _with_statistics(NETWORKS[name](), (4, 3, 16, 16)), torch.randn(4, 3, 16, 16)
    quantized = _calibrated(quantize(model, weight_bit_width=4, act_bit_width=4), x)
    if search is not None:
        layers = [m for m in quantized.modules() if hasattr(m, "last_was_exact")]
        assert len(search(quantized, [x])) == len(layers)
    _compiled_equals_finalized(quantized, x, tmp_path / "net.onnx")


@pytest.mark.parametrize("name", NETWORKS)
def test_eight_bits_are_close(name):
    model, x = _with_statistics(NETWORKS[name](), (4, 3, 16, 16)), torch.randn(32, 3, 16, 16)
    quantized = _calibrated(quantize(model), x)
    with torch.no_grad():
        expected = model(x)
        assert (quantized(x) - expected).norm() < 0.03 * expected.norm()


ACTIVATIONS = {
    "relu6": nn.ReLU6,
    "hard tanh": nn.Hardtanh,
    "hard tanh from 0": lambda: nn.Hardtanh(0.0, 2.0),
    "asymmetric hard tanh": lambda: nn.Hardtanh(-0.5, 2.0),
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "hard sigmoid": nn.Hardsigmoid,
    "hard swish": nn.Hardswish,
    "leaky relu": lambda: nn.LeakyReLU(0.125),
    "prelu": lambda: nn.PReLU(4, 0.2),
    "elu": nn.ELU,
    "softplus": nn.Softplus,
    "softsign": nn.Softsign,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "mish": nn.Mish,
}
FUNCTIONS = {
    "relu6": F.relu6,
    "hard tanh": lambda x: F.hardtanh(x, -0.5, 0.5),
    "sigmoid": torch.sigmoid,
    "tanh": lambda x: x.tanh(),
    "silu": F.silu,
    "leaky relu": lambda x: F.leaky_relu(x, negative_slope=0.25),
    "hard swish": F.hardswish,
}


class Function(nn.Module):
    """A function between two layers."""

    def __init__(self, function):
        super().__init__()
        self.first, self.second, self.function = nn.Linear(6, 4), nn.Linear(4, 3), function

    def forward(self, x):
        return self.second(self.function(self.first(x)))


def _quantizer_behind(quantized):
    names = [str(n.target) for n in quantized.graph.nodes if n.op == "call_module"]
    assert not any(name.startswith("act_quant") for name in names)  # quantized where it is made, not again
    (name,) = (n for n in names if "activation_quant" in n or "relu_quant" in n)
    return quantized.get_submodule(name)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_gets_a_quantized_output(name, tmp_path):
    model, x = nn.Sequential(nn.Linear(6, 4), ACTIVATIONS[name](), nn.Linear(4, 3)).eval(), torch.randn(64, 6)
    quantized = _calibrated(quantize(model, weight_bit_width=3, act_bit_width=4, equalize_iterations=0), x)
    behind = _quantizer_behind(quantized)
    signed = name not in ("relu6", "hard tanh from 0", "sigmoid", "hard sigmoid", "softplus")
    with torch.no_grad():
        assert behind(torch.randn(8, 4)).signed is signed
    if name != "softplus":  # the exporter writes comparisons, which are for the host
        _compiled_equals_finalized(quantized, x, tmp_path / "net.onnx")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_quantized_like_modules(name, tmp_path):
    model, x = Function(FUNCTIONS[name]).eval(), torch.randn(64, 6)
    quantized = _calibrated(quantize(model, weight_bit_width=3, act_bit_width=4, equalize_iterations=0), x)
    _quantizer_behind(quantized)
    _compiled_equals_finalized(quantized, x, tmp_path / "net.onnx")


class Branching(nn.Module):
    """Python that symbolic tracing cannot follow."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        if x.shape[-1] > 4:
            x = x * 1.0
        for _ in range(x.dim() - 3):
            x = x.contiguous()
        return self.inner(x)


@pytest.mark.parametrize("name", NETWORKS)
def test_capture_by_export_gives_the_same_model(name):
    model, x = _with_statistics(NETWORKS[name](), (4, 3, 16, 16)), torch.randn(4, 3, 16, 16)
    wrapped = Branching(model).eval()
    with pytest.raises(NotTraceableError, match=r"Branching cannot be traced symbolically.*give example="):
        quantize(wrapped)
    kinds = (nn.Conv2d, nn.Linear, nn.ConvTranspose2d, nn.BatchNorm2d)

    def layers(traced):
        called = [traced.get_submodule(n.target) for n in traced.graph.nodes if n.op == "call_module"]
        return [type(m) for m in called if isinstance(m, kinds)]

    captured = capture(copy.deepcopy(wrapped), x[:1])
    assert sorted(map(str, layers(captured))) == sorted(map(str, layers(capture(copy.deepcopy(model)))))
    with torch.no_grad():
        assert torch.equal(captured(x), model(x))
        direct = _calibrated(quantize(model, weight_bit_width=4, act_bit_width=4), x)
        by_export = _calibrated(quantize(wrapped, weight_bit_width=4, act_bit_width=4, example=x[:1]), x)
        assert torch.equal(by_export(x), direct(x))


def test_what_no_way_captures_is_an_error():
    class Searching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(NotTraceableError, match=r"neither by torch\.fx nor by torch\.export"):
        quantize(Searching(), example=torch.ones(3))


def _traced(model):
    return torch.fx.symbolic_trace(copy.deepcopy(model).eval())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Linear(6, 4), (5, 6)),
        (lambda: nn.Conv1d(6, 4, 3), (5, 6, 9)),
        (lambda: nn.Conv2d(6, 4, 3, stride=2, groups=2), (5, 6, 9, 9)),
        (lambda: nn.Conv2d(6, 6, 3, groups=6, bias=False), (5, 6, 9, 9)),
        (lambda: nn.Conv3d(6, 4, 2), (5, 6, 4, 4, 4)),
    ],
)
def test_norms_fold_into_the_layer_after_them(layer, shape):
    norm = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]
    model, x = _with_statistics(nn.Sequential(norm(6), layer()), shape), torch.randn(shape)
    traced = _traced(model)
    assert fold_batch_norms(traced) == 1
    torch.testing.assert_close(traced(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "layer", [lambda: nn.Conv2d(6, 4, 3, padding=1), lambda: nn.ConvTranspose2d(6, 4, 3), lambda: nn.MaxPool2d(2)]
)
def test_norms_before_padding_stay(layer):
    traced = _traced(_with_statistics(nn.Sequential(nn.BatchNorm2d(6), layer()), (5, 6, 9, 9)))
    assert fold_batch_norms(traced) == 0


@pytest.mark.parametrize("between", [nn.ReLU, nn.ReLU6, lambda: nn.Hardtanh(0.0, 1.5), lambda: nn.PReLU(6)])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: nn.Conv2d(4, 6, 3, padding=1), lambda: nn.ConvTranspose2d(6, 4, 3, groups=2)),
        (lambda: nn.ConvTranspose2d(4, 6, 3, groups=2), lambda: nn.Conv2d(6, 6, 3, groups=6)),
        (lambda: nn.Linear(4, 6), lambda: nn.Linear(6, 3)),
    ],
)
def test_equalization_keeps_the_function_and_makes_ranges_equal(between, first, second):
    model = nn.Sequential(first(), between(), second())
    with torch.no_grad():
        model[0].weight.mul_(
            10 ** torch.randn(6 if model[0].weight.shape[0] == 6 else 4).view(-1, *[1] * (model[0].weight.dim() - 1))
        )
    x = torch.randn(5, 4) if isinstance(model[0], nn.Linear) else torch.randn(2, 4, 7, 7)
    traced = _traced(model)
    assert equalize(traced, 1) == 1
    torch.testing.assert_close(traced(x), model.eval()(x), rtol=1e-3, atol=1e-4)
    assert any(not torch.equal(a, b) for a, b in zip(traced.parameters(), model.parameters(), strict=False))


def test_a_shared_quantizer_holds_the_largest_operand():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.small, self.large = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.small(x) + self.large(x)

    model, x = Sum(), torch.randn(500, 4)
    with torch.no_grad():
        model.large.weight.mul_(20)
        quantized = _calibrated(quantize(model), x)
        (shared,) = (m for n, m in quantized.named_modules() if n.startswith("shared_quant") and "." not in n)
        assert float(shared.act_quant.scale()) * 128 > 0.95 * float(model.large(x).abs().max())


@pytest.mark.parametrize("search", [gptq, gpfq])
@pytest.mark.parametrize(("groups", "per_channel"), [(1, False), (1, True), (2, False)])
def test_searched_weights_of_transposed_convolutions(search, groups, per_channel):
    layer = qnn.QuantConvTranspose2d(
        4, 6, 3, 2, 1, 1, groups=groups, weight_bit_width=3, weight_scaling_per_output_channel=per_channel
    ).eval()
    x = F.avg_pool2d(torch.randn(16, 4, 10, 10), 3, 1)
    with torch.no_grad():
        exact = layer.geometry(x, layer.weight, layer.bias)
        nearest = (layer(x) - exact).square().sum()
        assert search(layer, [x[:8], x[8:]]) == [""]
        assert (layer(x) - exact).square().sum() < nearest
        assert int(layer.quant_weight().int().abs().max()) <= 3
