"""Properties that hold for whatever is drawn: layers equal int64, the compiler equals the library.

The default profile draws few examples; ``-m slow`` draws many. A counterexample that was found becomes a test with a
name in ``test_counterexamples.py``.
"""

from __future__ import annotations

import importlib.util
import itertools
import pathlib
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import headrace.nn as qnn
from headrace.export import export_qonnx
from headrace.ingest import from_proto
from headrace.passes import to_integer


def _load(name):
    spec = importlib.util.spec_from_file_location(f"contract_{name}", pathlib.Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


ref, drawn = _load("int64"), _load("drawn")
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.differing_executors]


def _few(examples):
    return settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=CHECKS)


def _many(examples):
    return settings(max_examples=examples, deadline=None, suppress_health_check=CHECKS)


def _layer_equals_int64(example):
    model = drawn.built(example)
    x = drawn.inputs(example, model)
    layer = model[1]
    with torch.no_grad():
        seen = model[0](x)
        out = layer(seen)
    assert layer.last_was_exact
    assert np.array_equal(out.numpy(), ref.layer_output(layer, seen))


def _compiler_equals_library(example, every_input=False, build=drawn.built):
    model = build(example)
    x = _every_input(model) if every_input else drawn.inputs(example, model)
    final = qnn.finalize(model)
    deployed = final(x).numpy()
    if not example.norm:
        with torch.no_grad():
            assert np.array_equal(model(x).value.numpy(), deployed)
    compiled = to_integer(from_proto(export_qonnx(model, x)))
    assert compiled.blockers == ()
    (feed,) = (str(n) for n in compiled.graph.inputs)
    (out,) = compiled.graph.run({feed: x.numpy()}).values()
    assert np.array_equal(out, deployed)


def _every_input(model, features=3):
    """All inputs of a dense layer with few features: every accumulator that can be reached."""
    out = model[0](torch.linspace(-50.0, 50.0, 20001))
    levels = out.value.detach().unique().tolist()
    levels = levels if len(levels) <= 16 else levels[:: max(1, len(levels) // 15)] + levels[-1:]
    return torch.tensor(list(itertools.product(levels, repeat=features)), dtype=torch.float32)


@_few(60)
@given(drawn.chains())
def test_layers_equal_int64(example):
    _layer_equals_int64(example)


@_few(10)
@given(drawn.chains())
def test_the_compiler_equals_the_library(example):
    _compiler_equals_library(example)


@_few(7)
@given(drawn.chains(("small",)))
def test_the_compiler_equals_the_library_on_every_input(example):
    _compiler_equals_library(example, every_input=True)


@_few(8)
@given(drawn.networks())
def test_networks(example):
    _compiler_equals_library(example, build=drawn.built_network)


@pytest.mark.slow
@_many(300)
@given(drawn.networks())
def test_networks_many(example):
    _compiler_equals_library(example, build=drawn.built_network)


@pytest.mark.slow
@_many(3000)
@given(drawn.chains())
def test_layers_equal_int64_many(example):
    _layer_equals_int64(example)


@pytest.mark.slow
@_many(400)
@given(drawn.chains())
def test_the_compiler_equals_the_library_many(example):
    _compiler_equals_library(example)


@pytest.mark.slow
@_many(300)
@given(drawn.chains(("small",)))
def test_the_compiler_equals_the_library_on_every_input_many(example):
    _compiler_equals_library(example, every_input=True)


def test_every_layer_with_weights_is_drawn():
    """What the strategies leave out, they leave out on purpose."""
    weighted = {
        name
        for name in qnn.__all__
        if isinstance(getattr(qnn, name), type)
        and issubclass(getattr(qnn, name), qnn.quant_layer.QuantWeightBiasInputOutputLayer)
    }
    seen = {layer.__name__ for layer, *_ in drawn.LAYERS.values()}
    elsewhere = {"QuantConv3d", "QuantConvTranspose3d"}  # three dimensions are not compiled; tests/nn has their sums
    elsewhere |= {"BatchNorm1dToQuantScaleBias", "BatchNorm2dToQuantScaleBias"}  # QuantScaleBias by another name
    assert weighted - seen - elsewhere == set()
    assert {n for n in qnn.__all__ if n.startswith("Quant")} >= set(drawn.ACTIVATIONS)
