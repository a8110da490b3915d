"""The foldings of one layer that are weighed against its neighbours'."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headrace.layers.base import Layer, Resources

SPARE = 2
"""Values past the smallest that meets the target that are offered, in case a wider word saves a converter."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A layer folded in one way, and what that takes."""

    layer: Layer
    resources: Resources

    @property
    def widths(self) -> tuple[int, ...]:
        """Elements a word of each stream, which is all that a neighbour sees."""
        return tuple(stream.elements for stream in (*self.layer.inputs, *self.layer.outputs))


@dataclass(frozen=True)
class Limits:
    """Widths that no choice may exceed where a layer has a narrower one; None is no limit.

    Attributes:
        weight_bits_a_pe: weights that one PE reads a cycle, in bits (FINN's ``mvau_wwidth_max``).
        stream_bits: a word of a stream, in bits.
    """

    weight_bits_a_pe: int | None = None
    stream_bits: int | None = None

    def allow(self, layer: Layer, narrowest: Layer) -> bool:
        """Whether *layer* keeps them, or is no wider than it is at its *narrowest*."""
        weights, words = self.weight_bits_a_pe, self.stream_bits
        if weights is not None and layer.weight_bits_a_pe > max(weights, narrowest.weight_bits_a_pe):
            return False
        return words is None or widest_word(layer) <= max(words, widest_word(narrowest))

    def __str__(self) -> str:
        named = (("mvau_wwidth_max", self.weight_bits_a_pe), ("bits a word", self.stream_bits))
        given = " and ".join(f"{name}={value}" for name, value in named if value is not None)
        return f"with all that {given} allows" if given else "fully unfolded"


def widest_word(layer: Layer) -> int:
    """Bits of the widest word that *layer* reads or writes."""
    return max((stream.word_bits for stream in (*layer.inputs, *layer.outputs)), default=0)


@dataclass
class Offer:
    """The choices of one layer for any target; what was computed is kept from one target to the next."""

    layer: Layer
    limits: Limits = field(default_factory=Limits)
    _known: dict[tuple[int, ...], Choice | None] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the folding values."""
        return list(self.layer.folding_choices)

    def folded(self, values: tuple[int, ...]) -> Choice | None:
        """The layer with these folding values, or None where it breaks a limit."""
        if values not in self._known:
            layer = self.layer.with_folding(**dict(zip(self.names, values, strict=True))) if values else self.layer
            allowed = self.limits.allow(layer, self._narrowest)
            self._known[values] = Choice(layer, layer.resources()) if allowed else None
        return self._known[values]

    @cached_property
    def _narrowest(self) -> Layer:
        return extreme(self.layer, min)

    @property
    def _options(self) -> list[tuple[int, ...]]:
        return list(self.layer.folding_choices.values())

    def within(self, target: int) -> Iterator[Choice]:
        """For every combination of the other values, the smallest of the last that takes at most *target* cycles a
        frame, :data:`SPARE` more, and the largest: what is all unfolded needs no memory for its constants."""
        if not self.names:
            choice = self.folded(())
            if choice is not None and choice.layer.cycles <= target:
                yield choice
            return
        *others, last = self._options
        for values in itertools.product(*others):
            first = self._first_within(values, last, target)
            for value in dict.fromkeys((*last[first : first + 1 + SPARE], *last[max(first, len(last) - 1) :])):
                choice = self.folded((*values, value))
                if choice is not None:
                    yield choice

    def _first_within(self, values: tuple[int, ...], options: Sequence[int], target: int) -> int:
        """Index of the smallest of *options* that meets *target* (cycles fall as folding values grow)."""
        base = self.layer.with_folding(**dict(zip(self.names, values, strict=False))) if values else self.layer
        low, high = 0, len(options)
        while low < high:
            middle = (low + high) // 2
            if base.with_folding(**{self.names[-1]: options[middle]}).cycles <= target:
                high = middle
            else:
                low = middle + 1
        return low

    def best(self, target: int, cost: Callable[[Resources], float], also: Iterable[Choice] = ()) -> list[Choice]:
        """Of the choices within *target*, and of *also*, the cheapest for each combination of word widths, in order."""
        found: dict[tuple[int, ...], tuple[float, int, tuple[int, ...], Choice]] = {}
        for choice in (*self.within(target), *also):
            layer = choice.layer
            rank = (cost(choice.resources), layer.cycles, tuple(layer.folding.values()), choice)
            if choice.widths not in found or rank[:3] < found[choice.widths][:3]:
                found[choice.widths] = rank
        return [entry[3] for entry in sorted(found.values(), key=lambda entry: entry[:3])]

    @cached_property
    def fastest(self) -> int:
        """Fewest cycles a frame that any folding within the limits takes."""
        widest = extreme(self.layer, max)
        if self.limits.allow(widest, self._narrowest):
            return widest.cycles
        allowed = (self.folded(values) for values in itertools.product(*self._options))
        return min(choice.layer.cycles for choice in allowed if choice is not None)


def extreme(layer: Layer, pick: Callable[[Sequence[int]], int]) -> Layer:
    """*layer* with the smallest or largest of each of its folding values."""
    values = {name: pick(options) for name, options in layer.folding_choices.items()}
    return layer.with_folding(**values) if values else layer
