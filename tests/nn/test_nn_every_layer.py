"""What holds for every kind of layer: copying, pickling, compiling, autocast, training in parallel, float weights."""

import copy
import importlib.util
import io
import os
import pathlib
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

import headrace.nn as qnn
from headrace import config

_spec = importlib.util.spec_from_file_location("layer_kinds", pathlib.Path(__file__).with_name("layer_kinds.py"))
kinds = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kinds)
sys.modules[_spec.name] = kinds  # for pickle
KINDS, plain = kinds.KINDS, kinds.plain


def test_every_layer_is_here():
    layers = {n for n in qnn.__all__ if isinstance(getattr(qnn, n), type) and issubclass(getattr(qnn, n), nn.Module)}
    assert layers - kinds.NOT_LAYERS == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trained", [True, False])
def test_copies_compute_the_same(kind, trained):
    module, x = kinds.made(kind, trained=trained).eval(), kinds.example(kind)
    expected = plain(module(x))
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded):
        assert torch.equal(plain(other(x)), expected)
        assert {n for n, _ in other.named_parameters()} == {n for n, _ in module.named_parameters()}
        for parameter in other.parameters():
            parameter.data.mul_(1.5)
    assert torch.equal(plain(module(x)), expected)  # nothing is shared


@pytest.mark.parametrize("kind", KINDS)
def test_state_dictionaries_round_trip(kind):
    module, x = kinds.made(kind), kinds.example(kind)
    other = KINDS[kind][0]()
    other.load_state_dict(module.state_dict())
    module.eval(), other.eval()
    assert torch.equal(plain(module(x)), plain(other(x)))


@pytest.mark.parametrize("kind", KINDS)
def test_float_state_dictionaries_load(kind, monkeypatch):
    """Keys of quantizers may be missing with IGNORE_MISSING_KEYS, and are an error without."""
    module = kinds.made(kind)
    floats = {k: v for k, v in module.state_dict().items() if "_quant." not in k}
    fresh = KINDS[kind][0]()
    if set(fresh.state_dict()) - set(floats):
        with pytest.raises(RuntimeError, match="Missing key"):
            copy.deepcopy(fresh).load_state_dict(floats)
    monkeypatch.setattr(config, "IGNORE_MISSING_KEYS", True)
    assert not fresh.load_state_dict(floats).missing_keys
    module.load_state_dict(floats)
    for name, value in floats.items():
        assert torch.equal(fresh.state_dict()[name], value)
    fresh(kinds.example(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_the_input_and_every_parameter(kind):
    module, x = kinds.made(kind), kinds.example(kind)
    if x.is_floating_point():
        x.requires_grad_()
    plain(module(x)).square().sum().backward()
    assert not x.is_floating_point() or (x.grad is not None and torch.isfinite(x.grad).all())
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_autocast(kind, training):
    """Under autocast a layer trains, and a scale is never rounded to bfloat16."""
    module, x = kinds.made(kind).train(training), kinds.example(kind)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = plain(module(x))
    assert out.dtype in (torch.bfloat16, torch.float32)
    assert torch.isfinite(out.float()).all()
    if training and out.requires_grad:
        out.float().sum().backward()
    reference = plain(kinds.made(kind).train(training)(x))
    assert torch.allclose(out.float(), reference, atol=0.1 * float(reference.detach().abs().max()) + 0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_double_precision(kind):
    module, x = kinds.made(kind).double(), kinds.example(kind)
    out = plain(module(x.double() if x.is_floating_point() else x))
    assert out.dtype == torch.float64


COMPILED = [k for k in KINDS if not k.startswith(("QuantRNN", "QuantLSTM"))]
"""Recurrent layers are unrolled: torch.compile takes minutes for them."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMPILED)
def test_compiled_layers_compute_the_same(kind):
    module, x = kinds.made(kind).eval(), kinds.example(kind)
    with torch.no_grad():
        expected = plain(module(x))
        torch._dynamo.reset()
        out = plain(torch.compile(module, backend="aot_eager")(x))
    assert torch.allclose(out, expected, atol=1e-6)


TRAINED = ["QuantLinear", "QuantConv2d", "QuantReLU", "QuantEltwiseAdd", "ClampQuantAccumulator"]


@pytest.mark.parametrize("kind", TRAINED)
def test_compiled_training_steps_compute_the_same(kind):
    x = kinds.example(kind)
    results = []
    for compiled in (False, True):
        module = kinds.made(kind)
        torch._dynamo.reset()
        run = torch.compile(module, backend="aot_eager") if compiled else module
        out = plain(run(x))
        out.square().sum().backward()
        results.append((out.detach(), {n: p.grad for n, p in module.named_parameters()}))
    assert torch.allclose(results[0][0], results[1][0], atol=1e-6)
    for name, gradient in results[0][1].items():
        assert torch.allclose(gradient, results[1][1][name], rtol=1e-4, atol=1e-5), name


DDP = """
import os, pathlib, sys, time, torch, torch.distributed as dist
sys.path.insert(0, {folder!r})
import layer_kinds as kinds
dist.init_process_group("gloo", init_method="file://{store}", rank=int(sys.argv[1]), world_size=2)
torch.set_num_threads(1)
for kind in sys.argv[2:]:
    module = kinds.made(kind, trained=False)
    if not list(module.parameters()):
        continue
    parallel = torch.nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.SGD(parallel.parameters(), 0.01)
    for step in range(3):
        torch.manual_seed(10 * step + dist.get_rank())
        optimizer.zero_grad()
        kinds.plain(parallel(kinds.example(kind))).square().mean().backward()
        optimizer.step()
    for name, parameter in module.named_parameters():
        mean = parameter.detach().clone()
        dist.all_reduce(mean)
        assert torch.allclose(mean / 2, parameter.detach(), atol=1e-6), (kind, name)
    print("ok", kind, flush=True)
# a process that leaves early would close the connection under the other one's last reduction
pathlib.Path("{store}" + sys.argv[1]).touch()
deadline = time.monotonic() + 60  # the other one may have failed
while not all(pathlib.Path("{store}" + rank).exists() for rank in "01") and time.monotonic() < deadline:
    time.sleep(0.05)
os._exit(0)  # all is printed; taking the process group down aborts now and then when the other one went first
"""


def test_training_in_two_processes(tmp_path):
    """Every kind of layer under DistributedDataParallel: parameters, scales included, stay equal."""
    script = tmp_path / "ddp.py"
    script.write_text(DDP.format(folder=str(pathlib.Path(__file__).parent), store=tmp_path / "store"))
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": env}
    processes = [subprocess.Popen([sys.executable, script, str(rank), *KINDS], **pipes) for rank in range(2)]
    outputs = [p.communicate(timeout=300) for p in processes]
    assert [p.returncode for p in processes] == [0, 0], [errors[-2000:] for _, errors in outputs]
    trained = [line.split()[1] for line in outputs[0][0].splitlines() if line.startswith("ok")]
    assert set(trained) >= set(KINDS) - {"ScaledDotProductAttention"}
