"""VVAU: vector-vector-activation unit without the activation: a depthwise convolution."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, prod
from typing import ClassVar

import numpy as np

from headrace.arithmetic import DotProduct
from headrace.errors import FoldingError
from headrace.ir import Array, IntRange
from headrace.ir.integer import sliding_windows
from headrace.ir.op import QUIET
from headrace.ir.resampling import with_fill
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.memory import (
    Int,
    check_ram_style,
    index_bits,
    memory_text,
    packed_words,
    partial_sums,
    ram_style,
    rom_attribute,
    rom_resources,
    value_range,
)
from headrace.layers.parameter import WORD, Parameter, slots
from headrace.layers.programme import Programme
from headrace.layers.runtime import PARAMETER_RAM, not_in_cpp, parameter_resources, weight_memory, weight_settings
from headrace.layers.window import Window


@dataclass(frozen=True, eq=False)
class VVAU(Layer):
    """``y[..., c * M + m] = sum_k window[..., k, c] * weights[c, m, k]``: every channel has its own M kernels.

    The windows are made inside, in the order (window, channels, taps): their order depends on the folding, so they are
    no stream that another layer could give. ``pe`` channels and ``simd`` taps are worked on at a time, with all M
    kernels of a channel. Padding is the integer 0. Sums are kept modulo ``2**output.bits``, which the final ones fit.

    Args:
        weights: ``(C, M, taps)``.
        stream: the image ``(H, W, C)`` or ``(L, C)``; its ``elements`` are replaced by ``pe``.
        output: range of the results, which must be proven by the caller.
        simd: taps at a time: 1, a row of the kernel, or all.
        writable: integers that may take the place of any weight at run time; None for constants.
        style: arithmetic of a channel's dot products, M rows of SIMD lanes: see
            :class:`headrace.arithmetic.DotProduct`.

    Raises:
        ModelError: when a window does not fit into the padded image.
        FoldingError: when ``pe`` or ``simd`` is none of the legal values.
    """

    kind: ClassVar[str] = "VVAU"
    replaceable: ClassVar[bool] = True

    weights: Int
    stream: StreamType
    output: IntRange
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    pe: int = 1
    simd: int = 1
    style: str = "auto"
    writable: IntRange | None = field(default=None, metadata=QUIET)
    ram_style: str = field(default="auto", metadata=QUIET)

    def __post_init__(self) -> None:
        if self.weights.shape[0] != self.channels or self.weights.shape[2] != prod(self.kernel):
            raise ValueError(f"weights {self.weights.shape} for {self.channels} channels, kernel {list(self.kernel)}")
        check_ram_style(self.ram_style, "VVAU")
        if self.pe not in divisors(self.channels):
            valid = ", ".join(map(str, divisors(self.channels)))
            raise FoldingError(f"VVAU: PE={self.pe} does not divide {self.channels}; valid: {valid}")
        self.window  # noqa: B018  (refuses windows that do not fit, and other numbers of taps)
        if self.style != "auto" and self.style not in self.legal_styles:
            possible = ", ".join(self.legal_styles)
            raise ValueError(f"style {self.style!r} does not fit the operands; possible: {possible}")

    # -- shape and folding ------------------------------------------------------------------------------------------

    @property
    def channels(self) -> int:
        """Channels of the image."""
        return self.stream.shape[-1]

    @property
    def kernels(self) -> int:
        """Kernels, so outputs, per channel."""
        return int(self.weights.shape[1])

    @cached_property
    def window(self) -> Window:
        """The windows in words."""
        size, folds = self.stream.shape[:-1], self.channels // self.pe
        return Window.of(
            size, folds, self.kernel, self.strides, self.dilations, self.pads, taps=self.simd, depthwise=True
        )

    @property
    def passes(self) -> int:
        """Words read per result."""
        return self.window.kernel_taps // self.simd

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (StreamType(self.stream.shape, self.stream.range, self.pe),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        spatial = self.window.out[2 - len(self.kernel) :]
        return (StreamType((*spatial, self.channels * self.kernels), self.output, self.pe * self.kernels),)

    @property
    def cycles(self) -> int:
        return self.window.cycles

    @property
    def latency(self) -> int:
        return self.window.read_time(self.passes - 1) + 2 + self.dot.registers

    @property
    def folding(self) -> dict[str, int]:
        return {"PE": self.pe, "SIMD": self.simd}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        return {"PE": divisors(self.channels), "SIMD": self.window.tap_choices}

    @property
    def counts(self) -> dict[str, int]:
        x, w = self.stream.range.bits, self.weight_range.bits
        pixels = self.outputs[0].frame_elements // self.outputs[0].shape[-1]
        return {
            f"op_mac_{min(x, w)}bx{max(x, w)}b": pixels * self.weights.size,
            f"param_weight_{w}b": self.weights.size,
        }

    @property
    def weight_bits_a_pe(self) -> int:
        return self.simd * self.kernels * self.weight_range.bits

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        x = np.moveaxis(inputs[0].astype(np.int64), -1, 1)
        windows = sliding_windows(x, self.kernel, self.strides, self.dilations, self.pads, 0)
        # (N, C, *out, *kernel) -> (*kernel, N, *out, C, 1)
        spatial = len(self.kernel)
        taps = np.moveaxis(windows, tuple(range(-spatial, 0)), tuple(range(spatial)))
        taps = np.moveaxis(taps, spatial + 1, -1)[..., None]
        y = np.zeros((*taps.shape[spatial:-1], self.kernels), np.int64)
        for k, index in enumerate(np.ndindex(*self.kernel)):
            y += taps[index] * self.weights[:, :, k]
        return (y.reshape(*y.shape[:-2], -1),)

    def programme(self) -> Programme:
        """When words move in steady state."""
        taken, read, freed = self.window.times()
        return Programme((taken,), (read[self.passes - 1 :: self.passes],), (freed,), (self.window.depth,))

    # -- hardware ---------------------------------------------------------------------------------------------------

    @cached_property
    def weight_range(self) -> IntRange:
        """Range of the weights; bipolar when only -1 and +1 occur."""
        return self.writable or value_range(self.weights)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        if self.writable is None:
            return ()
        split = (self.channels // self.pe, self.pe, self.kernels, self.passes, self.simd)
        stride = slots(ceil(self.weight_word_bits / WORD))
        strides = (self.passes * stride, stride)
        return (Parameter("weights", self.weights, self.writable, split, (0, 3, 1, 2, 4), strides),)

    @property
    def weight_word_bits(self) -> int:
        """Bits of all weights that are read in a cycle."""
        return self.pe * self.kernels * self.simd * self.weight_range.bits

    @property
    def runtime_settings(self) -> dict[str, object]:
        return weight_settings(self.writable)

    @property
    def value_range(self) -> IntRange:
        """Range of what is multiplied: padding is 0, so that -1 and +1 become numbers."""
        return with_fill(self.stream.range, np.zeros(1, np.int64)) if self.window.padded else self.stream.range

    @property
    def constant_weights(self) -> bool:
        """Whether every weight has its own place: no memory."""
        return self.channels == self.pe and self.passes == 1 and self.writable is None

    @cached_property
    def dot(self) -> DotProduct:
        """The dot products of the taps of one channel with all its kernels, in the style in use."""
        used = self.simd if self.constant_weights else None
        dot = DotProduct.of_sums(
            self.kernels, self.simd, self.value_range, self.weight_range, self.output.bits, self.passes, used
        )
        return dot.chosen if self.style == "auto" else replace(dot, style=self.style)

    @property
    def legal_styles(self) -> tuple[str, ...]:
        """Arithmetic that fits the operands."""
        return self.dot.legal_styles

    @property
    def arithmetic(self) -> str:
        """The style in use."""
        return self.dot.style

    @property
    def style_in_use(self) -> str:
        return self.arithmetic

    @property
    def _cleared(self) -> bool:
        """Whether the words read are set to 0 in the padding, which registers in front of distributed memory can do."""
        word = self.inputs[0].word_bits
        distributed = ram_style(self.window.depth, word) == "distributed"
        return self.window.padded and not self.stream.range.bipolar and distributed

    @property
    def weight_words(self) -> Int:
        """Words of the weight memory: word (fold, pass), element (channel, kernel, tap)."""
        folds = self.channels // self.pe
        grid = self.weights.reshape(folds, self.pe, self.kernels, self.passes, self.simd)
        return grid.transpose(0, 3, 1, 2, 4).reshape(folds * self.passes, -1)

    def resources(self) -> Resources:
        """An estimate, calibrated against yosys in ``benchmarks/resource_model.py``."""
        dot, rows, word = self.dot.resources(), self.pe * self.kernels, self.inputs[0].word_bits
        total = Resources(
            lut=self.pe * dot.lut + rows * self.dot.bits,
            ff=self.pe * dot.ff + rows * self.dot.bits + 3.0 * self.dot.registers,
            dsp=self.pe * dot.dsp,
        )
        total += self.window.resources(word)
        if self.writable is not None:
            return total + parameter_resources(self.parameters, self.ram_style)
        if self.constant_weights:
            return total
        words = self.channels // self.pe * self.passes
        return total + rom_resources(words, self.weight_word_bits, self.ram_style)

    def rtl(self) -> RtlModule:
        words, constant, dot = self.weight_words, self.constant_weights, self.dot
        weight_bits = self.weight_word_bits
        context: dict[str, object] = {
            "config": None,
            "hold": self.writable is not None,
            "window": self.window,
            **self.window.context(self.inputs[0].word_bits),
            "pe": self.pe,
            "simd": self.simd,
            "kernels": self.kernels,
            "channels": self.channels,
            "x": self.stream.range,
            "w": self.weight_range,
            "dot": dot,
            "cleared": self._cleared,
            "start": -((self.window.kernel_taps + 1) // 2) if dot.halved else 0,
            "y_bits": self.output.bits,
            "depth": dot.registers,
            "out_bits": self.outputs[0].word_bits,
            "weight_bits": weight_bits,
            "weight_words": words.shape[0],
            "address_bits": index_bits(words.shape[0]),
            "rom_style": rom_attribute(words.shape[0], weight_bits, self.ram_style),
            "constant": packed_words(words, self.weight_range)[0] if constant else None,
            "cycles": self.cycles,
            "latency": self.latency,
        }
        if self.parameters:
            context["config"], memories = weight_memory(self.parameters[0], self.ram_style)
            return RtlModule("vvau.sv.j2", context, memories, (*dot.library, PARAMETER_RAM))
        memories = {} if constant else {"weights": memory_text(words, self.weight_range)}
        return RtlModule("vvau.sv.j2", context, memories, dot.library)

    def hls(self) -> HlsCall:
        if self.writable is not None:
            raise not_in_cpp(self)
        words = self.channels // self.pe * self.passes
        weights = HlsTable(
            self.weight_words.reshape(words, self.pe, self.kernels, self.simd),
            self.weight_range,
            together=(2, 3, 4),
            storage=ram_style(words, self.weight_word_bits, self.ram_style),
        )
        taps = self.weights.reshape(-1, self.weights.shape[2]).T
        acc = partial_sums(taps, self.stream.range)
        parameters = (*self.window.hls_parameters, ("passes", self.passes), ("acc_bits", acc.bits))
        window = self.window
        return HlsCall("vvau.hpp", "vvau", parameters, window.hls_cycles, {"weights": weights}, held=window.hls_held)
