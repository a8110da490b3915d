"""Random networks: every stage of the front half gives the same bits, and they are those of an independent oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from fuzz.executor import execute
from fuzz.networks import Network, random_network
from numpy.typing import NDArray

from headrace.errors import ModelError, UnsupportedError
from headrace.ingest import from_proto
from headrace.ir import Graph, IntRange, Value
from headrace.ir.ops import ToReal
from headrace.ir.real import Real
from headrace.ir.scaled import Scaled
from headrace.passes.to_integer import IntegerModel, to_integer

Array = NDArray[Any]

BLOCK = 20
FAST, SLOW = range(20), range(20, 300)
SAFE_MARGIN = 2e-5
"""Nearer to a decision, relative to the value, the rounding errors of another executor may decide otherwise."""


@pytest.mark.parametrize("block", FAST)
def test_networks(block: int) -> None:
    _check_block(block)


@pytest.mark.slow
@pytest.mark.parametrize("block", SLOW)
def test_more_networks(block: int) -> None:
    _check_block(block)


def _check_block(block: int) -> None:
    compiled = sum(_check(seed) for seed in range(block * BLOCK, (block + 1) * BLOCK))
    assert compiled > BLOCK // 2, "most networks must have a hardware part"


def _check(seed: int) -> bool:
    """Check one network; whether it has a hardware part."""
    network = random_network(seed)
    source = from_proto(network.model)
    try:
        real = source.run(network.feeds)
    except ModelError as error:
        if "accumulator could reach" not in str(error):
            raise
        return False
    for name, expected in network.expected.items():
        _equal(expected, real[name], f"seed {seed}: oracle and mode float differ in {name}")
    alone = source.run({name: x[-1:] for name, x in network.feeds.items()})
    for name, values in alone.items():
        _equal(real[name][-1:], values, f"seed {seed}: a frame of {name} depends on its batch")
    integer = to_integer(source)
    _check_integers(source, integer, network, seed)
    if network.exact or network.margin > SAFE_MARGIN:
        _check_executor(network, seed)
    return _check_partition(integer, network, seed)


def _equal(expected: Array, got: Array, message: str) -> None:
    assert got.dtype == expected.dtype, message
    assert np.array_equal(expected, got), f"{message}: {np.sum(expected != got)} of {expected.size}"


def _check_integers(source: Graph, integer: IntegerModel, network: Network, seed: int) -> None:
    """Integers stay in their types, and stand for exactly what mode float has at every node."""
    kept: dict[str, tuple[Array, ...]] = {}
    results = integer.graph.run(network.feeds, observe=lambda node, outputs: kept.update({node: outputs}))
    for name, expected in network.expected.items():
        _equal(expected, results[name], f"seed {seed}: mode float and mode integer differ in {name}")
    for node, outputs in kept.items():
        for port, output in enumerate(outputs):
            type_ = integer.graph.type(Value(node, port))
            if isinstance(type_.element, IntRange) and not isinstance(output, Real):
                _check_range(output, type_.element, f"seed {seed}: {node} leaves its type {type_}")
            assert np.shape(output.value if isinstance(output, Real) else output)[1:] == type_.shape, (seed, node)
    reals: dict[str, tuple[Any, ...]] = {}
    source.run(network.feeds, observe=lambda node, outputs: reals.update({node: outputs}))
    for value, known in integer.annotations.items():
        if isinstance(known, Scaled) and known.value.node in kept:
            q = kept[known.value.node][known.value.port]
            _check_range(q, known, f"seed {seed}: {value.node} leaves its bounds")
            stood_for: Any = ToReal(known.steps, known.scale, known.bias, known.clamp).execute(q)[0]
            _check_real(reals[value.node][value.port], stood_for, f"seed {seed}: {value.node}")


def _check_range(q: Array, bounds: IntRange | Scaled, message: str) -> None:
    assert np.all((q >= bounds.lo) & (q <= bounds.hi)), message
    assert not bounds.bipolar or np.all(q != 0), message


def _check_real(expected: Any, got: Real, message: str) -> None:
    if not isinstance(expected, Real):
        assert np.array_equal(expected, got.value), message
        return
    assert np.array_equal(expected.value, got.value), message
    assert (expected.grid is None) == (got.grid is None), f"{message}: one has a grid, the other has none"
    if expected.grid is not None and got.grid is not None:
        assert np.array_equal(expected.grid.q, got.grid.q), message
        shape = expected.value.shape[1:]
        for a, b in ((expected.grid.scale, got.grid.scale), (expected.grid.bias, got.grid.bias)):
            assert np.array_equal(np.broadcast_to(a, shape), np.broadcast_to(b, shape)), message


def _check_executor(network: Network, seed: int) -> None:
    for name, values in execute(network.model, network.feeds).items():
        expected = network.expected[name]
        if network.exact:
            assert np.array_equal(expected, values), f"seed {seed}: another executor differs in {name}"
        elif expected.dtype.kind == "f":
            size = float(np.max(np.abs(expected), initial=0))
            assert np.allclose(expected, values, rtol=1e-4, atol=1e-4 * size), f"seed {seed}: far off in {name}"


def _check_partition(integer: IntegerModel, network: Network, seed: int) -> bool:
    try:
        parts = integer.partition()
    except UnsupportedError as error:
        if not integer.blockers and "no quantizer followed" not in str(error):
            raise
        return False
    head = parts.head.run({name: network.feeds[name] for name in parts.head.inputs})
    known: dict[str, Array] = {**network.feeds, **head}
    known |= parts.core.run({name: known[name] for name in parts.core.inputs})
    results = parts.tail.run({name: known[name] for name in parts.tail.inputs})
    assert set(results) == set(network.expected), seed
    for name, expected in network.expected.items():
        _equal(expected, results[name], f"seed {seed}: the parts in turn differ in {name}")
    assert all(parts.core.type(Value(node)).is_integer for node in parts.core), seed
    return True


def test_the_oracle_reads_a_file_like_any_other() -> None:
    """The builder's expectations are those of the written model, not of something lost on the way to it."""
    network = random_network(3)
    model = onnx.load_model_from_string(network.model.SerializeToString())
    for name, values in from_proto(model).run(network.feeds).items():
        _equal(network.expected[name], values, name)
