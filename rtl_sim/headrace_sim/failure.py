"""What is kept of a simulation that failed: a report for a person, the vectors, and a waveform of the same run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace_sim.compare import Mismatch, first_mismatch
from headrace_sim.errors import ArrayError, SimError, SimulationError
from headrace_sim.manifest import Manifest, Port, Stream
from headrace_sim.result import SimResult
from headrace_sim.simulation import edge_time, simulate
from headrace_sim.vectors import Vectors, write_vectors

Arrays = Mapping[str, NDArray[np.integer]]

REPORT, VECTORS, WAVES = "report.txt", "vectors.npz", "waves"
_SHOWN = 12  # differing elements that a report lists


@dataclass(frozen=True)
class Failure:
    """A run of a design that failed: what it was given, how it was simulated, and what was found."""

    test: str
    manifest: Manifest
    inputs: Arrays
    expected: Arrays
    options: Mapping[str, object]
    finding: str

    def keep(self, folder: Path, waveform: bool) -> str:
        """Write the report, the vectors and, with *waveform*, that of the same run to *folder*.

        Returns:
            what there is and where, in a line.
        """
        folder.mkdir(parents=True, exist_ok=True)
        write_vectors(folder / VECTORS, Vectors(self.inputs, self.expected))
        lines = [self.test, f"design {self.manifest.name} in {self.manifest.root}", "", self.finding]
        if waveform:
            waves = folder / f"{WAVES}{'.fst' if self.options.get('simulator') == 'icarus' else '.vcd'}"
            lines += self._again(waves)
        lines += ["", "simulated with " + ", ".join(f"{name}={self.options[name]}" for name in sorted(self.options))]
        (folder / REPORT).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return f"report, vectors{' and waveform' if waveform else ''}: {folder}"

    def _again(self, waves: Path) -> Iterator[str]:
        """Simulate again with a waveform and all streams; what the report says of that run."""
        again: dict[str, object] = {**self.options, "trace": True, "waves": waves}
        seen: SimResult | None = None
        try:
            seen = simulate(self.manifest, self.inputs, **again)  # type: ignore[arg-type]
        except SimulationError as error:  # the same failure, with the inner streams named
            seen = error.seen
            if str(error) != self.finding:
                yield str(error)
        except SimError as error:
            yield f"no waveform: {error}"
        mismatch = None if seen is None else mismatch_seen(seen, self.expected, self.manifest)
        if seen is not None and mismatch is not None:
            if str(mismatch) not in self.finding:
                yield f"first difference: {mismatch}"
            yield from self._differing(seen, mismatch)
            yield from self._in_waveform(mismatch, waves)

    def _differing(self, seen: SimResult, mismatch: Mismatch) -> Iterator[str]:
        got = seen.outputs.get(mismatch.stream, seen.streams.get(mismatch.stream))
        aliases = [p.port for p in self.manifest.outputs if p.tensor == mismatch.stream]
        want = next((self.expected[n] for n in (mismatch.stream, *aliases) if n in self.expected), None)
        if got is None or want is None:
            return
        flat = np.asarray(want).reshape(len(want), -1)[: len(got)]
        places = np.argwhere(flat != got[: len(flat)]).tolist()
        yield from (
            f"  frame {f}, element {e}: expected {flat[f, e]}, got {got[f, e]}"
            for f, e in itertools.islice(places, _SHOWN)
        )
        if len(places) > _SHOWN:
            yield f"  and {len(places) - _SHOWN:,} more"

    def _in_waveform(self, mismatch: Mismatch, waves: Path) -> Iterator[str]:
        """Where a waveform viewer shows the first wrong word."""
        specs: list[Port | Stream] = [*self.manifest.outputs, *self.manifest.streams]
        signal = next((spec.signal for spec in specs if spec.name == mismatch.stream), None)
        if mismatch.cycle is None or signal is None:
            return
        unit = "ps" if self.options.get("engine", "cpp") == "cpp" else "ns"
        time = edge_time(mismatch.cycle)
        yield f"in {waves.name}: {self.manifest.top}.{signal}_tdata, taken in cycle {mismatch.cycle}, at {time} {unit}"


def mismatch_seen(seen: SimResult, expected: Arrays, manifest: Manifest) -> Mismatch | None:
    """The first wrong value among the frames that a run brought, which may have ended before all were there."""
    whole = {}
    for name, array in expected.items():
        tensor = next((port.tensor for port in manifest.outputs if port.port == name), name)
        got = seen.outputs.get(tensor, seen.streams.get(tensor))
        if got is not None:
            whole[name] = array[: len(got)]
    try:
        return first_mismatch(seen, whole, manifest)
    except ArrayError:  # expected values of a shape that does not fit: the caller hears of it elsewhere
        return None
