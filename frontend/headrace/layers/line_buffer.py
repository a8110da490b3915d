"""Line buffers: whole windows of an image without padding from one pixel a cycle, each pixel remembered once.

Rendered by ``swg_lines.sv.j2``. The window slides with the pixels that come: its taps are shift registers, and the rows
above the newest are lines of memory that hand each pixel on to the line above. Of a ring (:mod:`headrace.layers.ring`),
which can read any word at any time, every tap would need a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.layers.base import Resources
from headrace.layers.memory import index_bits, memory_resources, ram_style
from headrace.layers.window import Window


@dataclass(frozen=True)
class SlideAxis:
    """Counters along one axis of ``size`` positions, for windows of ``span`` positions every ``stride``."""

    name: str
    size: int
    span: int
    stride: int

    @property
    def bits(self) -> int:
        """Width of the position."""
        return index_bits(self.size)

    @property
    def wait_bits(self) -> int:
        """Width of the count until the next window ends; 0 when one ends everywhere."""
        return max(self.span - 1, self.stride - 1).bit_length()


@dataclass(frozen=True)
class LineBuffer:
    """The constants of the template for *window*, which must be one that :meth:`fits`."""

    window: Window

    @staticmethod
    def fits(window: Window) -> bool:
        """Whether *window* is read whole, a pixel a word, and has no padding."""
        whole = window.taps == window.kernel_taps > 1 and window.folds == 1
        return whole and not window.padded and window.size[1] > 1

    @property
    def spans(self) -> tuple[int, int]:
        """Rows and columns from the first to the last tap of a window."""
        kernel, dilations = self.window.kernel, self.window.dilations
        return (kernel[0] - 1) * dilations[0] + 1, (kernel[1] - 1) * dilations[1] + 1

    @property
    def axes(self) -> tuple[SlideAxis, ...]:
        """Columns, then rows when there is more than one."""
        (rows, cols), size, strides = self.spans, self.window.size, self.window.strides
        col, row = SlideAxis("col", size[1], cols, strides[1]), SlideAxis("row", size[0], rows, strides[0])
        return (col, row) if row.size > 1 else (col,)

    def resources(self, word_bits: int) -> Resources:
        """Estimate for words of *word_bits*."""
        rows, cols = self.spans
        control = sum(axis.bits + axis.wait_bits for axis in self.axes)
        total = Resources(lut=6.0 + 1.4 * control, ff=control + 1.0 + self.window.kernel[0] * cols * word_bits)
        for _ in range(rows - 1):
            total += memory_resources(self.window.size[1], word_bits)
        return total

    def context(self, word_bits: int) -> dict[str, object]:
        """What the template needs for words of *word_bits*."""
        (rows, cols), kernel, dilations = self.spans, self.window.kernel, self.window.dilations
        return {
            "axes": self.axes,
            "rows": rows,
            "span_cols": cols,
            "tap_rows": [k * dilations[0] for k in range(kernel[0])],
            "block": ram_style(self.window.size[1], word_bits) == "block",
            "word_bits": word_bits,
        }
