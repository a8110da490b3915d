"""Running a sweep: points from models and settings, results kept one by one, the front at the end."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headrace.bounded_text import kept_text
from headrace.build.arrays import read_arrays
from headrace.build.config import BuildConfig
from headrace.build.journal import Journal
from headrace.build.output import named_folder
from headrace.build.validation import check_labels, read_labels
from headrace.errors import InputError, counted
from headrace.explore.models import variants
from headrace.explore.pareto import Direction, pareto_front
from headrace.explore.point import Point, Result
from headrace.explore.runners import LocalRunner, Runner
from headrace.explore.sweep import Sweep
from headrace.ir import Array
from headrace.whole_files import write_whole

RESULTS = "explore.json"
POINTS = "points"
MODELS = "models"
CONFIGS = "configs"
"""Folders of results, of models that were made, and of the settings of each point."""


@dataclass(frozen=True)
class Exploration:
    """What a sweep found.

    Attributes:
        results: in the order of the points.
        objectives: of the front.
        reused: how many results were there before.
    """

    results: Sequence[Result]
    objectives: Mapping[str, Direction]
    reused: int = 0

    @property
    def front(self) -> list[int]:
        """Indices of the results that no other beats; those that failed or are not exact have no part."""
        good = [r.measures if not r.error and r.exact is not False else {} for r in self.results]
        return pareto_front(good, self.objectives)

    @property
    def failed(self) -> list[Result]:
        """Results with an error."""
        return [result for result in self.results if result.error]

    @property
    def failures(self) -> dict[str, list[Result]]:
        """By error, the results that have it."""
        found: dict[str, list[Result]] = {}
        for result in self.failed:
            found.setdefault(result.error, []).append(result)
        return found

    def json(self) -> str:
        """Everything, for machines."""
        data = {
            "format": "headrace-exploration",
            "version": 1,
            "objectives": dict(self.objectives),
            "front": [self.results[index].key for index in self.front],
            "results": [asdict(result) for result in self.results],
        }
        return json.dumps(data, indent=2) + "\n"


def points_of(sweep: Sweep, folder: Path, journal: Journal | None = None) -> list[Point]:
    """Every point of *sweep*: each model with each combination of settings.

    Args:
        sweep: what varies.
        folder: where models are kept that a function of the sweep makes.
        journal: told when they are made.

    Raises:
        InputError: when a file cannot be read, or the data do not fit each other.
        FoldingError: when a folding file cannot be read.
    """
    if not sweep.models:
        raise InputError("the sweep names no models; expected at least one ONNX file")
    inputs, classes = _data(sweep)
    combinations = list(zip(sweep.combinations(), sweep.labels(), strict=True))  # checked before models are made
    shared = (sweep.evaluate, sweep.family, sweep.frames, inputs, classes)
    return [
        Point(model.model, {**model.labels, **labels}, model.proto, settings, *shared, model.error, str(model.file))
        for model in variants(sweep.models, folder, journal or Journal())
        for settings, labels in combinations
    ]


def _data(sweep: Sweep) -> tuple[dict[str, Array], Array | None]:
    if sweep.data is None:
        return {}, None
    inputs = dict(read_arrays(sweep.data.inputs))
    classes = read_labels(sweep.data.labels)
    check_labels(inputs, classes, str(sweep.data.labels))
    return inputs, classes


def explore(
    sweep: Sweep | Mapping[str, Any],
    output_dir: str | Path,
    runner: Runner | None = None,
    journal: Journal | None = None,
) -> Exploration:
    """Evaluate every point of *sweep*, and write results, table, front and page to *output_dir*.

    Each result is kept as soon as it is there. Points whose result is in the folder, of equal content and without an
    error, are not evaluated again, so that an exploration that was interrupted goes on where it was.

    Args:
        sweep: as :func:`~headrace.explore.sweep.read_sweep` gives it, or its content.
        output_dir: a folder; results that are there are used.
        runner: where to evaluate; processes on this machine by default.
        journal: told of the progress.

    Raises:
        InputError: when the sweep or a file that it names is not acceptable.
    """
    from headrace.explore.page import result_files

    if not isinstance(sweep, Sweep):
        sweep = Sweep.checked(sweep, "the sweep")
    folder, journal = named_folder(output_dir, "output_dir"), journal or Journal()
    try:
        points = points_of(sweep, folder / MODELS, journal)
        for name in (POINTS, CONFIGS):
            (folder / name).mkdir(parents=True, exist_ok=True)
        known = {point.key: _kept(folder, point) for point in points if not point.error}
        wanted = list({p.key: p for p in points if not p.error and known[p.key] is None}.values())
        reused = len(known) - len(wanted)
        with journal.step("explore") as note:
            for result in (runner or LocalRunner()).run(wanted):
                known[result.key] = result
                write_whole(folder / POINTS / f"{result.key}.json", result.to_json())
                done = sum(value is not None for value in known.values())
                journal.progress(f"{result.title}: {'no result' if result.error else 'done'}", done, len(known))
            note(f"{counted(len(wanted), 'point')} evaluated, {reused} were there")
        results = [known.get(p.key) or Result(p.key, p.model, p.labels, error=p.error) for p in points]
        named = [replace(r, model=p.model, labels=p.labels, file=p.file) for r, p in zip(results, points, strict=True)]
        found = Exploration(named, sweep.objectives, reused)
        _keep_configs(folder / CONFIGS, points)
        for name, text in {RESULTS: found.json(), **result_files(found, folder)}.items():
            write_whole(folder / name, text)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
    return found


def _keep_configs(folder: Path, points: Sequence[Point]) -> None:
    """The settings of each point as a file that a build takes; where there is one it has the same, by its key."""
    for point in points:
        file = folder / f"{point.key}.json"
        if not point.error and not file.is_file():
            config = BuildConfig.checked(**point.settings)
            write_whole(file, config.model_dump_json(indent=2, exclude_defaults=True) + "\n")


def build_command(result: Result, folder: Path) -> str:
    """What builds a point whose results are in *folder*, for a shell."""
    config = folder / CONFIGS / f"{result.key}.json"
    return shlex.join(["headrace", "build", result.file, "--config", str(config), "-o", "build"])


def _kept(folder: Path, point: Point) -> Result | None:
    try:
        result = Result.from_json(kept_text(folder / POINTS / f"{point.key}.json"))
    except (OSError, ValueError):
        return None
    return None if result.error or result.key != point.key else result
