"""What a simulation returns, and how the raw files of an engine become it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from headrace_sim.control import ControlAnswers
from headrace_sim.coverage import Coverage
from headrace_sim.errors import DeadlockError, ProtocolError, SimulationError
from headrace_sim.manifest import Manifest, Port, Stream, channel_groups
from headrace_sim.packing import Bytes, Ints, padding_is_zero, unpack

VIOLATION_TEXT = {
    "valid_withdrawn": "tvalid fell before tready accepted the word",
    "data_changed": "tdata changed while tvalid waited for tready",
    "last_changed": "tlast changed while tvalid waited for tready",
    "last_early": "tlast is set on a word that does not end a frame",
    "last_missing": "tlast is not set on the last word of a frame",
    "extra_word": "a word is offered after the last expected one",
    "unknown_value": "a signal is neither 0 nor 1",
    "padding_not_zero": "the bits of tdata above the elements are not zero",
}


@dataclass(frozen=True)
class Violation:
    """One breach of the stream protocol: `word` counts from the start of the run."""

    cycle: int
    stream: str
    kind: str
    frame: int
    word: int

    def __str__(self) -> str:
        return (
            f"cycle {self.cycle}: stream {self.stream}, frame {self.frame}, word {self.word}: "
            f"{VIOLATION_TEXT[self.kind]}"
        )


@dataclass(frozen=True, eq=False)
class SimResult:
    """Values and timing of a simulation.

    Cycles count rising clock edges after reset; the time stamps of a stream are the cycles in which its words
    were transferred, shape (whole frames, words_per_frame).
    """

    outputs: dict[str, Ints]  # tensor -> (frames, frame_elements)
    streams: dict[str, Ints]  # traced stream -> (whole frames seen, frame_elements)
    cycles: int  # from the end of reset to the last transfer at a boundary, inclusive
    first_output_latency: int  # from the first word accepted to the first word delivered
    interval: dict[str, float | None]  # per output: cycles per frame; None with stalls or under 2 frames
    time_stamps: dict[str, NDArray[np.uint64]] = field(repr=False)  # input, output and stream names
    engine: str = ""
    simulator: str = ""
    seconds: float = 0.0  # wall-clock time of the run alone
    build_seconds: float = 0.0
    cached: bool = False
    violations: tuple[Violation, ...] = ()
    waves: Path | None = None
    coverage: Coverage | None = None
    control: ControlAnswers | None = None
    first_frame_latency: int = 0  # from the first word accepted to the last word of the first frame delivered


def steady_interval(last_word_cycles: Sequence[int] | NDArray[np.uint64]) -> float | None:
    """Mean distance of the frames' last words over the later half of a run, where the pipeline is full."""
    count = len(last_word_cycles)
    if count < 2:
        return None
    start = (count - 1) // 2
    return float(int(last_word_cycles[-1]) - int(last_word_cycles[start])) / (count - 1 - start)


@dataclass(frozen=True)
class Raw:
    """The files that an engine leaves in its run folder, read and named."""

    manifest: Manifest
    status: Mapping[str, object]
    channels: dict[str, tuple[Port | Stream, str]]  # "output0" -> (its description, its readable name)
    words: dict[str, Bytes]
    cycles: dict[str, NDArray[np.uint64]]

    @classmethod
    def read(cls, folder: Path, manifest: Manifest, trace: bool) -> Raw:
        status = json.loads((folder / "status.json").read_text())
        channels: dict[str, tuple[Port | Stream, str]] = {}
        for group, specs in channel_groups(manifest, trace).items():
            for index, spec in enumerate(specs):
                channels[f"{group}{index}"] = (spec, spec.name)
        words, cycles = {}, {}
        for stem, (spec, _) in channels.items():
            cycles[stem] = np.fromfile(folder / f"{stem}.cyc", dtype="<u8")
            words[stem] = np.fromfile(folder / f"{stem}.bin", dtype=np.uint8).reshape(-1, spec.word_bytes)
        return cls(manifest, status, channels, words, cycles)

    def violations(self) -> tuple[Violation, ...]:
        found = []
        entries = self.status["violations"]
        assert isinstance(entries, list)
        for entry in entries:
            spec, name = self.channels[f"{entry['group']}{entry['index']}"]
            word = int(entry["word"])
            found.append(Violation(entry["cycle"], name, entry["kind"], word // spec.words_per_frame, word))
        for stem, (spec, name) in self.channels.items():
            if stem.startswith("output"):
                for word in np.flatnonzero(~padding_is_zero(self.words[stem], spec))[:1].tolist():
                    cycle = int(self.cycles[stem][word])
                    frame = word // spec.words_per_frame
                    found.append(Violation(cycle, name, "padding_not_zero", frame, word))
        return tuple(sorted(found, key=lambda violation: violation.cycle))

    def waiting(self) -> str:
        """One clause per stream that is not idle, for the report of a deadlock."""
        clauses = []
        entries = self.status["channels"]
        assert isinstance(entries, list)
        for entry in entries:
            stem = f"{entry['group']}{entry['index']}"
            spec, name = self.channels[stem]
            frame, word = divmod(entry["words"], spec.words_per_frame)
            place = f"frame {frame} word {word}"
            what = {"input": "input", "output": "output", "stream": "internal stream"}[entry["group"]]
            if entry["valid"] and not entry["ready"]:
                clauses.append(f"{what} {name} offers {place} but its receiver is not ready")
            elif entry["ready"] and not entry["valid"] and entry["group"] != "input":
                clauses.append(f"{what} {name} waits for {place}")
        if self.manifest.control:
            control = cast("Mapping[str, Sequence[object]]", self.status["control"])
            clauses.append(f"the control interface has answered {len(control['answers'])} accesses")
        return "; ".join(clauses) or "no stream is waiting"


def check_outcome(raw: Raw, timeout_cycles: int, trace: bool) -> None:
    """Raise the error that the outcome of a run calls for, if any."""
    violations = raw.violations()
    outcome = raw.status["outcome"]
    if violations:
        shown = "\n  ".join(str(violation) for violation in violations[:8])
        raise ProtocolError(
            f"design {raw.manifest.name} broke the stream protocol {len(violations)} times:\n  {shown}", violations
        )
    if raw.manifest.control and (stray := cast("Mapping[str, int]", raw.status["control"])["stray"]):
        raise ProtocolError(f"design {raw.manifest.name}: its control interface gave {stray} answers to no access", ())
    if outcome == "deadlock":
        hint = "" if trace or not raw.manifest.streams else " (simulate with trace=True to see internal streams)"
        raise DeadlockError(
            f"design {raw.manifest.name}: no word moved for {timeout_cycles} cycles until cycle "
            f"{raw.status['cycles']}: {raw.waiting()}{hint}"
        )
    if outcome != "done":
        raise SimulationError(f"design {raw.manifest.name}: the simulation ended early ({outcome}); {raw.waiting()}")


def make_result(raw: Raw, stalled: bool) -> SimResult:
    """Unpack the words of a run, finished or not; timing fields the caller knows better are left at their defaults."""
    outputs, streams, interval = {}, {}, {}
    stamps: dict[str, NDArray[np.uint64]] = {}
    boundary_first: dict[str, int] = {"input": 0, "output": 0}
    last = first_frame = 0
    for group, specs in channel_groups(raw.manifest, any(s.startswith("stream") for s in raw.channels)).items():
        first: list[int] = []
        for index, spec in enumerate(specs):
            words, cycles = raw.words[f"{group}{index}"], raw.cycles[f"{group}{index}"]
            whole = len(words) // spec.words_per_frame
            keep = whole * spec.words_per_frame
            table = cycles[: len(cycles) // spec.words_per_frame * spec.words_per_frame]
            stamps[spec.name] = table.reshape(-1, spec.words_per_frame)
            if group != "stream" and len(cycles):
                first.append(int(cycles[0]))
                last = max(last, int(cycles[-1]))
            if group == "output":
                first_frame = max(first_frame, *stamps[spec.name][:1, -1].tolist(), 0)
                outputs[spec.name] = unpack(words[:keep], spec)
                interval[spec.name] = None if stalled else steady_interval(stamps[spec.name][:, -1])
            elif group == "stream":
                streams[spec.name] = unpack(words[:keep], spec)
        if first:
            boundary_first[group] = min(first)
    return SimResult(
        outputs=outputs,
        streams=streams,
        cycles=last + 1,
        first_output_latency=boundary_first["output"] - boundary_first["input"],
        interval=interval,
        time_stamps=stamps,
        first_frame_latency=first_frame - boundary_first["input"],
    )
