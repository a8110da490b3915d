"""What scripts for FINN ask its configuration for besides the settings: the values that follow from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headrace.build.finn_basic import alveo_default_platform, part_map
from headrace.build.vocabulary import ShellFlowType, VerificationStepType
from headrace.errors import InputError
from headrace.ir import Array


class FinnMethods:
    """Methods of FINN's ``DataflowBuildConfig``, under their names there."""

    if TYPE_CHECKING:
        synth_clk_period_ns: float
        hls_clk_period_ns: float | None
        target_fps: float | None
        board: str | None
        fpga_part: str | None
        shell_flow_type: ShellFlowType | None
        vitis_platform: str | None
        verify_steps: list[VerificationStepType] | None
        verify_input_npy: str | None
        verify_expected_output_npy: str | None

    def _resolve_hls_clk_period(self) -> float:
        return self.synth_clk_period_ns if self.hls_clk_period_ns is None else self.hls_clk_period_ns

    def _resolve_cycles_per_frame(self) -> int | None:
        return None if self.target_fps is None else int(1e9 / self.synth_clk_period_ns / self.target_fps)

    def _resolve_fpga_part(self) -> str:
        return self.fpga_part if self.fpga_part is not None else _of_board(self.board, part_map, "fpga_part")

    def _resolve_vitis_platform(self) -> str:
        if self.vitis_platform is not None:
            return self.vitis_platform
        return _of_board(self.board, alveo_default_platform, "vitis_platform")

    def _resolve_driver_platform(self) -> str:
        """The drivers here are for a Zynq."""
        if self.shell_flow_type not in (None, ShellFlowType.VIVADO_ZYNQ):
            raise InputError(f"setting 'shell_flow_type': drivers are for {ShellFlowType.VIVADO_ZYNQ}")
        return "zynq-iodma"

    def _resolve_verification_steps(self) -> list[VerificationStepType]:
        return self.verify_steps or []

    def _resolve_verification_io_pair(self) -> tuple[Array, Array] | None:
        if self.verify_steps is None:
            return None
        pair = (self.verify_input_npy, self.verify_expected_output_npy)
        if missing := [path for path in pair if path is None or not Path(path).is_file()]:
            raise InputError(f"{missing[0]}: no such file; 'verify_steps' needs an input and an expected output")
        return np.load(str(pair[0])), np.load(str(pair[1]))


def _of_board(board: str | None, table: dict[str, str], setting: str) -> str:
    if board not in table:
        known = ", ".join(table)
        raise InputError(f"setting '{setting}' is missing, and board {board!r} does not say it; known: {known}")
    return table[board]
