"""How many pixels an operator can make at once, and how many a rate needs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from headrace.errors import FoldingError
from headrace.ir import Graph, Shape
from headrace.passes.pixels.rules import Choice, choices, follows


def offered(core: Graph, node: str) -> Iterator[Choice]:
    """Blocks in which *node* can work, by ascending number of pixels; single pixels left out."""
    op, (reads, made) = core.op(node), _frames(core, node)
    for choice in choices(op, reads, made):
        if choice.pixels > 1:
            yield choice


def _frames(core: Graph, node: str) -> tuple[Sequence[Shape], Shape]:
    return [core.type(value).shape for value in core.sources(node)], core.types(node)[0].shape


def pixel_choices(core: Graph, node: str) -> tuple[int, ...]:
    """How many pixels the operator at *node* can make at once, ascending; 1 is always among them."""
    return (1, *(choice.pixels for choice in offered(core, node)))


def pixels_for(core: Graph, cycles: int) -> dict[str, int]:
    """For each operator that makes or reads more pixels than *cycles*, the fewest at once that suffice.

    Functions of a pixel alone take what comes to them, where that suffices. Where no number does, the largest is given:
    the layer is then found to be too slow.
    """
    found: dict[str, int] = {}
    for node in core:
        reads, made = _frames(core, node)
        if max((math.prod(shape[1:]) for shape in (*reads, made)), default=1) <= cycles:
            continue
        fits = list(offered(core, node))
        enough = [choice for choice in fits if choice.cycles(reads, made) <= cycles]
        same = (
            [c for c in enough if c.pixels == found.get(core.sources(node)[0].node)] if follows(core.op(node)) else []
        )
        if fits:
            found[node] = (same or enough or fits[-1:])[0].pixels
    return found


def chosen(core: Graph, node: str, pixels: int) -> Choice:
    """The blocks with which *node* makes so many *pixels* at once.

    Raises:
        FoldingError: when there are none; names the node and the numbers that fit.
    """
    fits = {choice.pixels: choice for choice in offered(core, node)} if node in core.nx else {}
    if pixels not in fits:
        valid = ", ".join(map(str, (1, *fits)))
        alone = node in core.nx and not fits
        why = " (layers on vectors, and layers whose constants are written at run time, make one)" if alone else ""
        raise FoldingError(f"layer '{node}': M={pixels} pixels at once do not fit; valid: {valid}{why}")
    return fits[pixels]
