"""The build as a list of steps: chosen, replaced, stopped, continued, and compared with what the user expects."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from models import quantized_mlp
from qonnx.core.modelwrapper import ModelWrapper

import headrace
import headrace.build as build
from headrace.build import BuildConfig, BuildState, DataflowBuildConfig
from headrace.build.failed import folder_of_failure
from headrace.build.journal import Journal
from headrace.build.step_list import known_steps, resolve_steps
from headrace.build.steps import STEPS
from headrace.errors import FoldingError, InputError, VerificationError
from headrace.ir import Graph
from headrace.schedule import solve_folding
from headrace.schedule.streams import layers

TIMED = ("build.log", "time_per_step.json", "report/index.html", "report/report.json")
"""Files of a build that say how long something took."""


def contents(folder: Path, without: tuple[str, ...] = ()) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data for name, data in files.items() if name not in without}


def test_equal_builds_are_equal_byte_for_byte(tiny_model: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        outputs = ["estimate_reports", "stitched_ip"]
        headrace.build(tiny_model, tmp_path / name, target_fps=1e6, generate_outputs=outputs, backend="both")
    one, two = contents(tmp_path / "one", TIMED), contents(tmp_path / "two", TIMED)
    assert one == two
    assert set(TIMED) <= set(contents(tmp_path / "one"))
    assert len(one) > 20


def test_files_have_finns_names(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    design = headrace.build(tiny_model, out, target_fps=1e6, generate_outputs=["estimate_reports", "stitched_ip"])
    cycles = json.loads((out / "report/estimate_layer_cycles.json").read_text())
    performance = json.loads((out / "report/estimate_network_performance.json").read_text())
    resources = json.loads((out / "report/estimate_layer_resources.json").read_text())
    counts = json.loads((out / "report/op_and_param_counts.json").read_text())
    final = json.loads((out / "final_hw_config.json").read_text())
    assert cycles["MVAU_0"] == design.hardware.graph.op("fc0").cycles  # type: ignore[attr-defined]
    assert performance["max_cycles"] == max(cycles.values())
    assert cycles[performance["max_cycles_node_name"]] == performance["max_cycles"]
    assert performance["estimated_throughput_fps"] == 200e6 / performance["max_cycles"]
    assert resources["total"]["LUT"] >= resources["MVAU_0"]["LUT"] > 0
    assert counts["MVAU_0"] == {"op_mac_3bx3b": 96, "param_weight_3b": 96}
    assert counts["total"]["op_mac_3bx3b"] == 136
    assert final["FIFO_0"]["depth"] >= 2
    assert headrace.build(tiny_model, tmp_path / "again", folding=out / "final_hw_config.json").folder
    for name in ("template_folding_config.json", "auto_folding_config.json", "time_per_step.json"):
        assert (out / name).is_file()
    listed = (out / "stitched_ip/all_verilog_srcs.txt").read_text().split()
    assert listed
    assert sorted(listed) == sorted(path.name for path in (out / "rtl").glob("*.sv"))


def test_stop_and_start_give_the_same_build(tiny_model: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"target_fps": 1e6, "folding": {"MVAU_1": {"PE": 1, "SIMD": 2}}}
    headrace.build(tiny_model, tmp_path / "whole", **settings)
    names = [step.__name__ for step in STEPS]
    for stop in names[:-1]:
        out = tmp_path / stop
        headrace.build(tiny_model, out, **settings, stop_step=stop)
        assert not (out / "intermediate_models" / f"{names[names.index(stop) + 1]}.json").exists()
        headrace.build(None, out, **settings, start_step=names[names.index(stop) + 1])
        assert contents(out, TIMED) == contents(tmp_path / "whole", TIMED), stop
        assert set(json.loads((out / "time_per_step.json").read_text())) == set(names)
        assert headrace.load(out).run({"x": np.zeros((1, 12), np.float32)})["label"].shape == (1, 1)


def test_graphs_are_those_of_the_end(tiny_model: Path, tmp_path: Path) -> None:
    """The folding file comes after the rate, and a build that goes on after an earlier one."""
    for folding in ({"MVAU_0": {"PE": 8, "SIMD": 12}}, {"MVAU_0": {"PE": 1, "SIMD": 1}}):
        earlier = (tmp_path / "out").exists()
        start = "apply_folding" if earlier else None
        headrace.build(tiny_model, tmp_path / "out", target_fps=1e6, folding=folding, start_step=start)
        for stage in ("folded", "hardware"):
            graph = Graph.load(tmp_path / "out" / "intermediate_models" / f"read.{stage}.graph")
            assert layers(graph)["fc0"].folding == folding["MVAU_0"], stage


def test_layers_in_two_languages_by_finns_file(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "specialize.json"
    path.write_text(
        '{"Defaults": {}, "MVAU_0": {"preferred_impl_style": "hls"}, "MVAU_1": {"preferred_impl_style": ""}}'
    )
    settings: dict[str, Any] = {"target_fps": 1e6, "specialize_layers_config_file": path}
    design = headrace.build(tiny_model, tmp_path / "out", **settings)
    assert design.hardware.backends == {"fc0": "hls"}
    assert headrace.load(tmp_path / "out").hardware.backends == {"fc0": "hls"}
    headrace.build(tiny_model, tmp_path / "two", **settings, stop_step="specialize")
    headrace.build(None, tmp_path / "two", **settings, start_step="fold_to_rate")
    assert contents(tmp_path / "two", TIMED) == contents(tmp_path / "out", TIMED)
    path.write_text('{"MVAU_7": {"preferred_impl_style": "hls"}}')
    with pytest.raises(FoldingError, match="MVAU_7"):
        headrace.build(tiny_model, tmp_path / "out", **settings)


def test_a_partial_build_is_a_build(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    design = headrace.build(tiny_model, out, stop_step="lower")
    assert not (out / "design.json").exists()
    assert not design.reached("hardware")
    assert headrace.load(out).name == "tiny"
    assert headrace.build(tiny_model, out).folder == out, "and may be replaced"


def test_where_a_build_cannot_start(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(InputError, match="no result of step 'analyse' to start from"):
        headrace.build(None, out, start_step="lower")
    assert not out.exists()
    with pytest.raises(InputError, match=r"no step 'lowr' \(did you mean 'lower'\?\)"):
        headrace.build(tiny_model, out, stop_step="lowr")
    with pytest.raises(InputError, match="'read' comes before 'start_step', 'lower'"):
        headrace.build(tiny_model, out, start_step="lower", stop_step="read")
    headrace.build(tiny_model, out, save_intermediate_models=False)
    before = contents(out)
    with pytest.raises(InputError, match="no result of step"):
        headrace.build(None, out, start_step="generate")
    assert contents(out) == before
    with pytest.raises(InputError, match="expected a path, not int"):
        headrace.build(tiny_model, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there is no model"):
        headrace.build(None, out)


def test_the_graphs_of_a_build_can_be_loaded(tiny_model: Path, tmp_path: Path) -> None:
    design = headrace.build(tiny_model, tmp_path / "out")
    folder = tmp_path / "out" / "intermediate_models"
    found = {path.name.split(".")[1]: Graph.load(path) for path in folder.glob("*.graph")}
    assert set(found) == {"integer", "unfolded", "folded", "hardware"}
    assert str(found["integer"]) == str(design.integer.graph)
    assert str(found["hardware"]) == str(design.hardware.graph)


def test_damaged_checkpoints_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headrace.build(tiny_model, out)
    kept = out / "intermediate_models" / "verify.json"
    good = json.loads(kept.read_text())
    for bad, says in (
        ("{", "not JSON"),
        ("[]", "another version"),
        (json.dumps({**good, "version": 0}), "another version"),
        (json.dumps({**good, "model": "../../etc/passwd"}), "cannot be restored"),
        (json.dumps({**good, "folding": {"MVAU_0": {"PE": 7}}}), "cannot be restored"),
        (json.dumps({**good, "comparisons": [1]}), "cannot be restored"),
        (json.dumps({k: v for k, v in good.items() if k != "folding"}), "cannot be restored"),
    ):
        kept.write_text(bad)
        with pytest.raises(InputError, match=says):
            headrace.build(None, out, start_step="estimate")


# -- steps of a user's own ------------------------------------------------------------------------------------------


def refold(state: BuildState, config: BuildConfig) -> BuildState:
    unfolded = state.design.unfolded
    state.note("as parallel as can be")
    return state.with_stage(folded=unfolded.with_graph(solve_folding(unfolded.graph, 8)))


def test_a_step_may_take_the_place_of_another(tiny_model: Path, tmp_path: Path) -> None:
    names = [step.__name__ for step in STEPS]
    steps = [refold if name == "fold_to_rate" else name for name in names]
    out = tmp_path / "out"
    design = headrace.build(tiny_model, out, steps=steps)
    assert max(layer.cycles for layer in layers(design.unfolded.graph).values()) > 8
    assert design.performance.interval <= 12
    assert "refold" in (out / "build.log").read_text()
    assert "as parallel as can be" in (out / "build.log").read_text()
    reopened = headrace.load(out)
    assert reopened.plan.files == design.plan.files
    x = {"x": np.random.default_rng(0).normal(0, 1, (5, 12)).astype(np.float32)}
    assert np.array_equal(reopened.run(x, mode="float")["label"], reopened.run(x, mode="integer")["label"])
    headrace.build(None, out, steps=steps, start_step="connect")
    assert headrace.load(out).plan.files == design.plan.files


def test_what_a_checkpoint_does_not_hold_is_said(tiny_model: Path, tmp_path: Path) -> None:
    def other_hardware(state: BuildState, config: BuildConfig) -> BuildState:
        return state.with_stage(hardware=replace(state.design.hardware, notes=("changed",)))

    names: list[Any] = [step.__name__ for step in STEPS]
    names.insert(names.index("verify"), other_hardware)
    design = headrace.build(tiny_model, tmp_path / "out", steps=names)
    assert design.hardware.notes == ("changed",)
    with pytest.raises(InputError, match="step 'other_hardware' changed it in its own way; start at an earlier step"):
        headrace.build(None, tmp_path / "out", steps=names, start_step="generate")
    headrace.build(None, tmp_path / "out", steps=names, start_step="connect")


def test_a_step_of_finn_gets_the_model(tmp_path: Path) -> None:
    seen = []

    def step_scale(model: ModelWrapper, cfg: BuildConfig) -> ModelWrapper:
        seen.append(type(model).__name__)
        (weights,) = [t for t in model.graph.initializer if t.name == "fc0_quant_scale"]
        weights.CopyFrom(onnx.numpy_helper.from_array(np.float32(0.25), weights.name))
        return model

    model = ModelWrapper(quantized_mlp((12, 8, 5), 3, seed=1, argmax=False))
    steps = [step_scale, *(step.__name__ for step in STEPS)]
    design = headrace.build(model, tmp_path / "out", steps=steps)
    plain = headrace.load(model)
    x = {"x": np.random.default_rng(0).normal(0, 1, (5, 12)).astype(np.float32)}
    assert seen == ["ModelWrapper"]
    assert not np.array_equal(design.run(x)["fc1_out"], plain.run(x)["fc1_out"])
    assert np.array_equal(design.run(x)["fc1_out"], headrace.load(tmp_path / "out").run(x)["fc1_out"])
    late = [*(step.__name__ for step in STEPS), step_scale]
    with pytest.raises(InputError, match="cannot be replaced once its layers are folded"):
        headrace.build(model, tmp_path / "out", steps=late)


def test_steps_that_are_none(tiny_model: Path, tmp_path: Path) -> None:
    def forgets(state: BuildState, config: BuildConfig) -> None:
        pass

    out = tmp_path / "out"
    for steps, says in (
        (["step_tidy_upp"], r"there is no step 'step_tidy_upp' \(did you mean 'step_tidy_up'\?\)"),
        (["read", "read"], "two steps are called 'read'"),
        ([], "the list is empty"),
        ([lambda state, config: state], "is not the name of a function"),
        ([forgets], "step 'forgets' returned NoneType"),
    ):
        with pytest.raises(InputError, match=says):
            headrace.build(tiny_model, out, steps=steps)  # type: ignore[arg-type]
    assert not out.exists()


def test_every_step_of_finn_is_known() -> None:
    config = DataflowBuildConfig(output_dir="out", synth_clk_period_ns=5.0, generate_outputs=[])
    assert [step.name for step in resolve_steps(config)] == build.default_build_dataflow_steps
    assert "step_make_pynq_driver" in known_steps()
    assert not any(step.own for step in resolve_steps(config))


# -- the expected output --------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A model with real outputs, an input, and what it gives."""
    onnx.save(quantized_mlp((12, 8, 5), 3, seed=1, argmax=False), str(tmp_path / "m.onnx"))
    x = np.random.default_rng(0).normal(0, 1, (4, 12)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", headrace.load(tmp_path / "m.onnx").run({"x": x})["fc1_out"])
    return tmp_path / "m.onnx", tmp_path / "x.npy", tmp_path / "y.npy"


def check(pair: tuple[Path, Path, Path], out: Path, journal: Journal | None = None, **settings: Any) -> None:
    files = {"verify_input_npy": pair[1], "verify_expected_output_npy": pair[2]}
    steps = ["initial_python", "streamlined_python"]
    headrace.build(pair[0], out, journal=journal, **{"verify_steps": steps, **files, **settings})


def test_the_expected_output_is_compared(pair: tuple[Path, Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    check(pair, out)
    expected = np.load(pair[2])
    for stage in ("initial_python", "streamlined_python"):
        got = [np.load(out / f"verification_output/verify_{stage}_{frame}_SUCCESS.npy") for frame in range(4)]
        assert np.array_equal(np.concatenate(got), expected)
    report = json.loads((out / "report/report.json").read_text())
    assert "expected output = streamlined_python" in {c["stages"] for c in report["comparisons"]}
    assert "that of 4 frames at initial_python, streamlined_python. The generated System" in report["verdict"]
    check(pair, out, verify_save_full_context=True)
    with np.load(out / "verification_output/verify_initial_python_0_SUCCESS.npz") as archive:
        assert {"fc0", "fc1_out"} <= set(archive.files)


def test_a_difference_ends_the_build_and_keeps_the_earlier_one(pair: tuple[Path, Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    check(pair, out)
    before = contents(out)
    y = np.load(pair[2])
    y[2, 3] += 1e-6 * max(abs(y[2, 3]), 1)
    np.save(pair[2], y)
    with pytest.raises(VerificationError, match=r"expected output = initial_python.*first in frame 2 at \[3\]"):
        check(pair, out)
    assert contents(out) == before
    left = folder_of_failure(out)
    assert left == tmp_path / "out.failed"
    kept = sorted(path.name for path in (left / "verification_output").iterdir())
    assert kept == [f"verify_initial_python_{k}_{'FAIL' if k == 2 else 'SUCCESS'}.npy" for k in range(4)]
    page = (left / "report" / "index.html").read_text()
    assert "Not exact: expected output = initial_python" in page
    assert "first in frame 2 at [3]" in json.loads((left / "failed.json").read_text())["error"]
    assert not (left / "build.json").exists()  # it is no build
    journal = Journal()
    check(pair, out, journal, finn_compatible=True)
    assert not left.exists()
    assert sum("1 of 20 values of 'fc1_out' differ from the expected output" in text for text in journal.warnings) == 2
    y[2, 3] += 0.1
    np.save(pair[2], y)
    with pytest.raises(VerificationError, match=r"; see .*out\.failed/report/index\.html$"):
        check(pair, out, finn_compatible=True)
    (left / "failed.json").unlink()
    (left / "mine").touch()
    with pytest.raises(VerificationError) as error:
        check(pair, out, finn_compatible=True)
    assert "; see" not in str(error.value)
    assert (left / "mine").is_file()  # what no build put there stays


def test_files_that_do_not_fit(pair: tuple[Path, Path, Path], tmp_path: Path) -> None:
    out, bad = tmp_path / "out", tmp_path / "bad.npy"
    np.save(bad, np.zeros((3, 5)))
    with pytest.raises(InputError, match=r"holds 3 frames, but .*x\.npy holds 4"):
        check(pair, out, verify_expected_output_npy=bad)
    np.save(bad, np.zeros((4, 7)))
    with pytest.raises(InputError, match="holds an array"):
        check(pair, out, verify_input_npy=bad)
    bad.write_text("text")
    with pytest.raises(InputError, match="not a readable"):
        check(pair, out, verify_input_npy=bad)
    with pytest.raises(InputError, match="no such file"):
        check(pair, out, verify_input_npy=tmp_path / "none.npy")
    np.save(bad, np.array([None]), allow_pickle=True)
    with pytest.raises(InputError, match="not a readable"):
        check(pair, out, verify_input_npy=bad)
    assert not out.exists()


# -- FINN's own example ---------------------------------------------------------------------------------------------

EXAMPLE = Path(__file__).resolve().parents[2].parent / "shared" / "finn_build_dataflow"


@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="FINN's example folder is not here")
def test_finns_example_builds_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "finn"
    shutil.copytree(EXAMPLE, folder)
    settings = json.loads((folder / "dataflow_build_config.json").read_text())
    settings |= {"verify_save_rtlsim_waveforms": False, "force_python_rtlsim": False}  # compiles faster
    (folder / "dataflow_build_config.json").write_text(json.dumps(settings))
    assert build.build_dataflow_directory(folder) == 0
    out = folder / "output_tfc_w1a1_Pynq-Z1"
    for stage in settings["verify_steps"]:
        got = [np.load(out / f"verification_output/verify_{stage}_{n}_SUCCESS.npy").ravel() for n in range(4)]
        assert np.array_equal(np.concatenate(got), np.load(folder / "expected_output.npy"))
    log = (out / "build.log").read_text()
    assert """key "MVA_hls_3": there is no such layer (did you mean 'MVAU_3'?)""" in log
    assert list(json.loads((out / "time_per_step.json").read_text())) == build.default_build_dataflow_steps
    folding = json.loads((out / "folding.json").read_text())
    assert {k: folding["MVAU_0"][k] for k in ("PE", "SIMD")} == {"PE": 16, "SIMD": 49}
    measured = json.loads((out / "report/rtlsim_performance.json").read_text())
    assert measured["throughput[images/s]"] == pytest.approx(measured["N"] * 100e6 / measured["cycles"], rel=1e-12)
    assert (out / "stitched_ip/all_verilog_srcs.txt").is_file()
    assert "simulated in this build, too" in json.loads((out / "report/report.json").read_text())["verdict"]
    with pytest.raises(FoldingError, match=r"MVA_hls_3|Thresholding_rtl_0"):
        headrace.build(folder / "model.onnx", tmp_path / "own", folding=folder / "folding_config.json")
