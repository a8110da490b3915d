"""What a build may be told, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from headrace.codegen.design import Backend
from headrace.errors import InputError, did_you_mean
from headrace.schedule.folding_file import read_folding

Folding = Mapping[str, Mapping[str, object]]
"""Folding values by layer: ``{"MVAU_0": {"PE": 8, "SIMD": 49}}``, FINN's file format."""

CONFIG_FILE = "build.json"
"""Where a build keeps its settings."""


class BuildConfig(BaseModel):
    """Settings of one build.

    Attributes:
        name: of the design and its top module; the name of the model file when None.
        target_fps: frames a second to fold for; None folds for a modest rate by default.
        clock_mhz: clock frequency in MHz that rates refer to.
        folding: PE and SIMD by layer, overriding what the target would choose.
        backend: what is generated: ``"rtl"``, ``"hls"`` (C++ for high-level synthesis) or ``"both"``.
        verify_frames: random frames on which the stages of the compiler are compared.
        seed: of those frames.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str | None = None
    target_fps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    clock_mhz: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 200.0
    folding: Folding | None = None
    backend: Backend = "rtl"
    verify_frames: Annotated[int, Field(ge=1)] = 32
    seed: int = 0
    _folding_file: str | None = PrivateAttr(default=None)

    @property
    def folding_source(self) -> str:
        """What messages call the place that the folding was given in."""
        return self._folding_file or "the folding dictionary"

    @classmethod
    def checked(cls, folding: Path | str | Folding | None = None, **settings: object) -> BuildConfig:
        """The configuration, or one sentence about what is wrong with it.

        Args:
            folding: a folding dictionary, or the JSON file that holds one.
            settings: the other fields by name.

        Raises:
            InputError: for an unknown name or a value that is not acceptable.
            FoldingError: when the folding file cannot be read.
        """
        values = read_folding(folding) if isinstance(folding, str | Path) else folding
        try:
            config = cls.model_validate({**settings, "folding": values})
        except ValidationError as error:
            raise InputError(_sentence(error)) from error
        if isinstance(folding, str | Path):
            config._folding_file = str(folding)
        return config


def read_config(path: Path) -> BuildConfig:
    """The settings that a build kept.

    Raises:
        InputError: when they cannot be read.
    """
    try:
        return BuildConfig.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise InputError(f"{path}: {_sentence(error)}") from error


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        known = list(BuildConfig.model_fields)
        return f"unknown setting '{name}'{did_you_mean(name, known)}; known: {', '.join(known)}"
    message = first["msg"][0].lower() + first["msg"][1:]
    return f"setting '{name}': {message}, got {first['input']!r}"
