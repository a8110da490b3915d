"""From the options of ``headrace build`` to a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.build.config import BuildConfig, read_config, read_finn_config
from headrace.errors import InputError

FINN_MODEL = "model.onnx"


@dataclass(frozen=True)
class Overrides:
    """Options that are settings, too; None where one was not given. They have the last word over a file."""

    output_dir: Path | None = None
    target_fps: float | None = None
    clock_mhz: float | None = None
    folding: Path | None = None
    fit_part: str | None = None
    resource_limits: Mapping[str, float] | None = None
    backend: str | None = None
    start_step: str | None = None
    stop_step: str | None = None
    unroll: bool | None = None
    performance_counters: bool | None = None


def settings_of(
    model: Path | None, config: Path | None, finn_config: Path | None, given: Overrides
) -> tuple[Path | None, BuildConfig]:
    """The model, and the configuration with what was given on the command line.

    Args:
        model: the model that was named; None takes FINN's ``model.onnx`` beside its configuration.
        config: file with Headrace's own settings.
        finn_config: file with FINN's.
        given: options.

    Raises:
        InputError: when something is missing, given twice, or not acceptable.
    """
    if config is not None and finn_config is not None:
        raise InputError("--config and --finn-config are both given; give one of them")
    settings = _options(given)
    if finn_config is not None:
        found: BuildConfig = read_finn_config(finn_config)
        model = model or finn_config.parent / FINN_MODEL
    elif config is not None:
        found = read_config(config).relative_to(config.parent)
    else:
        found = BuildConfig()
    if "folding" in settings:
        settings |= {"folding": None, "folding_config_file": settings["folding"]}
    if "clock_mhz" in settings:
        settings["synth_clk_period_ns"] = BuildConfig.checked(clock_mhz=settings.pop("clock_mhz")).synth_clk_period_ns
    for name, value in settings.items():
        setattr(found, name, value)
    if found.output_dir is None:
        raise InputError("there is no folder to write; give one with -o, --output")
    if model is None and found.start_step is None:
        raise InputError("there is no model; name an ONNX file, or give --finn-config, or --start-step")
    return model, found


def limits_of(texts: Sequence[str]) -> dict[str, float] | None:
    """``["lut=20000", "dsp=0"]`` as a dictionary, or None of nothing.

    Raises:
        InputError: for anything else.
    """
    found: dict[str, float] = {}
    for text in texts:
        kind, separator, value = text.partition("=")
        try:
            found[kind.strip()] = float(value)
        except ValueError:
            separator = ""
        if not separator:
            raise InputError(f"--limit {text}: expected a resource and a number, for example lut=20000")
    return found or None


def _options(given: Overrides) -> dict[str, Any]:
    return {name: value for name, value in vars(given).items() if value is not None}
