"""Every hardware layer's C++ against its numpy reference: the cases of the conformance suite of the RTL."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from layers import cases
from layers.conformance import Int, input_names, output_names, random_frames

from headrace.codegen.names import Namespace, identifier
from headrace.errors import UnsupportedError
from headrace.layers import Layer, load_layers
from headrace.layers.hls import HlsCall
from headrace_sim import CsimOptions, CsimResult, csim
from hls.bench import build_bench
from hls.vendor import apache_types

FRAMES = 6

EVERY: dict[str, dict[str, Layer]] = {
    module.name: importlib.import_module(f"layers.cases.{module.name}").CASES
    for module in pkgutil.iter_modules(cases.__path__)
}
GROUPS = {
    name: chosen for name, layers in EVERY.items() if (chosen := {k: v for k, v in layers.items() if not v.parameters})
}
"""The cases by kind; constants that are written at run time are in SystemVerilog only."""

WRITABLE = [
    pytest.param(layer, id=f"{group}-{case}")
    for group, layers in EVERY.items()
    for case, layer in layers.items()
    if layer.parameters
]
ALL = [pytest.param(group, case, id=f"{group}-{case}") for group, layers in GROUPS.items() for case in layers]

STRICT = CsimOptions(
    dataflow=True, bit_accurate=True, sanitize=True, optimize="0", flags=("-Wall", "-Wextra", "-Wconversion", "-Werror")
)
"""As it is synthesised, to the bit, side by side, watched by the sanitizers, without a warning."""

Runs = Callable[[str], CsimResult]


@cache
def frames_of(group: str) -> Mapping[str, Int]:
    """Input frames of every case, by tensor name."""
    rng = np.random.default_rng(2025)
    return {
        name: random_frames(stream, FRAMES, rng)
        for case, layer in GROUPS[group].items()
        for name, stream in zip(input_names(case, layer), layer.inputs, strict=True)
    }


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """One program for each file of cases."""

    @cache
    def run(group: str) -> CsimResult:
        return csim(build_bench(GROUPS[group], tmp_path_factory.mktemp(group)), frames_of(group), options=STRICT)

    return run


def test_every_kind_has_a_template_and_a_case() -> None:
    load_layers()
    kinds = {kind for kind in subclasses(Layer) if kind.__module__.startswith("headrace.") and "kind" in vars(kind)}
    covered = {type(layer) for layers in EVERY.values() for layer in layers.values()}
    assert {layer.__name__ for layer in kinds - covered} == set()
    assert [layer.__name__ for layer in kinds if layer.hls is Layer.hls] == []


def subclasses(base: type[Layer]) -> Iterator[type[Layer]]:
    """All classes that derive from *base*."""
    for derived in base.__subclasses__():
        yield derived
        yield from subclasses(derived)


def function_name(case: str, group: str) -> str:
    """What the function of *case* is called in the program of its *group*."""
    names = Namespace()
    return next(identifier(f"bench_{name}") for other in GROUPS[group] if (name := names.new(other)) and other == case)


def assert_values(group: str, case: str, result: CsimResult) -> None:
    """The outputs of *case* are what the layer computes."""
    layer = GROUPS[group][case]
    expected = layer.execute(*(frames_of(group)[name] for name in input_names(case, layer)))
    for name, values in zip(output_names(case, layer), expected, strict=True):
        np.testing.assert_array_equal(result.outputs[name], values.reshape(FRAMES, -1))


@pytest.mark.parametrize(("group", "case"), ALL)
def test_values(runs: Runs, group: str, case: str) -> None:
    """The C++ gives what the layer computes, reads every word and leaves none over."""
    assert_values(group, case, runs(group))


@pytest.mark.parametrize(("group", "case"), ALL)
def test_cycles(runs: Runs, group: str, case: str) -> None:
    """The loop of the function has as many iterations a frame as it says."""
    call = GROUPS[group][case].hls()
    if isinstance(call, HlsCall):
        assert runs(group).iterations[function_name(case, group)] == FRAMES * call.cycles


@pytest.mark.parametrize("layer", WRITABLE)
def test_constants_written_at_run_time_are_refused(layer: Layer) -> None:
    """What C++ cannot say is refused by name, with what would be accepted."""
    with pytest.raises(UnsupportedError, match=rf"layer kind {layer.kind} with .*=1 .* use the backend 'rtl'"):
        layer.hls()


@pytest.mark.parametrize("group", GROUPS)
def test_values_with_the_originals(group: str, tmp_path: Path) -> None:
    """The first and the last case of each kind, compiled against the Apache-licensed types that others carry."""
    types = apache_types()
    names = list(GROUPS[group])
    chosen = {case: GROUPS[group][case] for case in (names[0], names[-1])}
    manifest = build_bench(chosen, tmp_path, own_types=False)
    inputs = {name: frames_of(group)[name] for case, layer in chosen.items() for name in input_names(case, layer)}
    options = CsimOptions(bit_accurate=True, optimize="0", flags=("-DAP_INT_MAX_W=4096", "-isystem", str(types)))
    result = csim(manifest, inputs, options=options)
    for case in chosen:
        assert_values(group, case, result)
