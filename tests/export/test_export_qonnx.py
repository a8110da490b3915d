"""QONNX export against the executor of the qonnx package."""

import copy
import os

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.util.cleanup import cleanup_model
from torch import nn

import headrace.nn as qnn
from headrace import quant
from headrace.export import ExportError, export_qonnx
from headrace.nn import finalize


def _execute(path, x):
    model = cleanup_model(ModelWrapper(str(path)))
    out = execute_onnx(model, {model.graph.input[0].name: x.numpy()})
    return torch.from_numpy(out[model.graph.output[0].name])


class Net(nn.Module):
    def __init__(self, bits=2, **weight):
        super().__init__()
        self.act0 = qnn.QuantIdentity(bit_width=8, return_quant_tensor=True)
        self.fc1 = qnn.QuantLinear(36, 24, weight_bit_width=bits, **weight)
        self.bn1 = nn.BatchNorm1d(24)
        self.drop = nn.Dropout(0.2)
        self.act1 = qnn.QuantReLU(bit_width=bits, return_quant_tensor=True)
        self.fc2 = qnn.QuantLinear(24, 10, bias=False, weight_bit_width=bits, weight_scaling_per_output_channel=True)

    def forward(self, x):
        x = self.act0(torch.flatten(x, 1))
        x = self.act1(self.drop(self.bn1(self.fc1(x))))
        return self.fc2(x)


def _trained(model, shape=(64, 4, 9)):
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(3):
        loss = model(torch.randn(*shape)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A small network, its file and what the file holds."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = _trained(Net())
    path = tmp_path_factory.mktemp("export") / "net.onnx"
    x = torch.randn(100, 4, 9) * 2
    before = copy.deepcopy(model.state_dict())
    returned = export_qonnx(model, x, path)
    return model, before, x, path, returned


def test_equals_pytorch_on_the_integer_grid(exported):
    model, _, x, path, _ = exported
    expected = finalize(model)(x)
    scale = model.act1.act_quant.scale() * model.fc2.quant_weight().scale.view(-1)
    assert torch.equal(torch.round(_execute(path, x) / scale), torch.round(expected / scale))


def test_exporting_leaves_the_model_as_it_was(exported):
    model, before, _x, _, _ = exported
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert isinstance(model.bn1, nn.BatchNorm1d)
    assert model.act0.return_quant_tensor
    assert model.fc1.weight.requires_grad
    assert not model.training
    assert type(model.fc1.weight_quant).__name__ == "WeightQuantProxyFromInjector"


def test_structure(exported):
    *_, path, returned = exported
    model = onnx.load(path)
    assert model == returned
    onnx.checker.check_model(model)
    assert [n.op_type for n in model.graph.node] == [
        "Reshape",
        "Quant",
        "Quant",
        "Gemm",
        "BatchNormalization",
        "Relu",
        "Quant",
        "Quant",
        "Gemm",
    ]
    assert {n.domain for n in model.graph.node if n.op_type == "Quant"} == {"qonnx.custom_op.general"}
    assert {o.domain: o.version for o in model.opset_import} == {"": 18, "qonnx.custom_op.general": 1}
    assert [i.name for i in model.graph.input] == ["x"]
    assert [o.name for o in model.graph.output] == ["output"]


def test_names_are_those_of_the_model(exported):
    graph = exported[-1].graph
    assert [n.name for n in graph.node][1:4] == ["act0.act_quant.Quant", "fc1.weight_quant.Quant", "fc1.Gemm"]
    initializers = {i.name for i in graph.initializer}
    assert {"fc1.weight", "fc1.weight_quant.scale", "act1.act_quant.bit_width", "bn1.running_var"} <= initializers


def test_nothing_of_this_machine_is_in_the_file(exported):
    *_, path, returned = exported
    data = path.read_bytes()
    for trace in (os.getcwd(), os.path.dirname(torch.__file__), "stack_trace", ".py", "site-packages"):
        assert trace.encode() not in data
    assert returned.producer_name == "headrace"


def test_symbolic_batch(exported, tmp_path):
    model, _, x, _, _ = exported
    onnx_model = export_qonnx(model, x[:1], tmp_path / "dynamic.onnx", dynamic_batch=True)
    for value in (*onnx_model.graph.input, *onnx_model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    assert not {"Shape", "Concat", "Squeeze"} & {n.op_type for n in onnx_model.graph.node}
    (shape,) = (i for i in onnx_model.graph.initializer if i.name.endswith("_param1"))
    assert numpy_helper.to_array(shape).tolist() == [-1, 36]


def test_symbolic_batch_falls_back_where_the_model_fixes_it(tmp_path):
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = qnn.QuantIdentity()

        def forward(self, x):
            return self.act(x.view(2, 6))

    model = Fixed()
    model(torch.randn(2, 2, 3))
    exported = export_qonnx(model.eval(), torch.randn(2, 2, 3), dynamic_batch=True)
    assert exported.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


WEIGHTS = {
    "binary": {"weight_quant": quant.SignedBinaryWeightPerTensorConst},
    "ternary const": {"weight_quant": quant.SignedTernaryWeightPerTensorConst},
    "ternary threshold": {"weight_quant_type": "TERNARY", "weight_threshold": 0.5},
    "int 1..8 per channel": {"weight_quant": quant.Int8WeightPerChannelFloat, "weight_bit_width": 3},
    "fixed point": {"weight_quant": quant.Int8WeightPerTensorFixedPoint, "weight_bit_width": 5},
    "shifted": {"weight_quant": quant.ShiftedUint8WeightPerTensorFloat, "weight_bit_width": 4},
    "floor": {"weight_bit_width": 4, "weight_float_to_int_impl_type": "FLOOR"},
    "dpu": {"weight_bit_width": 4, "weight_float_to_int_impl_type": "DPU"},
    "learned": {
        "weight_bit_width": 4,
        "weight_scaling_impl_type": "PARAMETER_FROM_STATS",
        "weight_bit_width_impl_type": "PARAMETER",
    },
}


class ManyWeights(nn.Module):
    """One layer a kind of weight, all in one file."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(qnn.QuantLinear(6, 4, bias=False, **w) for w in WEIGHTS.values())

    def forward(self, x):
        return torch.cat([layer(x) for layer in self.layers], dim=1)


def test_weights_of_every_quantizer_are_reproduced(tmp_path):
    model = ManyWeights().eval()
    with torch.no_grad():
        for layer in model.layers:
            layer.weight.copy_(torch.randn(4, 6) * 0.3)
    path = tmp_path / "weights.onnx"
    export_qonnx(model, torch.eye(6), path)
    expected = torch.cat([layer.quant_weight().value.detach().t() for layer in model.layers], dim=1)
    assert torch.equal(_execute(path, torch.eye(6)), expected)


ACTIVATIONS = {
    "binary": qnn.QuantIdentity(act_quant=quant.SignedBinaryActPerTensorConst),
    "ternary const": qnn.QuantHardTanh(act_quant=quant.SignedTernaryActPerTensorConst),
    "ternary threshold": qnn.QuantIdentity(
        act_quant=quant.SignedTernaryActPerTensorConst, quant_type="TERNARY", threshold=0.5, max_val=0.7, min_val=-0.7
    ),
    "unsigned 1 bit": qnn.QuantReLU(bit_width=1),
    "narrow": qnn.QuantIdentity(bit_width=3, narrow_range=True),
    "shifted": qnn.QuantIdentity(act_quant=quant.ShiftedUint8ActPerTensorFloat, bit_width=4),
    "floor": qnn.QuantReLU(bit_width=3, float_to_int_impl_type="FLOOR"),
    "ceil": qnn.QuantIdentity(bit_width=3, float_to_int_impl_type="CEIL"),
    "hard tanh": qnn.QuantHardTanh(min_val=-0.5, max_val=0.5, bit_width=4),
    "fixed point": qnn.QuantReLU(act_quant=quant.Uint8ActPerTensorFixedPoint, bit_width=4),
    "not quantized": qnn.QuantHardTanh(act_quant=None, min_val=-0.25, max_val=0.25),
}


class ManyActivations(nn.Module):
    def __init__(self):
        super().__init__()
        self.acts = nn.ModuleList(copy.deepcopy(list(ACTIVATIONS.values())))

    def forward(self, x):
        return torch.stack([act(x) for act in self.acts])


def test_activations_of_every_quantizer_are_reproduced(tmp_path):
    model = ManyActivations()
    model(torch.randn(1000))
    model.eval()
    x = torch.randn(2000) * 2
    x[:6] = torch.tensor([0.0, 0.35, -0.35, float(np.nextafter(np.float32(0.35), np.float32(1))), 1e6, -1e6])
    path = tmp_path / "acts.onnx"
    exported = export_qonnx(model, x, path)
    with torch.no_grad():
        expected = model(x)
    actual = _execute(path, x)
    for name, a, b in zip(ACTIVATIONS, actual, expected, strict=True):
        assert torch.equal(a, b), name
    ops = [n.op_type for n in exported.graph.node]
    assert ops.count("BipolarQuant") == 3


def test_sigmoid_and_tanh(tmp_path):
    model = nn.Sequential(qnn.QuantTanh(bit_width=4), qnn.QuantSigmoid(bit_width=4))
    model(torch.randn(100))
    path = tmp_path / "sigmoid.onnx"
    exported = export_qonnx(model.eval(), torch.randn(50), path)
    assert [n.op_type for n in exported.graph.node] == ["Tanh", "Quant", "Sigmoid", "Quant"]


def test_finalized_model_exports_its_two_operations(tmp_path):
    model = _trained(Net())
    exported = export_qonnx(finalize(model), torch.randn(2, 4, 9), tmp_path / "final.onnx")
    ops = [n.op_type for n in exported.graph.node]
    assert "BatchNormalization" not in ops
    assert ops.count("Mul") == ops.count("Add") == 1


def test_given_names_and_opset(tmp_path):
    model = qnn.QuantIdentity(bit_width=4)
    model(torch.randn(4))
    exported = export_qonnx(
        model.eval(), torch.randn(4), opset_version=15, input_names=["image"], output_names=["logits"]
    )
    assert [i.name for i in exported.graph.input] == ["image"]
    assert [o.name for o in exported.graph.output] == ["logits"]
    assert {o.domain: o.version for o in exported.opset_import}[""] == 15


def test_module_in_training_mode_is_refused():
    model = Net()
    with pytest.raises(ExportError, match=r"bn1 \(BatchNorm1d\) is in training mode.*call model.eval\(\)"):
        export_qonnx(model, torch.randn(2, 4, 9))
    act = qnn.QuantReLU()
    act(torch.randn(4))
    with pytest.raises(ExportError, match=r"scaling_impl .*is in training mode"):
        export_qonnx(act, torch.randn(4))


def test_rounding_that_qonnx_does_not_have_is_refused():
    act = qnn.QuantReLU(float_to_int_impl_type="DPU")
    act(torch.randn(4))
    with pytest.raises(ExportError, match="act_quant: DPURoundSte has no QONNX equivalent"):
        export_qonnx(act.eval(), torch.randn(4))


def test_model_that_torch_cannot_export_leaves_no_file(tmp_path):
    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(ExportError, match="torch cannot export Branching"):
        export_qonnx(Branching().eval(), torch.randn(4), tmp_path / "no.onnx")
    assert list(tmp_path.iterdir()) == []


def test_example_input_is_needed_once():
    with pytest.raises(ExportError, match="exactly one of args, input_t and input_shape"):
        export_qonnx(qnn.QuantIdentity().eval())


def test_uncollected_statistics_are_remarked():
    with pytest.warns(UserWarning, match="has collected no statistics"):
        export_qonnx(qnn.QuantIdentity().eval(), torch.randn(4))


def test_external_data(tmp_path):
    model = _trained(Net())
    path = tmp_path / "big.onnx"
    export_qonnx(model, torch.randn(5, 4, 9), path, external_data=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["big.onnx", "big.onnx.data"]
    loaded = onnx.load(path)
    weight = next(numpy_helper.to_array(i) for i in loaded.graph.initializer if i.name == "fc1.weight")
    assert np.array_equal(weight, model.fc1.quant_weight().value.detach().numpy())
