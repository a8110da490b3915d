"""What a sweep varies and measures: the file ``sweep.yaml``, checked before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.bounded_text import given_text
from headrace.build.config import BuildConfig, complaint
from headrace.build.settings_text import YamlLoader
from headrace.errors import InputError, did_you_mean
from headrace.explore.models import MOST_VALUES, MadeModel, ModelSource, shown
from headrace.explore.pareto import Direction
from headrace.schedule import read_folding, setting_complaint, with_value
from headrace.synth.families import FAMILIES

Evaluation = Literal["estimate", "rtl", "synthesis"]

MEASURES = (
    "fps", "interval", "latency", "lut", "ff", "dsp", "bram18", "uram", "measured_interval", "measured_latency",
    "measured_fps", "synthesised_lut", "synthesised_ff", "synthesised_dsp", "synthesised_bram18", "synthesised_uram",
    "accuracy",
)  # fmt: skip
"""What a point can be judged by."""

SETTINGS = (
    "target_fps", "clock_mhz", "synth_clk_period_ns", "folding", "unroll", "fit_part", "resource_limits",
    "mvau_wwidth_max", "large_fifo_mem_style", "backend", "seed",
)  # fmt: skip
"""Settings of a build that change the design."""

COLUMNS = ("model", "exact", "pareto", "bottleneck", "error", "key")
"""Columns of the table, of which settings and measures follow the first."""


USUAL: dict[str, Direction] = {"fps": "max", "lut": "min"}
"""Objectives, where a sweep names none."""


class LabelledData(BaseModel):
    """Frames of known class, for the accuracy of each model: two ``.npz`` or ``.npy`` files.

    Attributes:
        inputs: arrays named as the model's inputs.
        labels: whole numbers, one a frame.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    inputs: Path
    labels: Path


class Sweep(BaseModel):
    """A sweep.

    Attributes:
        models: by the name that tables show, ONNX files, or functions that make them for every combination of some
            arguments, such as bit widths (:class:`~headrace.explore.models.MadeModel`).
        settings: by setting of a build, the values to try; every combination is a point. Files of foldings are
            named by their path. ``MVAU.style`` is one setting of a folding file, of the layers of a kind, of a layer
            by its name, or (``MVAU_0.PE``) by its number; it is put over what ``folding`` says, ``null`` is left out.
        evaluate: what is found out about each point: ``estimate`` (folding, cycles and estimated resources, always),
            ``rtl`` (simulated, exact or not, measured interval and latency), ``synthesis`` (by open tools).
        objectives: the measures of the Pareto front, and which way each is better.
        family: devices that are synthesised for.
        frames: random frames that are simulated.
        data: for the measure ``accuracy``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: dict[str, ModelSource] = Field(default_factory=dict)
    settings: dict[str, list[Any]] = Field(default_factory=dict)
    evaluate: tuple[Evaluation, ...] = ("estimate",)
    objectives: dict[str, Direction] = Field(default_factory=lambda: dict(USUAL))
    family: str = "xc7"
    frames: Annotated[int, Field(ge=1)] = 8
    data: LabelledData | None = None

    @classmethod
    def checked(cls, values: Mapping[str, Any], source: str, folder: Path = Path()) -> Sweep:
        """The sweep that *values* describe.

        Args:
            values: as in the file.
            source: what messages call it.
            folder: that relative paths start from.

        Raises:
            InputError: for an unknown name or a value that is not acceptable; says which.
        """
        given = dict(values)
        settings = given.get("settings")
        if isinstance(settings, Mapping):
            given["settings"] = {k: v if isinstance(v, list) else [v] for k, v in settings.items()}
        if isinstance(given.get("evaluate"), str):
            given["evaluate"] = [given["evaluate"]]
        try:
            sweep = cls.model_validate(given)
        except ValidationError as error:
            raise InputError(f"{source}: {_sentence(error)}") from error
        for name, known, what in (
            *((name, SETTINGS, "setting of a build that a sweep varies") for name in sweep.settings if "." not in name),
            *((name, MEASURES, "objective") for name in sweep.objectives),
            (sweep.family, tuple(FAMILIES), "device family"),
        ):
            if name not in known:
                near = did_you_mean(name, known)
                raise InputError(f"{source}: '{name}' is no {what}{near}; known: {', '.join(known)}")
        for name, tried in sweep.settings.items():
            if not tried:
                raise InputError(f"{source}: setting '{name}' has no value to try; give one, or leave it out")
            key, dot, value = name.rpartition(".")
            if dot and (text := setting_complaint(value)):
                raise InputError(f"{source}: setting '{name}' of the folding of '{key}': {text}")
        sweep._check_columns(source)
        return sweep.relative_to(folder)

    def _check_columns(self, source: str) -> None:
        """Refuse arguments of made models that tables could not tell from something else."""
        taken = {*COLUMNS, *MEASURES, *(name for name, values in self.settings.items() if len(values) > 1)}
        for name, model in self.models.items():
            for argument in model.varied if isinstance(model, MadeModel) else ():
                if argument in taken:
                    raise InputError(
                        f"{source}: the argument '{argument}' of 'models.{name}' is called like another column of "
                        "the table; call it otherwise"
                    )

    def relative_to(self, folder: Path) -> Sweep:
        """This sweep with its relative paths read from *folder*."""
        values = dict(self.settings)
        if "folding" in values:
            values["folding"] = [folder / v if isinstance(v, str) else v for v in values["folding"]]
        data = self.data
        if data is not None:
            data = LabelledData(inputs=folder / data.inputs, labels=folder / data.labels)
        models = {
            name: folder / source if isinstance(source, Path) else source.relative_to(folder)
            for name, source in self.models.items()
        }
        return self.model_copy(update={"settings": values, "models": models, "data": data})

    def with_models(self, paths: Sequence[Path]) -> Sweep:
        """This sweep with more models, named after their files.

        Raises:
            InputError: when a name is there already.
        """
        models = dict(self.models)
        for path in paths:
            if path.stem in models:
                raise InputError(f"two models are called '{path.stem}'; name them in the sweep's 'models'")
            models[path.stem] = path
        return self.model_copy(update={"models": models})

    def combinations(self) -> Iterator[dict[str, Any]]:
        """Every combination of the settings, as keywords of a build; each is checked.

        Raises:
            InputError, FoldingError: when a value is not acceptable.
        """
        if prod(map(len, self.settings.values())) > MOST_VALUES:
            raise InputError(f"the settings of the sweep combine to more than {MOST_VALUES:,} points")
        for values in itertools.product(*self.settings.values()):
            given = dict(zip(self.settings, values, strict=True))
            chosen = {name: value for name, value in given.items() if "." not in name}
            if isinstance(chosen.get("folding"), Path):
                chosen["folding"] = dict(read_folding(chosen["folding"]))
            for name, value in given.items():
                key, dot, setting = name.rpartition(".")
                if dot and value is not None:
                    chosen["folding"] = with_value(chosen.get("folding") or {}, key, setting, value, "the sweep")
            _ = BuildConfig.checked(**chosen).goal  # whose part or limits may be unknown
            yield chosen

    def labels(self) -> list[dict[str, str]]:
        """For each combination, the values as a table shows them; settings that do not vary are left out."""
        varied = {name: values for name, values in self.settings.items() if len(values) > 1}
        return [
            {name: shown(v) for name, v in zip(self.settings, values, strict=True) if name in varied}
            for values in itertools.product(*self.settings.values())
        ]


def read_sweep(path: Path) -> Sweep:
    """The sweep in a YAML file.

    Raises:
        InputError: when it cannot be read or does not describe a sweep.
    """
    try:
        text = given_text(path)
        values = yaml.load(text, YamlLoader)
        size = _size(values, {})
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a YAML file ({error.reason})") from error
    except RecursionError as error:
        raise InputError(f"{path}: is nested too deeply") from error
    except (yaml.YAMLError, ValueError, TypeError) as error:  # a date or a number that is none
        raise InputError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if size > MOST_VALUES:
        raise InputError(f"{path}: stands for more than {MOST_VALUES:,} values, by its aliases")
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise InputError(f"{path}: expected names and values ({', '.join(Sweep.model_fields)})")
    return Sweep.checked(values, str(path), path.parent)


def _size(value: object, known: dict[int, int]) -> int:
    """How many values *value* holds, those behind aliases each time.

    Raises:
        RecursionError: when it holds itself.
    """
    if not isinstance(value, Mapping | Sequence) or isinstance(value, str | bytes):
        return 1
    if id(value) not in known:
        inner = [*value, *value.values()] if isinstance(value, Mapping) else value
        known[id(value)] = 1 + sum(_size(item, known) for item in inner)
    return known[id(value)]


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    place = list(first["loc"])
    if place[0] == "models":
        del place[2:3]  # whether it is a file or made, which was not written
    name = ".".join(map(str, place))
    if first["type"] == "extra_forbidden":
        known = {"models": ["make", "with"], "data": [*LabelledData.model_fields]}.get(
            str(place[0]) if len(place) > 1 else "", [*Sweep.model_fields]
        )
        return f"unknown name '{name}'{did_you_mean(str(place[-1]), known)}; known: {', '.join(known)}"
    if first["loc"][-1] == "[key]":
        return f"'{first['loc'][0]}': the name {first['input']!r} is no text; write it in quotes"
    return f"'{name}': {complaint(first)}"
