"""The resources that a design may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from headrace.errors import FoldingError, did_you_mean
from headrace.layers.base import Resources
from headrace.schedule.parts import find_part

KINDS = ("lut", "ff", "dsp", "bram18", "uram")


@dataclass(frozen=True)
class Budget:
    """Resources that a design may take; infinite where nothing is said.

    Attributes:
        available: the most of each kind.
        name: what messages call it.
    """

    available: Resources
    name: str = "the budget"

    @classmethod
    def of(cls, part: str | None = None, limits: Mapping[str, float] | None = None) -> Budget:
        """The resources of a part or board, with some of them bounded.

        Args:
            part: as :func:`~headrace.schedule.parts.find_part` takes it.
            limits: by kind (``lut``, ``ff``, ``dsp``, ``bram18``, ``uram``), at most what the part has.

        Raises:
            FoldingError: for an unknown part or kind, or a limit that is negative.
        """
        whole = dict.fromkeys(KINDS, float("inf"))
        if part is not None:
            whole = asdict(find_part(part).resources)
        for kind, most in (limits or {}).items():
            if kind.lower() not in KINDS:
                near = did_you_mean(kind, KINDS)
                raise FoldingError(f"unknown resource '{kind}' in the budget{near}; known: {', '.join(KINDS)}")
            if not most >= 0:
                raise FoldingError(f"the budget of {kind} must be a number of at least 0, not {most}")
            whole[kind.lower()] = min(whole[kind.lower()], most)
        bounded = ", with the limits given," if limits else ""
        return cls(Resources(**whole), f"the part {part}{bounded}" if part is not None else "the budget")

    def exceeded(self, used: Resources) -> dict[str, float]:
        """By kind, how many times too much *used* takes."""
        pairs = ((kind, getattr(used, kind), getattr(self.available, kind)) for kind in KINDS)
        return {kind: (need / have if have else float("inf")) for kind, need, have in pairs if need > have}

    def less(self, used: Resources) -> Budget:
        """What is left of it."""
        left = {kind: max(getattr(self.available, kind) - getattr(used, kind), 0.0) for kind in KINDS}
        return replace(self, available=Resources(**left))

    def no_more_than(self, used: Resources, kinds: Iterable[str]) -> Budget:
        """This budget, with no more of *kinds* than *used* takes."""
        most = {kind: min(getattr(self.available, kind), getattr(used, kind)) for kind in kinds}
        return replace(self, available=replace(self.available, **most))
