"""The models of a sweep: files, and those that a function makes for every combination of its arguments."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, field_validator

from headrace import __version__
from headrace.build.journal import Journal
from headrace.errors import InputError, as_message, counted
from headrace.explore.numbers import from_number, number
from headrace.explore.processes import Job, run_jobs

MOST_VALUES = 100_000
"""Values in a sweep, and combinations of them."""

_LONGEST_NAME = 60


class MadeModel(BaseModel):
    """Models that a function of the user's makes, one for every combination of its arguments.

    Attributes:
        make: a Python file and a function in it, ``train.py:mnist``. The function returns an ONNX model, as
            :func:`headrace.export.export_qonnx` does, or the path of one.
        arguments: by keyword of the function, the values to try; ``with`` in a file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    make: str
    arguments: dict[str, list[JsonValue]] = Field(default_factory=dict, alias="with")

    @field_validator("make")
    @classmethod
    def _names_a_function(cls, value: str) -> str:
        if not re.fullmatch(r".+\.py:[^\W\d]\w*", value, re.DOTALL):
            raise ValueError("expected a Python file and a function in it, like 'train.py:mnist'")
        return value

    @field_validator("arguments", mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        """A single value stands for a list of one."""
        return {k: v if isinstance(v, list) else [v] for k, v in value.items()} if isinstance(value, Mapping) else value

    @field_validator("arguments")
    @classmethod
    def _some(cls, value: dict[str, list[JsonValue]]) -> dict[str, list[JsonValue]]:
        for name, tried in value.items():
            if not tried:
                raise ValueError(f"argument '{name}' has no value to try; give one, or leave it out")
        if prod(map(len, value.values())) > MOST_VALUES:
            raise ValueError(f"the arguments combine to more than {MOST_VALUES:,} models")
        return value

    @property
    def script(self) -> Path:
        """The Python file."""
        return Path(self.make.rpartition(":")[0])

    @property
    def function(self) -> str:
        """What is called in it."""
        return self.make.rpartition(":")[2]

    @property
    def varied(self) -> list[str]:
        """Arguments with more than one value."""
        return [name for name, values in self.arguments.items() if len(values) > 1]

    def relative_to(self, folder: Path) -> MadeModel:
        """This one with its file read from *folder*."""
        return self.model_copy(update={"make": f"{folder / self.script}:{self.function}"})

    def combinations(self) -> Iterator[dict[str, JsonValue]]:
        """Every combination of the arguments."""
        for values in itertools.product(*self.arguments.values()):
            yield dict(zip(self.arguments, values, strict=True))


def _form(value: object) -> str:
    return "made" if isinstance(value, Mapping | MadeModel) else "file"


ModelSource = Annotated[
    Annotated[Path, Tag("file")] | Annotated[MadeModel, Tag("made")],
    Discriminator(_form),
]
"""An ONNX file, or a function that makes models."""


@dataclass(frozen=True, eq=False)
class Variant:
    """A model of a sweep.

    Attributes:
        model: its name in tables.
        labels: arguments that it was made with, as tables show them; those that do not vary are left out.
        proto: the ONNX model, serialised.
        error: why there is none; empty when there is.
        file: that it is in.
    """

    model: str
    labels: Mapping[str, str]
    proto: bytes
    error: str
    file: Path


def variants(sources: Mapping[str, Path | MadeModel], folder: Path, journal: Journal) -> list[Variant]:
    """Every model of a sweep, those that a function makes for each combination of its arguments.

    What was made is kept in *folder*, and made again when the file that makes it, the arguments or the version of
    Headrace have changed. Functions run one after the other, each in a process of its own in the folder of its file.

    Raises:
        InputError: when a file of Python cannot be read.
        ModelError: when an ONNX file cannot be read.
    """
    wanted = [origin for name, source in sources.items() for origin in _origins(name, source, folder)]
    missing = {origin.path: origin.job for origin in wanted if origin.job is not None and not origin.path.is_file()}
    errors: dict[Path, str] = {}
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with journal.step("models") as note:
            for done, ended in enumerate(run_jobs(missing.values(), 1), 1):
                path = ended.job.subject
                if not path.is_file():
                    errors[path] = f"the process that makes the model {ended.reason} ({ended.job.log})"
                journal.progress(f"{path.stem}: {'no model' if path in errors else 'made'}", done, len(missing))
            note(f"{counted(len(missing) - len(errors), 'model')} made")
    return [
        Variant(origin.model, origin.labels, b"" if error else _serialised(origin.path), error, origin.path)
        for origin, error in ((origin, errors.get(origin.path, "")) for origin in wanted)
    ]


@dataclass(frozen=True, eq=False)
class _Origin:
    """Where a model is, and the job that makes it when it is not there yet."""

    model: str
    labels: Mapping[str, str]
    path: Path
    job: Job[Path] | None = None


def _origins(name: str, source: Path | MadeModel, folder: Path) -> Iterator[_Origin]:
    if isinstance(source, Path):
        yield _Origin(name, {}, source)
        return
    try:
        script = source.script.read_bytes()
    except OSError as error:
        raise InputError(f"{source.script}: cannot be read ({error.strerror})") from error
    for arguments in source.combinations():
        labels = {key: shown(arguments[key]) for key in source.varied}
        content = json.dumps([__version__, source.function, arguments], sort_keys=True).encode()
        digest = hashlib.blake2b(script + b"\0" + content, digest_size=6).hexdigest()
        title = re.sub(r"[^A-Za-z0-9_.-]+", "_", "_".join([name, *(f"{k}{v}" for k, v in labels.items())]))
        path = folder / f"{title[:_LONGEST_NAME]}-{digest}.onnx"
        yield _Origin(name, labels, path, _job(source, arguments, path))


def _job(source: MadeModel, arguments: Mapping[str, JsonValue], path: Path) -> Job[Path]:
    script, target = source.script.resolve(), path.resolve()
    command = (sys.executable, "-m", "headrace.explore.maker", str(script), source.function)
    return Job(path, (*command, json.dumps(arguments), str(target)), target.with_suffix(".log"), script.parent)


def _serialised(path: Path) -> bytes:
    from headrace.ingest import read_onnx

    data: bytes = read_onnx(path).SerializeToString()  # with external data inside
    return data


def shown(value: object) -> str:
    """A value of a sweep as a table shows it."""
    if isinstance(value, Path):
        return value.stem
    if isinstance(value, bool):
        return str(value).lower()  # as in the file
    if isinstance(value, int | float):
        short = number(value)
        return short if from_number(short) == value else f"{value:,}"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={shown(most)}" for name, most in value.items())
    return "none" if value is None else as_message(str(value))
