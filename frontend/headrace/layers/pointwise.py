"""What layers share that make one word of each word: one stream in, folded by PE over the channels."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Self

from headrace.errors import FoldingError
from headrace.ir import IntRange
from headrace.layers.base import Layer, StreamType, divisors


class Pointwise(Layer):
    """Base of layers that work element by element, ``pe`` neighbouring channels a cycle.

    A subclass is a dataclass with the fields ``stream`` (whose ``elements`` are replaced by ``pe``), ``output`` (the
    range of the results) and ``pe``; its ``__post_init__`` calls :meth:`check_pe`.
    """

    stream: StreamType
    output: IntRange
    pe: int

    def check_pe(self) -> None:
        """Refuse a PE that does not divide the channels.

        Raises:
            FoldingError: names the value, the channels and the legal values.
        """
        choices = self.folding_choices["PE"]
        if self.pe not in choices:
            valid = ", ".join(map(str, choices))
            raise FoldingError(f"{self.kind}: PE={self.pe} does not divide {self.channels}; valid: {valid}")

    @property
    def channels(self) -> int:
        """Channels of a frame: the length of its last axis."""
        return self.stream.shape[-1]

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (replace(self.stream, elements=self.pe),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return (StreamType(self.stream.shape, self.output, self.pe),)

    @property
    def cycles(self) -> int:
        return self.inputs[0].words

    @property
    def folding(self) -> dict[str, int]:
        return {"PE": self.pe}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        return {"PE": divisors(self.channels)}


class StyledPointwise(Pointwise):
    """Base of those that can be made in several ways; a subclass has the field ``style``, ``auto`` or one of them."""

    style: str

    @property
    def legal_styles(self) -> tuple[str, ...]:
        """The ways that are possible, of equal ones the preferred first."""
        raise NotImplementedError

    @cached_property
    def chosen(self) -> Self:
        """This layer in the style in use: of ``auto`` the cheapest."""
        if self.style != "auto":
            return self
        made = (replace(self, style=style) for style in self.legal_styles)  # type: ignore[call-arg]  # of a subclass
        return min(made, key=lambda layer: layer.resources().weight)

    @property
    def method(self) -> str:
        """The style in use."""
        return self.chosen.style

    @property
    def style_in_use(self) -> str:
        return self.method
