"""One point of a sweep, and what is found out about it: the function that workers run."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from headrace import __version__
from headrace.build.design import Design
from headrace.build.validation import named_classes
from headrace.errors import HeadraceError, ToolError
from headrace.ir import Array

LARGEST = 1e30
"""Magnitude of measures: what is larger is not a count, rate or size of any design."""


@dataclass(frozen=True, eq=False)
class Point:
    """What is evaluated; complete in itself, so that a worker anywhere can do it.

    Attributes:
        model: name of the model in tables.
        labels: the varied settings as tables show them.
        proto: the ONNX model, serialised.
        settings: keywords of a build.
        evaluate: ``estimate``, ``rtl``, ``synthesis``.
        family: devices that are synthesised for.
        frames: random frames that are simulated.
        inputs, classes: labelled data for the accuracy, or nothing.
        error: why there is no model; empty when there is.
        file: of the model.
        version: of Headrace that asks; one that is another computes other results.
    """

    model: str
    labels: Mapping[str, str]
    proto: bytes
    settings: Mapping[str, Any]
    evaluate: tuple[str, ...] = ("estimate",)
    family: str = "xc7"
    frames: int = 8
    inputs: Mapping[str, Array] = field(default_factory=dict)
    classes: Array | None = None
    error: str = ""
    file: str = ""
    version: str = __version__

    @cached_property
    def key(self) -> str:
        """Name of the result: equal for points of equal content, evaluated by this version."""
        digest = hashlib.blake2b(digest_size=12)
        settings = json.dumps(self.settings, sort_keys=True, default=str)
        for part in (self.version, settings, repr(sorted(self.evaluate)), self.family, str(self.frames)):
            digest.update(f"{len(part)}:{part}".encode())
        digest.update(self.proto)
        for name, array in sorted(self.inputs.items()):
            digest.update(f"{name}{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        if self.classes is not None:
            digest.update(np.ascontiguousarray(self.classes).tobytes())
        return digest.hexdigest()

    @property
    def title(self) -> str:
        """The point in a few words."""
        return title(self.model, self.labels)


def title(model: str, labels: Mapping[str, str]) -> str:
    """A point in a few words: ``mnist target_fps=1e6``."""
    return " ".join([model, *(f"{name}={value}" for name, value in labels.items())])


@dataclass(frozen=True)
class Result:
    """What was found out about a point.

    Attributes:
        key: of the point.
        model, labels: as there.
        measures: values by name, see :data:`headrace.explore.sweep.MEASURES`.
        exact: whether RTL and integer graph agree in every value; None when it was not simulated.
        bottleneck: the slowest layer.
        error: why there is no (complete) result; empty when there is.
        seconds: that it took.
        file: of the model; with the settings that are kept beside the result it can be built.
    """

    key: str
    model: str
    labels: Mapping[str, str]
    measures: Mapping[str, float] = field(default_factory=dict)
    exact: bool | None = None
    bottleneck: str = ""
    error: str = ""
    seconds: float = 0.0
    file: str = ""

    @property
    def title(self) -> str:
        """The point in a few words."""
        return title(self.model, self.labels)

    def to_json(self) -> str:
        """As the text of a file."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Result:
        """The inverse of :meth:`to_json`.

        Raises:
            ValueError: when *text* is something else.
        """
        result = TypeAdapter(cls).validate_json(text)
        for name, value in result.measures.items():
            if not abs(value) <= LARGEST:
                raise ValueError(f"not a result: {name} is not a number up to {LARGEST:g}")
        return result


def evaluate(point: Point) -> Result:
    """Everything that *point* asks for; bad input, missing tools and failures become the result's error."""
    start = time.perf_counter()
    measures: dict[str, float] = {}
    exact: bool | None = None
    bottleneck, error = "", ""
    try:
        from headrace.build.config import BuildConfig
        from headrace.ingest import from_bytes

        if point.version != __version__:
            raise ToolError(
                f"its worker has Headrace {__version__}, and {point.version} asks; install {point.version} there"
            )
        config = BuildConfig.checked(**point.settings)
        design = Design(from_bytes(point.proto, point.model), config)
        bottleneck = design.performance.bottleneck
        measures |= _estimates(design)
        if point.classes is not None:
            measures["accuracy"] = float((named_classes(design.run(point.inputs)) == point.classes).mean())
        if "rtl" in point.evaluate:
            exact, found = _simulated(design, point.frames)
            measures |= found
        if "synthesis" in point.evaluate:
            measures |= _synthesised(design, point.family)
    except HeadraceError as failure:
        error = str(failure)
    seconds = time.perf_counter() - start
    return Result(point.key, point.model, point.labels, measures, exact, bottleneck, error, seconds)


def _estimates(design: Design) -> dict[str, float]:
    expected = design.performance
    rates = {"interval": expected.interval, "latency": expected.latency, "fps": expected.fps(design.config.clock_mhz)}
    return {name: float(value) for name, value in {**rates, **asdict(expected.resources)}.items()}


def _simulated(design: Design, frames: int) -> tuple[bool, dict[str, float]]:
    from headrace.build.verify import random_frames

    feeds = random_frames(design.source, frames, 0)
    simulation = design.simulate(feeds)
    expected = design.run(feeds, mode="integer")
    exact = all(np.array_equal(simulation.outputs[name], expected[name]) for name in expected)
    found = {"measured_latency": float(simulation.result.first_frame_latency)}
    intervals = [value for value in simulation.result.interval.values() if value is not None]
    if intervals:
        found["measured_interval"] = max(intervals)
        found["measured_fps"] = design.config.clock_mhz * 1e6 / max(intervals)
    return exact, found


def _synthesised(design: Design, family: str) -> dict[str, float]:
    from headrace.build.synthesis import synthesis_cache
    from headrace.synth import Settings, synthesise, units_of
    from headrace.synth.families import family as find_family

    settings = Settings(jobs=1, cache=synthesis_cache())
    found = synthesise(units_of(design.hardware, design.name, design.plan), find_family(family), settings)
    if found.failed:
        raise ToolError("; ".join(unit.error for unit in found.failed))
    total = found.total
    used = {"lut": total.luts, "ff": total.ff, "dsp": total.dsp, "bram18": total.bram18, "uram": total.uram}
    return {f"synthesised_{name}": float(value) for name, value in used.items()}
