"""Configurations made for FINN: every field is honoured, or has a reason, or is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headrace.build as build
import headrace.build.config as build_cfg
from headrace.build.config import BuildConfig, DataflowBuildConfig, read_finn_config
from headrace.build.finn_settings import FinnSettings, Refused
from headrace.build.schema import config_schema, field_texts
from headrace.errors import HeadraceError, InputError

DEFAULTS: dict[str, Any] = {
    "specialize_layers_config_file": None,
    "folding_config_file": None,
    "target_fps": None,
    "folding_two_pass_relaxation": True,
    "verify_steps": None,
    "verify_input_npy": "input.npy",
    "verify_expected_output_npy": "expected_output.npy",
    "verify_save_full_context": False,
    "verify_save_rtlsim_waveforms": False,
    "stitched_ip_gen_dcp": False,
    "signature": None,
    "mvau_wwidth_max": 36,
    "standalone_thresholds": False,
    "minimize_bit_width": True,
    "board": None,
    "shell_flow_type": None,
    "fpga_part": None,
    "auto_fifo_depths": True,
    "split_large_fifos": False,
    "auto_fifo_strategy": "largefifo_rtlsim",
    "force_python_rtlsim": False,
    "large_fifo_mem_style": "auto",
    "fifosim_input_throttle": True,
    "fifosim_save_waveform": False,
    "hls_clk_period_ns": None,
    "default_swg_exception": False,
    "vitis_platform": None,
    "vitis_floorplan_file": None,
    "vitis_opt_strategy": "default",
    "save_intermediate_models": True,
    "enable_hw_debug": False,
    "enable_build_pdb_debug": True,
    "verbose": False,
    "steps": None,
    "start_step": None,
    "stop_step": None,
    "max_multithreshold_bit_width": 8,
    "rtlsim_batch_size": 1,
    "rtlsim_use_vivado_comps": True,
    "input_range_info": None,
}
"""FINN's optional fields, with its defaults."""

OTHERS: dict[str, Any] = {
    "default_mem_mode": "const",
    "force_rtl_conv_inp_gen": True,
    "fpga_memory": "host_memory",
    "enable_instrumentation": True,
    "live_fifo_sizing": True,
    "cpp_driver_version": "1",
    "console_log_level": "INFO",
    "requant_bitwidth_threshold": 7,
    "preserve_thresh_shape": True,
    "infer_shuffle_skip_first": False,
    "verification_rtol": 0.5,
    "verify_nodewise_report": True,
    "verify_rtlsim_behavioral": True,
    "debug_fifo": True,
    "fifo_log_verbose": True,
    "fifo_log_flush": True,
    "fifosim_n_inferences": 2,
    "fifosim_comm_mode": "shm",
    "fifosim_mpi_launcher": "mpirun",
    "fifosim_mpi_oversubscribe": True,
    "fifosim_mpi_args": "-n 2",
    "characteristic_function_strategy": "rtlsim",
    "mute_config_assertions": True,
    "enable_exception_snapshots": True,
    "enable_hw_sim": True,
    "vivado_jobs": 2,
    "mlo": True,
    "loop_body_hierarchy": [["", "layers.0"]],
    "loop_body_range": ["a", "b"],
}
"""Fields of FINN before 0.10 and of 2026, and of FINN+, with values that are not their defaults."""

REQUIRED: dict[str, Any] = {"output_dir": "out", "synth_clk_period_ns": 5.0, "generate_outputs": ["estimate_reports"]}


def test_finns_defaults_are_accepted_in_silence() -> None:
    assert DataflowBuildConfig(**REQUIRED, **DEFAULTS).without_effect() == []
    config = DataflowBuildConfig(**REQUIRED)
    assert {name: _plain(getattr(config, name)) for name in DEFAULTS} == DEFAULTS


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path | build.AutoFIFOSizingMethod) else value


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_field_is_honoured_or_explained(name: str) -> None:
    other = {
        "auto_fifo_strategy": "characterize",
        "large_fifo_mem_style": "ultra",
        "shell_flow_type": "vitis_alveo",
        "signature": [1, 2],
        "input_range_info": [0],
        "hls_clk_period_ns": 3.0,
    }
    default = DEFAULTS[name]
    value = other.get(name, not default if isinstance(default, bool) else 7 if isinstance(default, int) else "x")
    field = FinnSettings.model_fields.get(name)
    if field is None:
        assert name in BuildConfig.model_fields
        assert not field_texts()[name].startswith("No effect")
    elif any(isinstance(why, Refused) for why in field.metadata):
        with pytest.raises(InputError, match=f"'{name}' of FINN cannot be honoured"):
            DataflowBuildConfig(**REQUIRED, **{name: value})
    else:
        (warning,) = DataflowBuildConfig(**REQUIRED, **{name: value}).without_effect()
        assert warning.startswith(f"setting '{name}' has no effect: ")


@pytest.mark.parametrize("name", OTHERS)
def test_fields_of_other_versions_are_explained(name: str) -> None:
    (warning,) = DataflowBuildConfig(**REQUIRED, **{name: OTHERS[name]}).without_effect()
    assert warning.startswith(f"setting '{name}' has no effect: ")


def test_every_foreign_field_is_tried() -> None:
    assert set(FinnSettings.model_fields) <= {*DEFAULTS, *OTHERS, "partitioning_configuration"}
    with pytest.raises(InputError, match="one design for one device"):
        DataflowBuildConfig(**REQUIRED, partitioning_configuration={"num_fpgas": 2})


def test_every_setting_has_a_text_and_the_shipped_schema_is_current() -> None:
    assert set(field_texts()) == set(BuildConfig.model_fields)
    shipped = Path(build_cfg.__file__).with_name("config.schema.json").read_text(encoding="utf-8")
    assert shipped == config_schema(), "renew it with: headrace schema > frontend/headrace/build/config.schema.json"
    schema = json.loads(shipped)
    assert schema["additionalProperties"] is False
    assert all("description" in field for field in schema["properties"].values())


def test_the_names_of_finn() -> None:
    config = build_cfg.DataflowBuildConfig(
        output_dir="out",
        mvau_wwidth_max=80,
        synth_clk_period_ns=10,
        board="Pynq-Z1",
        shell_flow_type=build_cfg.ShellFlowType.VIVADO_ZYNQ,
        steps=[*build_cfg.estimate_only_dataflow_steps, "step_hw_codegen"],
        generate_outputs=[build_cfg.DataflowOutputType.STITCHED_IP, build_cfg.DataflowOutputType.BITFILE],
        verify_steps=[build_cfg.VerificationStepType.STITCHED_IP_RTLSIM],
        auto_fifo_strategy=build_cfg.AutoFIFOSizingMethod.CHARACTERIZE,
        large_fifo_mem_style=build_cfg.LargeFIFOMemStyle.BRAM,
        vitis_opt_strategy=build_cfg.VitisOptStrategyCfg.PERFORMANCE_BEST,
    )
    assert config.clock_mhz == 100
    assert config.steps == build.hw_codegen_dataflow_steps
    again = DataflowBuildConfig.from_json(config.to_json())
    assert again == config
    config.target_fps = 5
    with pytest.raises(InputError, match="target_fps"):
        config.target_fps = -5
    assert build.default_build_dataflow_steps[-1] == "step_deployment_package"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "must hold an object"),
        ('{"output_dir": "x", "synth_clk_period_ns": 5}', "'generate_outputs' is missing"),
        ('{"output_dir": "x", "synth_clk_period_ns": 5, "generate_outputs": ["stiched_ip"]}', "generate_outputs.0"),
        ('{"output_dir": "x", "synth_clk_period_ns": 5, "generate_outputs": [], "bord": 1}', "did you mean 'board'?"),
        ('{"output_dir": "x", "synth_clk_period_ns": 0, "generate_outputs": []}', "synth_clk_period_ns"),
        ('{"output_dir": 3, "synth_clk_period_ns": 5, "generate_outputs": []}', "output_dir"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(HeadraceError) as caught:
        read_finn_config(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_finn_config(tmp_path / "none.json")


def test_paths_of_a_file_are_read_from_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "dataflow_build_config.json"
    path.write_text(json.dumps({**REQUIRED, "folding_config_file": "f.json"}))
    config = read_finn_config(path)
    assert config.output_dir == str(tmp_path / "out")
    assert config.folding_config_file == str(tmp_path / "f.json")
    assert config.verify_input_npy == str(tmp_path / "input.npy")


@pytest.mark.parametrize("clock", [100, 125, 200, 300, 333.25, 1000 / 3])
def test_a_clock_in_megahertz_is_kept_exactly(clock: float) -> None:
    assert BuildConfig.checked(clock_mhz=clock).clock_mhz == pytest.approx(clock, rel=1e-11)
    if clock == int(clock):
        assert BuildConfig.checked(clock_mhz=clock).clock_mhz == clock
    with pytest.raises(InputError, match="both given"):
        BuildConfig.checked(clock_mhz=clock, synth_clk_period_ns=5.0)
