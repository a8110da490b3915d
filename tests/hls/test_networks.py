"""Whole networks in C simulation: outputs, and every stream between the layers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hardware.cores import mlp, random_frames
from hardware.simulated import Settings

from headrace.build import build, load
from headrace.build.verify import compare_simulation
from headrace.codegen.design import generate
from headrace.codegen.hls import assemble_hls
from headrace.codegen.plan import write_plan
from headrace.errors import FoldingError, InputError, UnsupportedError, VerificationError
from headrace.ir import Graph, IntRange
from headrace.layers import StreamType
from headrace.layers.base import Layer
from headrace.layers.duplicate_streams import DuplicateStreams
from headrace.layers.fifo import FIFO
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import schedule
from headrace_sim import CsimOptions, ManifestError, csim, simulate
from hls.bench import top_of
from hls.networks import TFC, bipolar_mlp, check_hls, residual_network

NETWORKS: dict[str, Callable[[], Graph]] = {
    "tfc_1_bit": bipolar_mlp,
    "tfc_2_bit": lambda: mlp(TFC, seed=3),
    "residual": residual_network,
}
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs(name: str, tmp_path: Path) -> None:
    """As a user runs it: optimised, in built-in integers, without a warning."""
    core = NETWORKS[name]()
    check_hls(core, random_frames(core, 40), tmp_path / "design", CsimOptions(flags=WARNINGS))


def test_every_stream(tmp_path: Path) -> None:
    """Traced, under the sanitizers."""
    core = residual_network()
    options = CsimOptions(trace=True, sanitize=True, optimize="0", flags=WARNINGS)
    check_hls(core, random_frames(core, 3), tmp_path / "design", options)


def test_project_runs_by_itself(tmp_path: Path) -> None:
    """``make`` in the generated folder compiles it and finds the expected outputs; wrong ones it reports."""
    plan = generate(schedule(to_hardware(mlp()), Settings()), "net", "hls")
    write_plan(plan, tmp_path / "design")
    folder = tmp_path / "design" / "hls"
    command = ["make", "CXXFLAGS=-O0 -Wall -Wextra -Wconversion -Werror"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "4 frames, as expected" in done.stdout
    expected = folder / "tb" / "expected0.hex"
    lines = expected.read_text().splitlines()
    lines[5] = f"{int(lines[5], 16) ^ 1:0{len(lines[5])}x}"
    expected.write_text("\n".join(lines) + "\n")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "differs from tb/expected0.hex in word 5" in done.stderr


def test_same_text_every_time() -> None:
    design = schedule(to_hardware(mlp()), Settings())
    assert generate(design, "net", "hls").files == generate(design, "net", "hls").files


def test_backends_together() -> None:
    """Both backends give what each gives alone."""
    design = schedule(to_hardware(mlp()), Settings())
    both, rtl, hls = (generate(design, "net", backend).files for backend in ("both", "rtl", "hls"))
    alone = {**rtl, **hls}
    assert set(both) == set(alone)
    assert all(both[path] == alone[path] for path in both if path != "design.json")


# -- a user's models ---------------------------------------------------------------------------------------------------


def test_modes_of_a_model(tiny_model: Path, tmp_path: Path) -> None:
    """A build of either backend runs in both modes; outputs equal those of the model."""
    x = {"x": np.random.default_rng(0).normal(size=(20, 12)).astype(np.float32)}
    expected = load(tiny_model).run(x, "float")["label"]
    assert np.array_equal(load(tiny_model).run(x, "hls")["label"], expected)
    design = build(tiny_model, tmp_path / "out", backend="hls")
    assert not (tmp_path / "out" / "rtl").exists()
    assert np.array_equal(load(tmp_path / "out").run(x, "hls")["label"], expected)
    simulation = design.csim(x, trace=True)
    assert np.array_equal(simulation.outputs["label"], expected)
    compared = compare_simulation(design, x, simulation)
    assert {c.tensor for c in compared} == set(design.plan.streams.values())
    last = next(reversed(simulation.result.streams))
    simulation.result.streams[last][3, 0] ^= 1
    with pytest.raises(VerificationError, match=rf"layers = C\+\+: '{last}' differs in 1 of .* frame 3"):
        compare_simulation(design, x, simulation)


def test_unknown_backend(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="backend"):
        build(tiny_model, tmp_path / "out", backend="vhdl")  # type: ignore[typeddict-item]
    assert not (tmp_path / "out").exists()


def test_simulators_say_what_is_missing(tmp_path: Path) -> None:
    design = schedule(to_hardware(mlp()), Settings())
    feeds = design.pack_frames(random_frames(mlp(), 2))
    write_plan(generate(design, "net", "hls"), tmp_path / "hls")
    write_plan(generate(design, "net"), tmp_path / "rtl")
    with pytest.raises(ManifestError, match="no RTL"):
        simulate(tmp_path / "hls", feeds)
    with pytest.raises(ManifestError, match=r"no C\+\+"):
        csim(tmp_path / "rtl", feeds)


# -- what is refused ---------------------------------------------------------------------------------------------------


class WithoutTemplate(DuplicateStreams):
    """A layer that has no C++."""

    kind = "WithoutTemplate"
    hls = Layer.hls


def test_layer_without_template() -> None:
    layer = WithoutTemplate(StreamType((4,), IntRange(0, 3)), 2)
    with pytest.raises(UnsupportedError, match=r"'odd': layer kind WithoutTemplate has no HLS template"):
        assemble_hls(top_of({"odd": layer}))


def test_words_too_wide() -> None:
    layer = FIFO(StreamType((600,), IntRange(0, 255), 600))
    with pytest.raises(FoldingError, match="'input0' has words of 4800 bits"):
        assemble_hls(top_of({"wide": layer}))


def test_name_with_a_meaning_in_cpp(tmp_path: Path) -> None:
    """A model may be called main."""
    core = mlp((4, 3))
    design = schedule(to_hardware(core), Settings())
    write_plan(generate(design, "main", "hls"), tmp_path / "design")
    assert (tmp_path / "design" / "hls" / "main_top.cpp").is_file()
    feeds = random_frames(core, 2)
    result = csim(tmp_path / "design", design.pack_frames(feeds), options=CsimOptions(optimize="0"))
    assert np.array_equal(design.unpack_frames(result.outputs)["y"], core.run(feeds)["y"])
