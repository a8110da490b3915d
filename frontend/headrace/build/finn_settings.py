"""Settings of FINN that mean nothing here: what happens to each, and why.

One that changes no result is accepted, with a warning when it is not at FINN's default. One whose neglect would change
what is built is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from headrace.build.vocabulary import (
    AutoFIFOSizingMethod,
    ComputeEngineMemMode,
    FpgaMemoryType,
    ShellFlowType,
    VitisOptStrategyCfg,
)
from headrace.errors import InputError

Lenient = Field(strict=False)
"""For members of an enumeration, which files give as text."""


@dataclass(frozen=True)
class NoEffect:
    """Accepted; *reason* completes "has no effect: "."""

    reason: str


@dataclass(frozen=True)
class Refused:
    """Refused when it is set; *reason* says why, and what to do."""

    reason: str


_FIFO = "FIFO depths are computed from a schedule by cycle; nothing is simulated to find them"
_DEVICE = "the design is the same for every device; `headrace synth --family` says what one needs for it"
_VENDOR = "no vendor tool is run; what is made is SystemVerilog that any of them reads"
_ROLLED = "every layer is hardware of its own; equal ones do not share it"
_WIDE = "activations of any width become thresholds, tables or arithmetic, whichever is cheapest"
_LOG = "set on the command line, with -v, -q and --debug"


class FinnSettings(BaseModel):
    """The fields of FINN's configuration that Headrace does not need, with FINN's defaults."""

    shell_flow_type: Annotated[Annotated[ShellFlowType, Lenient] | None, NoEffect(_DEVICE)] = None
    folding_two_pass_relaxation: Annotated[
        bool | None,
        NoEffect("when the rate cannot be reached, every layer is folded for the fastest that can, as if it were true"),
    ] = True
    stitched_ip_gen_dcp: Annotated[bool | None, NoEffect(_VENDOR)] = False
    signature: Annotated[
        list[int] | None, Refused("the design would hold registers that are not generated here; leave it out")
    ] = None
    minimize_bit_width: Annotated[
        bool | None, NoEffect("every width is the smallest that is proven to suffice; wider ones give the same values")
    ] = True
    auto_fifo_depths: Annotated[bool | None, NoEffect(_FIFO)] = True
    split_large_fifos: Annotated[bool | None, NoEffect("a FIFO of any depth is one module")] = False
    auto_fifo_strategy: Annotated[Annotated[AutoFIFOSizingMethod, Lenient] | None, NoEffect(_FIFO)] = (
        AutoFIFOSizingMethod.LARGEFIFO_RTLSIM
    )
    live_fifo_sizing: Annotated[bool | None, NoEffect(_FIFO)] = False
    fifosim_input_throttle: Annotated[bool | None, NoEffect(_FIFO)] = True
    fifosim_n_inferences: Annotated[int | None, NoEffect(_FIFO)] = None
    fifosim_save_waveform: Annotated[bool | None, NoEffect(_FIFO)] = False
    default_swg_exception: Annotated[bool | None, NoEffect(_FIFO)] = False
    hls_clk_period_ns: Annotated[
        float | None, NoEffect("the clock of the C++ project is set at the top of its files")
    ] = None
    vitis_platform: Annotated[str | None, NoEffect(_VENDOR)] = None
    vitis_floorplan_file: Annotated[Annotated[Path, Lenient] | None, NoEffect(_VENDOR)] = None
    vitis_opt_strategy: Annotated[str | None, NoEffect(_VENDOR)] = VitisOptStrategyCfg.DEFAULT
    fpga_memory: Annotated[Annotated[FpgaMemoryType, Lenient] | None, NoEffect(_VENDOR)] = FpgaMemoryType.DEFAULT
    enable_hw_debug: Annotated[bool | None, NoEffect(_VENDOR)] = False
    enable_instrumentation: Annotated[
        bool | None, NoEffect("the simulator counts cycles at the ends of the design, without a wrapper")
    ] = False
    enable_build_pdb_debug: Annotated[bool | None, NoEffect("an error ends the build with one sentence")] = True
    verbose: Annotated[bool | None, NoEffect(_LOG)] = False
    console_log_level: Annotated[str | None, NoEffect(_LOG)] = "NONE"
    max_multithreshold_bit_width: Annotated[int | None, NoEffect(_WIDE)] = 8
    rtlsim_use_vivado_comps: Annotated[bool | None, NoEffect("no component of a vendor is simulated")] = True
    force_rtl_conv_inp_gen: Annotated[bool | None, NoEffect("sliding windows are generated as RTL")] = False
    input_range_info: Annotated[
        list[Any] | None, Refused("declare the integer type of the input in the model, as qonnx annotates it")
    ] = None
    mlo: Annotated[bool | None, NoEffect(_ROLLED)] = False
    loop_body_hierarchy: Annotated[list[list[str]] | None, NoEffect(_ROLLED)] = None
    loop_body_range: Annotated[list[Any] | None, NoEffect(_ROLLED)] = None
    default_mem_mode: Annotated[
        Annotated[ComputeEngineMemMode, Lenient] | None,
        NoEffect("where constants lie follows from their size, or from ram_style in the folding"),
    ] = ComputeEngineMemMode.DECOUPLED
    requant_bitwidth_threshold: Annotated[int | None, NoEffect(_WIDE)] = 9
    preserve_thresh_shape: Annotated[bool | None, NoEffect(_WIDE)] = False
    infer_shuffle_skip_first: Annotated[
        bool | None, NoEffect("transposes are lowered with the other operators, or left to the host")
    ] = True
    verification_rtol: Annotated[float | None, NoEffect("verification_atol alone bounds a difference")] = None
    verify_nodewise_report: Annotated[
        bool | None, NoEffect("the first stream that differs is named, with frame and place")
    ] = False
    verify_rtlsim_behavioral: Annotated[bool | None, NoEffect("the RTL that is simulated is what is synthesised")] = (
        False
    )
    debug_fifo: Annotated[bool | None, NoEffect(_FIFO)] = False
    fifo_log_verbose: Annotated[bool | None, NoEffect(_FIFO)] = False
    fifo_log_flush: Annotated[bool | None, NoEffect(_FIFO)] = False
    fifosim_comm_mode: Annotated[str | None, NoEffect(_FIFO)] = None
    fifosim_mpi_launcher: Annotated[str | None, NoEffect(_FIFO)] = None
    fifosim_mpi_oversubscribe: Annotated[bool | None, NoEffect(_FIFO)] = None
    fifosim_mpi_args: Annotated[str | None, NoEffect(_FIFO)] = None
    characteristic_function_strategy: Annotated[str | None, NoEffect(_FIFO)] = None
    mute_config_assertions: Annotated[
        bool | None, NoEffect("settings that cannot be are refused before anything runs")
    ] = False
    enable_exception_snapshots: Annotated[bool | None, NoEffect("an error ends the build with one sentence")] = None
    enable_hw_sim: Annotated[bool | None, NoEffect(_VENDOR)] = False
    vivado_jobs: Annotated[int | None, NoEffect(_VENDOR)] = None
    partitioning_configuration: Annotated[
        dict[str, Any] | None, Refused("one design for one device is made; leave it out")
    ] = None
    cpp_driver_version: Annotated[str | None, NoEffect("no C++ driver is generated")] = "latest"

    def without_effect(self) -> list[str]:
        """One sentence for every setting that was given and changes nothing."""
        return [
            f"setting '{name}' has no effect: {why.reason}"
            for name, field in FinnSettings.model_fields.items()
            for why in field.metadata
            if isinstance(why, NoEffect) and getattr(self, name) not in (field.default, None)
        ]

    def refuse_what_cannot_be(self) -> None:
        """Refuse settings whose neglect would change what is built.

        Raises:
            InputError: names the setting, and what to do.
        """
        for name, field in FinnSettings.model_fields.items():
            for why in field.metadata:
                if isinstance(why, Refused) and getattr(self, name) is not None:
                    raise InputError(f"setting '{name}' of FINN cannot be honoured: {why.reason}")


def foreign_texts() -> dict[str, str]:
    """Why each of these settings has no meaning here, by name."""
    return {
        name: f"{'Refused' if isinstance(why, Refused) else 'No effect'}: {why.reason}."
        for name, field in FinnSettings.model_fields.items()
        for why in field.metadata
        if isinstance(why, NoEffect | Refused)
    }
