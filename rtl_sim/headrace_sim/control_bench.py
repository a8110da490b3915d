"""The AXI4-Lite master of the cocotb bench: the same decisions in the same cycles as in cpp/axi_lite.h."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, cast


class Handle(Protocol):
    """The part of cocotb's signal handles that the master uses."""

    value: object


@dataclass(frozen=True)
class Access:
    """One access; *phase* is 0 before the frames, 1 beside them, 2 after them."""

    phase: int
    writes: bool
    address: int
    data: int
    strobe: int

    @staticmethod
    def read(line: str) -> Access:
        """From a line of the job."""
        phase, writes, address, data, strobe = map(int, line.split())
        return Access(phase, bool(writes), address, data, strobe)


class Master:
    """Works through a list of accesses, one at a time."""

    def __init__(
        self,
        signals: dict[str, Handle],
        accesses: list[Access],
        stalls: list[Iterator[bool]],
        number: Callable[[Handle], int],
    ) -> None:
        """*stalls*: of the five channels; *number* reads a signal."""
        self.signals, self.accesses, self.stalls, self.number = signals, accesses, stalls, number
        self.position, self.stray = 0, 0
        self.answers: list[list[int]] = []
        self.valid = dict.fromkeys(("aw", "w", "ar"), False)
        self.held = dict.fromkeys(self.valid, False)
        self.done = dict.fromkeys(self.valid, False)
        self.ready = dict.fromkeys(("b", "r"), False)

    @property
    def prepared(self) -> bool:
        """Whether frames may start."""
        return self.finished or self.accesses[self.position].phase > 0

    @property
    def finished(self) -> bool:
        return self.position == len(self.accesses)

    def reset(self) -> None:
        """Nothing is offered, nothing taken."""
        for name in ("awvalid", "wvalid", "arvalid", "bready", "rready", "awaddr", "wdata", "wstrb", "araddr"):
            self.signals[name].value = 0

    def drive(self, frames_done: bool) -> None:
        """Set the inputs of the coming cycle."""
        aw, w, b, ar, r = (next(stall) for stall in self.stalls)
        access = None if self.finished else self.accesses[self.position]
        if access is not None and access.phase == 2 and not frames_done:
            access = None
        for name, stalled, wanted in (
            ("aw", aw, access is not None and access.writes),
            ("w", w, access is not None and access.writes),
            ("ar", ar, access is not None and not access.writes),
        ):
            self.valid[name] = wanted and not self.done[name] and (self.held[name] or not stalled)
            self.signals[f"{name}valid"].value = int(self.valid[name])
        self.ready = {"b": not b, "r": not r}
        for name, ready in self.ready.items():
            self.signals[f"{name}ready"].value = int(ready)
        if access is not None:
            for name, value in (("awaddr", access.address), ("araddr", access.address), ("wdata", access.data)):
                self.signals[name].value = value
            self.signals["wstrb"].value = access.strobe

    def sample(self, cycle: int) -> bool:
        """Look at the signals at a rising edge; true if something moved."""
        moved = False
        for name, valid in self.valid.items():
            taken = valid and bool(self.number(self.signals[f"{name}ready"]))
            self.held[name] = valid and not taken
            self.done[name] |= taken
            moved |= taken
        for name, data in (("b", None), ("r", "rdata")):
            if not (self.number(self.signals[f"{name}valid"]) and self.ready[name]):
                continue
            moved = True
            expected = self.done["aw"] and self.done["w"] if name == "b" else self.done["ar"]
            if not expected:
                self.stray += 1
                continue
            answer = 0 if data is None else self.number(self.signals[data])
            self.answers.append([answer, self.number(self.signals[f"{name}resp"]), cycle])
            self.position += 1
            self.done = dict.fromkeys(self.done, False)
        return moved

    @property
    def status(self) -> dict[str, object]:
        return cast("dict[str, object]", {"answers": self.answers, "stray": self.stray})
