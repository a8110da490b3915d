"""The cocotb bench, in-simulator side: one test that drives any design from its manifest.

It runs in the job's folder, where the host (cocotb_engine.py) has put design.json, job.json and
input<i>.bin, and leaves the same files as cpp/driver.cpp, whose decisions it repeats cycle by cycle.
It imports as little as it can: a simulator starts anew for every run.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from headrace_sim.control import CHANNELS, SIGNALS
from headrace_sim.control_bench import Access, Handle, Master
from headrace_sim.manifest import Manifest, Port, Stream, channel_groups, from_dict
from headrace_sim.progress import Teller
from headrace_sim.stalls import StallSpec, stall_sequence

CLOCK_NS = 10
_MAX_REPORTS = 4  # of one kind on one stream: the first ones tell


class _Logic(Protocol):
    """The part of cocotb's value types that the bench uses."""

    is_resolvable: bool

    def __int__(self) -> int: ...


class _Handle(Protocol):
    """The part of cocotb's signal handles that the bench uses."""

    value: _Logic | int

    def __len__(self) -> int: ...


def _handle(dut: object, name: str, bits: int) -> _Handle:
    handle = cast(_Handle, getattr(dut, name))
    if bits > 1 and len(handle) != bits:
        raise ValueError(f"signal {name} has {len(handle)} bits, the manifest says {bits}")
    return handle


@dataclass
class Channel:
    """One stream during the run: its signals, what has moved, and what it showed while it waited."""

    group: str
    index: int
    spec: Port | Stream
    expected: int
    tdata: _Handle
    tvalid: _Handle
    tready: _Handle
    tlast: _Handle | None
    stalls: Iterator[bool]
    words: list[int] = field(default_factory=list)  # an input's words to send
    seen: bytearray = field(default_factory=bytearray)
    cycles: list[int] = field(default_factory=list)
    valid: bool = False
    ready: bool = False
    held: tuple[int, int] | None = None  # (tdata, tlast) shown while tready was low

    def last_of_frame(self, word: int) -> bool:
        return (word + 1) % self.spec.words_per_frame == 0


class UnknownValue(Exception):
    """A signal is X or Z."""


def _int(handle: _Handle) -> int:
    value = cast(_Logic, handle.value)
    try:
        return int(value)
    except ValueError as error:
        raise UnknownValue from error


class Bench:
    """The run as a state machine: `sample` looks at the signals at a rising edge, `drive` sets the next ones."""

    def __init__(self, dut: object, manifest: Manifest, job: Mapping[str, object], folder: Path) -> None:
        self.clock = _handle(dut, manifest.clock, 1)
        self.reset = _handle(dut, manifest.reset, 1)
        self.folder = folder
        self.told = Teller(folder, cast(float, job["tell"]))
        self.timeout = cast(int, job["timeout_cycles"])
        self.tail = cast(int, job["tail_cycles"])
        self.reset_cycles = cast(int, job["reset_cycles"])
        self.pace = cast(int, job["pace"])
        self.violations: list[dict[str, object]] = []
        self.cycle = 0
        self.end: int | None = None  # the last cycle, known once every word has moved
        self.groups: dict[str, list[Channel]] = {}
        stalls = cast(dict[str, list[int]], job["stalls"])
        for group, specs in channel_groups(manifest, bool(job["trace"])).items():
            self.groups[group] = []
            for index, spec in enumerate(specs):
                stall = StallSpec(*stalls.get(f"{group}{index}", (0, 0)))
                expected = cast(int, job["frames"]) * spec.words_per_frame
                self.groups[group].append(_channel(dut, group, index, spec, expected, stall))
        self.master = _master(dut, manifest, job)
        self.start: int | None = None  # the cycle from which on frames may enter
        for channel in self.groups["input"]:
            data = (folder / f"input{channel.index}.bin").read_bytes()
            size = channel.spec.word_bytes
            channel.words = [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]

    def drive_idle(self, channel: Channel) -> None:
        """Show the complement of the next word and tlast high while tvalid is low, as traps."""
        assert channel.tlast is not None
        channel.valid = False
        channel.tvalid.value = 0
        channel.tlast.value = 1
        sent = len(channel.cycles)
        if sent < channel.expected:
            channel.tdata.value = channel.words[sent] ^ ((1 << (8 * channel.spec.word_bytes)) - 1)

    def drive(self) -> None:
        """Set the inputs of the coming cycle."""
        if self.start is None and (self.master is None or self.master.prepared):
            self.start = self.cycle
        if self.master is not None:
            self.master.drive(self.moved_all())
        for channel in self.groups["input"]:
            stalled = next(channel.stalls)
            sent = len(channel.cycles)
            since = self.cycle - self.start if self.start is not None else 0
            early = self.start is None or since * channel.spec.words_per_frame < sent * self.pace
            if channel.held is not None:
                continue  # offered before and not yet accepted: keep it
            if stalled or early or sent == channel.expected:
                self.drive_idle(channel)
                continue
            assert channel.tlast is not None
            channel.valid = True
            channel.tvalid.value = 1
            channel.tdata.value = channel.words[sent]
            channel.tlast.value = int(channel.last_of_frame(sent))
        for channel in self.groups["output"]:
            # After the last expected word nothing stalls, so that a surplus word shows within the tail.
            ready = self.end is not None or not next(channel.stalls)
            if ready != channel.ready or self.cycle == 0:
                channel.ready = ready
                channel.tready.value = int(ready)

    def sample(self) -> bool:
        """Look at every stream at a rising edge; true if a word moved at the boundary."""
        moved = self.master is not None and self.master.sample(self.cycle)
        for channel in self.groups["input"]:
            channel.ready = self._flag(channel, channel.tready)
            channel.held = (0, 0) if channel.valid and not channel.ready else None
            if channel.valid and channel.ready:
                channel.cycles.append(self.cycle)
                moved = True
        for channel in self.groups["output"]:
            moved |= self.observe(channel)
        for channel in self.groups["stream"]:
            channel.ready = self._flag(channel, channel.tready)
            self.observe(channel)
        return moved

    def observe(self, channel: Channel) -> bool:
        """Check one stream that the design drives, and keep its word if it moves."""
        channel.valid = self._flag(channel, channel.tvalid)
        if not channel.valid:
            if channel.held is not None:
                self.report(channel, "valid_withdrawn")
            channel.held = None
            return False
        try:
            data = _int(channel.tdata)
            last = _int(channel.tlast) if channel.tlast is not None else 0
        except UnknownValue:
            self.report(channel, "unknown_value")
            data, last = 0, 0
        if channel.held is not None:
            if data != channel.held[0]:
                self.report(channel, "data_changed")
            if last != channel.held[1]:
                self.report(channel, "last_changed")
        channel.held = None if channel.ready else (data, last)
        if not channel.ready:
            return False
        count = len(channel.cycles)
        if count == channel.expected:
            self.report(channel, "extra_word")
            return False
        if channel.tlast is not None and bool(last) != channel.last_of_frame(count):
            self.report(channel, "last_early" if last else "last_missing")
        channel.seen += data.to_bytes(channel.spec.word_bytes, "little")
        channel.cycles.append(self.cycle)
        return True

    def _flag(self, channel: Channel, handle: _Handle) -> bool:
        try:
            return bool(_int(handle))
        except UnknownValue:
            self.report(channel, "unknown_value")
            return False

    def report(self, channel: Channel, kind: str) -> None:
        same = {"group": channel.group, "index": channel.index, "kind": kind}
        if sum(same.items() <= violation.items() for violation in self.violations) < _MAX_REPORTS:
            self.violations.append({"cycle": self.cycle, **same, "word": len(channel.cycles)})

    def complete(self) -> bool:
        return self.moved_all() and (self.master is None or self.master.finished)

    def moved_all(self) -> bool:
        """Whether every word of every frame has moved."""
        return all(
            len(channel.cycles) == channel.expected for group in ("input", "output") for channel in self.groups[group]
        )

    def frames_out(self) -> int:
        """Whole frames that every output has given."""
        return min(len(channel.cycles) // channel.spec.words_per_frame for channel in self.groups["output"])

    async def run(self) -> str:
        """Reset, then drive until every word has moved or something is wrong; return the outcome."""
        edge = RisingEdge(self.clock)  # type: ignore[arg-type]
        self.reset.value = 0
        for channel in self.groups["input"]:
            self.drive_idle(channel)
        for channel in self.groups["output"]:
            channel.tready.value = 0
        if self.master is not None:
            self.master.reset()
        for _ in range(self.reset_cycles):
            await edge
        self.reset.value = 1
        progress = 0
        while True:
            self.drive()
            await edge
            if self.sample():
                progress = self.cycle
            self.told.look(self.frames_out, self.cycle)
            if self.end is None and self.complete():
                self.end = self.cycle + self.tail
            outcome = self._outcome(progress)
            self.cycle += 1
            if outcome:
                return outcome

    def _outcome(self, progress: int) -> str:
        if self.end is not None:
            return "done" if self.cycle >= self.end else ""
        return "deadlock" if self.cycle - progress >= self.timeout else ""

    def write(self, outcome: str) -> None:
        channels = []
        for group, members in self.groups.items():
            for channel in members:
                stem = f"{group}{channel.index}"
                if group != "input":
                    (self.folder / f"{stem}.bin").write_bytes(channel.seen)
                (self.folder / f"{stem}.cyc").write_bytes(array("Q", channel.cycles).tobytes())
                channels.append(
                    {
                        "group": group,
                        "index": channel.index,
                        "words": len(channel.cycles),
                        "valid": channel.valid,
                        "ready": channel.ready,
                    }
                )
        status: dict[str, object] = {
            "outcome": outcome,
            "cycles": self.cycle,
            "violations": self.violations,
            "channels": channels,
        }
        if self.master is not None:
            status["control"] = self.master.status
        (self.folder / "status.json").write_text(json.dumps(status))


def _master(dut: object, manifest: Manifest, job: Mapping[str, object]) -> Master | None:
    """The master of the control interface, where there is one."""
    if not manifest.control:
        return None
    signals = {
        name: _handle(dut, f"{manifest.control}_{name}", bits or manifest.control_address_bits)
        for name, (_, bits) in SIGNALS.items()
    }
    stalls = cast(dict[str, list[int]], job["stalls"])
    sequences = [stall_sequence(StallSpec(*stalls[f"control{k}"])) for k in range(len(CHANNELS))]
    accesses = [Access.read(line) for line in cast(list[str], job["control"])]
    return Master(cast("dict[str, Handle]", signals), accesses, sequences, cast("Callable[[Handle], int]", _int))


def _channel(dut: object, group: str, index: int, spec: Port | Stream, expected: int, stall: StallSpec) -> Channel:
    name = spec.signal
    width = spec.tdata_bits if isinstance(spec, Port) else spec.word_bits
    return Channel(
        group=group,
        index=index,
        spec=spec,
        expected=expected,
        tdata=_handle(dut, f"{name}_tdata", width),
        tvalid=_handle(dut, f"{name}_tvalid", 1),
        tready=_handle(dut, f"{name}_tready", 1),
        tlast=None if group == "stream" else _handle(dut, f"{name}_tlast", 1),
        stalls=stall_sequence(stall),
    )


@cocotb.test()
async def stream_bench(dut: object) -> None:
    """Drive the design with the job in the current folder."""
    folder = Path.cwd()
    manifest = from_dict(json.loads((folder / "design.json").read_text()), folder)
    bench = Bench(dut, manifest, json.loads((folder / "job.json").read_text()), folder)
    Clock(bench.clock, CLOCK_NS, unit="ns").start(start_high=False)  # type: ignore[arg-type]
    bench.write(await bench.run())
