"""What build scripts for FINN do: steps of their own, names of all versions, and reading what a build leaves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from models import quantized_mlp
from qonnx.core.datatype import DataType
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.transformation.general import GiveReadableTensorNames, GiveUniqueNodeNames
from qonnx.transformation.insert_topk import InsertTopK

import headrace
import headrace.build as build
import headrace.build.config as build_cfg
import headrace.build.finn_transformations as to_hw
from headrace.build import DataflowBuildConfig
from headrace.build.finn_basic import alveo_default_platform, alveo_part_map, make_build_dir, part_map, pynq_part_map
from headrace.build.finn_steps import build_dataflow_step_lookup, step_hw_codegen, step_tidy_up, verify_step
from headrace.build.finn_transformations import Streamline
from headrace.build.own_steps import same_function
from headrace.build.step_list import resolve_steps
from headrace.build.vocabulary import PHASES
from headrace.errors import InputError, VerificationError


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network that ends in real numbers, in the folder where a script runs."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantized_mlp((12, 8, 5), 3, seed=1, argmax=False), "model.onnx")
    return tmp_path / "model.onnx"


@pytest.fixture(autouse=True)
def lookup() -> Iterator[None]:
    """FINN's table of steps as it was."""
    before = dict(build_dataflow_step_lookup)
    yield
    build_dataflow_step_lookup.clear()
    build_dataflow_step_lookup.update(before)


def configured(**settings: Any) -> DataflowBuildConfig:
    return DataflowBuildConfig(**{"output_dir": "out", "synth_clk_period_ns": 10.0, "generate_outputs": [], **settings})


def step_top1(model, cfg):  # type: ignore[no-untyped-def]  # as scripts for FINN have it
    return model.transform(InsertTopK(k=1))


# -- paths ----------------------------------------------------------------------------------------------------------


def test_paths_are_text_to_be_put_together(model: Path) -> None:
    cfg = configured(output_dir=Path("out"), generate_outputs={build_cfg.DataflowOutputType.ESTIMATE_REPORTS})
    assert build.build_dataflow_cfg(model_filename="model.onnx", cfg=cfg) == 0
    assert os.path.isfile(cfg.output_dir + "/report/estimate_layer_cycles.json")
    assert cfg.verify_input_npy == "input.npy"
    assert cfg.to_dict()["output_dir"] == "out"


def test_a_step_of_ones_own_writes_where_the_build_does(model: Path) -> None:
    folders = []

    def step_notes(model, cfg):  # type: ignore[no-untyped-def]
        folders.append(cfg.output_dir)
        os.makedirs(cfg.output_dir + "/notes", exist_ok=True)
        Path(cfg.output_dir + "/notes/own.txt").write_text("mine")
        return model

    cfg = configured(steps=[*build_cfg.estimate_only_dataflow_steps, step_notes])
    build.build_dataflow_cfg("model.onnx", cfg)
    assert Path("out/notes/own.txt").read_text() == "mine"
    assert folders != ["out"]
    assert cfg.output_dir == "out"


# -- steps of ones own ----------------------------------------------------------------------------------------------


def test_steps_are_given_the_model_without_an_annotation(model: Path) -> None:
    def by_any_name(m, c):  # type: ignore[no-untyped-def]
        assert isinstance(m, ModelWrapper)
        return step_top1(m, c)

    for first in (step_top1, by_any_name):
        build.build_dataflow_cfg("model.onnx", configured(steps=[first, *build_cfg.estimate_only_dataflow_steps]))
        assert "LabelSelect_0" in json.loads(Path("out/template_folding_config.json").read_text())


def test_natively_a_parameter_called_model_is_the_model(model: Path) -> None:
    design = headrace.build("model.onnx", "out", steps=[step_top1, "read"])
    assert [design.source.types(node)[0].shape for node in design.source][-1] == (1,)

    def step_of_state(state, config):  # type: ignore[no-untyped-def]
        state.note("a state")
        return state

    headrace.build("model.onnx", "out", steps=["read", step_of_state])
    build.build_dataflow_cfg("model.onnx", configured(steps=["step_tidy_up", step_of_state]))
    assert "a state" in Path("out/build.log").read_text()


def test_steps_put_into_finns_table_are_found(model: Path) -> None:
    build_dataflow_step_lookup["step_preprocess_InsertTopK"] = step_top1
    steps = ["step_preprocess_InsertTopK", *build_cfg.estimate_only_dataflow_steps]
    cfg = configured(steps=steps)
    assert json.loads(cfg.to_json())["steps"] == steps
    build.build_dataflow_cfg("model.onnx", DataflowBuildConfig.from_json(cfg.to_json()))
    assert "LabelSelect_0" in json.loads(Path("out/final_hw_config.json").read_text())


def step_names(model, cfg):  # type: ignore[no-untyped-def]
    return model.transform(GiveUniqueNodeNames()).transform(GiveReadableTensorNames())


def test_other_names_are_no_other_model(model: Path) -> None:
    steps = [*build_cfg.hw_codegen_dataflow_steps, step_names, "step_hw_ipgen", step_names, "step_create_stitched_ip"]
    build.build_dataflow_cfg("model.onnx", configured(steps=steps, generate_outputs=["stitched_ip"]))
    assert Path("out/stitched_ip/all_verilog_srcs.txt").is_file()
    assert headrace.load("out").source.inputs == ("x",)


def test_another_model_makes_layers_anew_until_they_are_folded(model: Path) -> None:
    names = build_cfg.estimate_only_dataflow_steps
    after = names.index("step_convert_to_hw") + 1
    build.build_dataflow_cfg("model.onnx", configured(steps=[*names[:after], step_top1, *names[after:]]))
    assert "LabelSelect_0" in json.loads(Path("out/template_folding_config.json").read_text())
    with pytest.raises(InputError, match="cannot be replaced once its layers are folded"):
        build.build_dataflow_cfg("model.onnx", configured(steps=[*names, step_top1], target_fps=1000))

    def step_unsigned(model, cfg):  # type: ignore[no-untyped-def]  # the same nodes, and another type of the input
        model.set_tensor_datatype(model.graph.input[0].name, DataType["UINT4"])
        return model

    with pytest.raises(InputError, match="cannot be replaced"):
        build.build_dataflow_cfg("model.onnx", configured(steps=[*names, step_unsigned], target_fps=1000))


def test_an_error_of_a_step_that_looks_for_layers_says_where_they_are(model: Path) -> None:
    def step_layers(model, cfg):  # type: ignore[no-untyped-def]
        return model.get_nodes_by_op_type("MVAU_hls")[0]

    with pytest.raises(IndexError) as caught:
        build.build_dataflow_cfg("model.onnx", configured(steps=[*build_cfg.estimate_only_dataflow_steps, step_layers]))
    assert "layers are no nodes of the model here" in caught.value.__notes__[0]


def test_settings_that_a_step_changes_hold_for_those_that_follow(model: Path) -> None:
    Path("folding.json").write_text('{"MVAU_0": {"PE": 2}}')
    seen = []

    def step_prefer_hls(model, cfg):  # type: ignore[no-untyped-def]  # as scripts for FINN's template do
        path = cfg.output_dir + "/template_specialize_layers_config.json"
        layers = json.loads(Path(path).read_text())
        for key in layers:
            layers[key]["preferred_impl_style"] = "hls"
        Path(path).write_text(json.dumps(layers))
        cfg.specialize_layers_config_file = path
        seen.append(cfg.folding_config_file)
        cfg.folding_config_file = "other.json"
        return model

    Path("other.json").write_text('{"MVAU_0": {"PE": 4}}')
    names = build_cfg.hw_codegen_dataflow_steps
    at = names.index("step_specialize_layers")
    cfg = configured(steps=[*names[:at], step_prefer_hls, *names[at:]], folding_config_file="folding.json")
    build.build_dataflow_cfg("model.onnx", cfg)
    assert seen == ["folding.json"]
    design = headrace.load("out")
    assert set(design.hardware.backends.values()) == {"hls"}
    assert json.loads(Path("out/final_hw_config.json").read_text())["MVAU_0"]["PE"] == 4
    assert "changed settings: specialize_layers_config_file, folding_config_file" in Path("out/build.log").read_text()

    def step_list(model, cfg):  # type: ignore[no-untyped-def]
        cfg.steps = ["step_tidy_up"]
        return model

    with pytest.raises(InputError, match="'step_list' changed the setting 'steps' of a build that is under way"):
        build.build_dataflow_cfg("model.onnx", configured(steps=[step_list, *names]))


# -- what is left to read -------------------------------------------------------------------------------------------


def test_files_that_scripts_change_and_give_back(model: Path) -> None:
    """As FINN's tutorial of advanced settings does: the automatic folding with another ram_style, and all in C++."""
    outputs = ["estimate_reports"]
    cfg = configured(steps=build_cfg.estimate_only_dataflow_steps, target_fps=1e6, generate_outputs=outputs)
    build.build_dataflow_cfg("model.onnx", cfg)
    folding = json.loads(Path("out/auto_folding_config.json").read_text())
    changed = [key for key in folding if "ram_style" in folding[key]]
    assert [key for key in changed if key.startswith("MVAU")] == ["MVAU_0", "MVAU_1"]
    assert all(folding[key]["runtime_writeable_weights"] == 0 for key in ("MVAU_0", "MVAU_1", "Thresholding_0"))
    for key in changed:
        folding[key]["ram_style"] = "block"
    Path("block.json").write_text(json.dumps(folding))
    layers = json.loads(Path("out/template_specialize_layers_config.json").read_text())
    assert layers["Defaults"] == {}
    assert {key: row["preferred_impl_style"] for key, row in layers.items() if row} == dict.fromkeys(
        ["MVAU_0", "Thresholding_0", "MVAU_1"], ""
    )
    for key in layers:
        if "preferred_impl_style" in layers[key]:
            layers[key]["preferred_impl_style"] = "hls"
    Path("hls.json").write_text(json.dumps(layers))
    cfg = configured(
        output_dir="again",
        steps=build_cfg.hw_codegen_dataflow_steps,
        folding_config_file="block.json",
        specialize_layers_config_file="hls.json",
        generate_outputs=outputs,
    )
    build.build_dataflow_cfg("model.onnx", cfg)
    final = json.loads(Path("again/final_hw_config.json").read_text())
    for key in ("MVAU_0", "Thresholding_0", "MVAU_1"):
        assert {**final[key], "ram_style": "", "backend": ""} == {**folding[key], "ram_style": "", "backend": ""}
    assert final["MVAU_0"]["ram_style"] == "block"
    assert "warning" not in Path("again/build.log").read_text()
    total = json.loads(Path("again/report/estimate_layer_resources.json").read_text())["total"]
    assert (
        total["BRAM_18K"]
        > json.loads(Path("out/report/estimate_layer_resources.json").read_text())["total"]["BRAM_18K"]
    )


def test_reports_hold_numbers_that_scripts_add_up(model: Path) -> None:
    outputs = ["estimate_reports", "rtlsim_performance"]
    build.build_dataflow_cfg("model.onnx", configured(generate_outputs=outputs, rtlsim_batch_size=3))
    for name in ("estimate_layer_resources", "op_and_param_counts"):
        rows = json.loads(Path(f"out/report/{name}.json").read_text())
        total = rows.pop("total")
        for kind in total:
            assert sum(float(row.get(kind, 0)) for row in rows.values()) >= total[kind] > -1, kind
    simulated = json.loads(Path("out/report/rtlsim_performance.json").read_text())
    seconds = simulated["runtime[ms]"] / 1000
    assert simulated["N"] == 3
    assert simulated["throughput[images/s]"] == pytest.approx(3 / seconds)
    assert simulated["DRAM_in_bandwidth[MB/s]"] == pytest.approx(3 * 12 / 1e6 / seconds)
    assert simulated["DRAM_out_bandwidth[MB/s]"] == pytest.approx(3 * 5 / 1e6 / seconds)


# -- names of steps -------------------------------------------------------------------------------------------------

EARLIER = [
    "step_qonnx_to_finn", "step_tidy_up", "step_streamline", "step_convert_to_hls", "step_create_dataflow_partition",
    "step_target_fps_parallelization", "step_apply_folding_config", "step_generate_estimate_reports",
    "step_hls_codegen", "step_hls_ipgen", "step_set_fifo_depths", "step_create_stitched_ip", "step_make_pynq_driver",
]  # fmt: skip

OF_FINN_PLUS = [
    "step_passes_frontend", "step_convert_to_hw", "step_minimize_bit_width_initial", "step_create_dataflow_partition",
    "step_specialize_layers", "step_loop_rolling", "step_transpose_decomposition", "step_generate_estimate_reports",
    "step_generate_hardware", "step_create_stitched_ip", "step_make_driver",
]  # fmt: skip


@pytest.mark.parametrize("steps", [EARLIER, OF_FINN_PLUS, list(PHASES)])
def test_steps_of_every_version_run(model: Path, steps: list[str]) -> None:
    outputs = ["estimate_reports", "stitched_ip", "pynq_driver"]
    build.build_dataflow_cfg("model.onnx", configured(steps=steps, generate_outputs=outputs))
    for name in ("report/estimate_layer_cycles.json", "stitched_ip/all_verilog_srcs.txt", "driver/driver.py"):
        assert Path("out", name).is_file(), name


def test_phases_are_their_steps() -> None:
    cfg = configured(steps=list(PHASES), stop_step="phase_optimize_hardware")
    inner = [name for steps in PHASES.values() for name in steps]
    assert [step.name for step in resolve_steps(cfg)] == inner
    assert len(build.resolve_build_steps(cfg)) == inner.index("step_generate_estimate_reports") + 1
    assert len(build.resolve_build_steps(cfg, partial=False)) == len(inner)
    first = configured(steps=list(PHASES), start_step="phase_build_hardware")
    assert build.resolve_build_steps(first)[0] is step_hw_codegen


def test_steps_are_injected_around_others() -> None:
    cfg = configured(
        steps=["phase_prepare_model", "step_streamline"],
        inject_steps_before={"phase_prepare_model": [step_top1], "step_streamline": ["step_tidy_up"]},
        inject_steps_after={"step_qonnx_to_finn": [step_names]},
    )
    found = [step.name for step in resolve_steps(cfg)]
    assert found == [
        "step_top1", "step_qonnx_to_finn", "step_names", "step_tidy_up", "step_tidy_up_again", "step_streamline",
    ]  # fmt: skip
    assert json.loads(cfg.to_json())["inject_steps_after"] == {"step_qonnx_to_finn": ["step_names"]}
    with pytest.raises(InputError, match=r"'inject_steps_after': there is no step 'step_tidy' \(did you mean"):
        resolve_steps(configured(inject_steps_after={"step_tidy": [step_top1]}))


def test_functions_by_their_module_are_not_imported() -> None:
    with pytest.raises(InputError, match=r"'os\.system' is a function of a Python module.*import it in a build script"):
        resolve_steps(configured(steps=["os.system"]))


def test_steps_called_with_a_model(model: Path) -> None:
    wrapped = ModelWrapper("model.onnx")
    with pytest.warns(UserWarning, match=r"step_tidy_up\(\) leaves the model as it is"):
        assert step_tidy_up(wrapped, configured()) is wrapped  # type: ignore[arg-type, comparison-overlap]
    with pytest.raises(InputError, match=r"'step_hw_codegen' was called with a ModelWrapper.*build_dataflow_cfg"):
        build_dataflow_step_lookup["step_hw_codegen"](wrapped, configured())  # type: ignore[arg-type]


# -- verification ---------------------------------------------------------------------------------------------------


def step_own_streamline(model, cfg):  # type: ignore[no-untyped-def]
    if build_cfg.VerificationStepType.STREAMLINED_PYTHON in cfg._resolve_verification_steps():
        verify_step(model, cfg, "streamlined_python", need_parent=False)
    return model


def test_a_step_of_ones_own_verifies(model: Path) -> None:
    x = np.random.default_rng(0).normal(0, 1, (2, 12)).astype(np.float32)
    expected = headrace.load("model.onnx").run({"x": x}, mode="float")["fc1_out"]
    np.save("input.npy", x)
    np.save("expected_output.npy", expected)
    steps = [step_own_streamline if name == "step_streamline" else name for name in build_cfg.hw_codegen_dataflow_steps]
    cfg = configured(steps=steps, verify_steps=["streamlined_python"])
    build.build_dataflow_cfg("model.onnx", cfg)
    assert sorted(os.listdir(cfg.output_dir + "/verification_output")) == [
        "verify_streamlined_python_0_SUCCESS.npy",
        "verify_streamlined_python_1_SUCCESS.npy",
    ]
    assert "not compared" not in Path("out/build.log").read_text()
    np.save("expected_output.npy", expected + 1)
    with pytest.raises(VerificationError, match="streamlined_python"):
        build.build_dataflow_cfg("model.onnx", cfg)
    cfg.verification_atol = 2.0
    with pytest.warns(UserWarning, match="by at most 1; verification_atol=2 accepts that"):
        build.build_dataflow_cfg("model.onnx", cfg)
    with pytest.raises(InputError, match="'stitched_ip_rtlsim' is compared by steps of Headrace"):
        verify_step(ModelWrapper("model.onnx"), cfg, "stitched_ip_rtlsim", need_parent=True)


def test_what_no_step_compares_is_said(model: Path) -> None:
    np.save("input.npy", np.zeros((1, 12), np.float32))
    np.save("expected_output.npy", np.zeros((1, 5), np.float32))
    cfg = configured(steps=["step_tidy_up", "step_convert_to_hw"], verify_steps=["streamlined_python"])
    build.build_dataflow_cfg("model.onnx", cfg)
    assert "'streamlined_python' was not compared: 'step_streamline', which does it, is not in the list" in (
        Path("out/build.log").read_text()
    )


# -- transformations, boards and what follows from settings ----------------------------------------------------------


def test_transformations_of_finn_change_nothing(model: Path) -> None:
    wrapped, before = ModelWrapper("model.onnx"), onnx.load("model.onnx")
    with pytest.warns(UserWarning, match="Streamline of FINN has no effect: it is not needed; delete it"):
        wrapped = wrapped.transform(Streamline())
    with pytest.warns(UserWarning, match="SetFolding of FINN has no effect: give 'target_fps'"):
        wrapped = wrapped.transform(to_hw.SetFolding(1000, mvau_wwidth_max=36))
    assert same_function(wrapped.model, before)
    with pytest.raises(AttributeError, match=r"no transformation 'InferPol' .*did you mean 'InferPool'"):
        to_hw.InferPol  # noqa: B018
    with pytest.raises(ImportError):
        from headrace.build.finn_transformations import InferPol  # noqa: F401


def test_boards_are_known_by_finns_tables() -> None:
    assert alveo_part_map["U250"] == part_map["U250"] == configured(board="U250")._resolve_fpga_part()
    assert set(alveo_default_platform) == set(alveo_part_map)
    assert "Pynq-Z1" in pynq_part_map
    assert set(pynq_part_map) | set(alveo_part_map) < set(part_map)
    folder = make_build_dir("build_mine_")
    assert "build_mine_" in folder
    os.rmdir(folder)


def test_what_follows_from_settings(tmp_path: Path) -> None:
    cfg = configured(board="ZCU104", target_fps=1000, verify_input_npy=str(tmp_path / "x.npy"), verify_steps=[])
    assert cfg._resolve_cycles_per_frame() == 100_000
    assert cfg._resolve_hls_clk_period() == 10.0
    assert configured(hls_clk_period_ns=3.0)._resolve_hls_clk_period() == 3.0
    assert configured()._resolve_cycles_per_frame() is None
    assert configured(fpga_part="xc7z020clg400-1")._resolve_fpga_part() == "xc7z020clg400-1"
    assert configured(board="U50")._resolve_vitis_platform() == alveo_default_platform["U50"]
    assert cfg._resolve_driver_platform() == "zynq-iodma"
    assert cfg._resolve_verification_steps() == []
    assert configured()._resolve_verification_io_pair() is None
    with pytest.raises(InputError, match=r"x\.npy: no such file"):
        cfg._resolve_verification_io_pair()
    with pytest.raises(InputError, match="'fpga_part' is missing"):
        configured()._resolve_fpga_part()
    with pytest.raises(InputError, match="'vitis_platform' is missing"):
        cfg._resolve_vitis_platform()
    with pytest.raises(InputError, match="'shell_flow_type'"):
        configured(shell_flow_type="vitis_alveo")._resolve_driver_platform()


def test_configurations_in_yaml(tmp_path: Path) -> None:
    text = "output_dir: out\nsynth_clk_period_ns: 1e1\ngenerate_outputs: [estimate_reports]\nauto_fifo_depths: False\n"
    cfg = DataflowBuildConfig.from_yaml(text)
    assert cfg.synth_clk_period_ns == 10.0
    assert len(cfg.without_effect()) == 1
    path = tmp_path / "build.yml"
    path.write_text(text)
    assert build_cfg.read_finn_config(path).output_dir == str(tmp_path / "out")
    assert DataflowBuildConfig.from_dict(cfg.to_dict()) == cfg
    for wrong, says in (
        ("a: [", "is not YAML"),
        ("- a", "must hold an object"),
        (text + "board: x\nboard: y", "twice"),
    ):
        path.write_text(wrong)
        with pytest.raises(InputError, match=says):
            build_cfg.read_finn_config(path)


def test_settings_that_are_none_cannot_be_set_later() -> None:
    cfg = configured()
    with pytest.raises(InputError, match=r"unknown setting 'target_fp' \(did you mean 'target_fps'"):
        cfg.target_fp = 5  # type: ignore[attr-defined]
