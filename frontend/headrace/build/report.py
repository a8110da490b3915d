"""What a build found out, as data and as one self-contained page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from headrace.build.drawing import Arrow, Box, draw
from headrace.build.journal import StepRecord
from headrace.build.verify import Comparison
from headrace.ir import Graph, Input, Output
from headrace.layers import Layer, StreamType
from headrace.schedule import LayerPerformance, Performance
from headrace.schedule.streams import layers


@dataclass(frozen=True)
class LayerRow:
    """One hardware layer: its performance, the streams it reads and writes, and its part of the interval."""

    layer: LayerPerformance
    inputs: str
    outputs: str
    share: float

    @property
    def folding(self) -> str:
        """``PE=8 SIMD=49``."""
        return " ".join(f"{name}={value}" for name, value in self.layer.folding.items())


@dataclass(frozen=True)
class Report:
    """Everything on the page, and in ``report.json`` beside it.

    ``disagreements`` counts, by activation, the accumulator values for which float32 and exact real arithmetic decide
    differently; ``host`` says what of the model is not in the hardware, and why.
    """

    name: str
    source: str
    clock_mhz: float
    target_fps: float | None
    performance: Performance
    rows: Sequence[LayerRow]
    comparisons: Sequence[Comparison]
    disagreements: Mapping[str, int]
    host: Sequence[str]
    steps: Sequence[StepRecord]
    graph: str = field(repr=False)

    @property
    def fps(self) -> float:
        """Frames a second."""
        return self.performance.fps(self.clock_mhz)

    @property
    def verdict(self) -> str:
        """One sentence: what was compared (a build with a difference ends in an error, not in a report)."""
        values = sum(c.values for c in self.comparisons)
        frames = max((c.frames for c in self.comparisons), default=0)
        return f"Exact: {values:,} values of {frames:,} random frames are equal at every stage of the compiler."

    def json(self) -> str:
        """The data of the page, without the drawing."""
        data = asdict(self)
        del data["graph"]
        return json.dumps({"verdict": self.verdict, "fps": self.fps, **data}, indent=2) + "\n"

    def html(self) -> str:
        """The page; it refers to nothing outside itself."""
        return _environment().get_template("report.html.j2").render(report=self)


def layer_rows(hardware: Graph, expected: Performance) -> list[LayerRow]:
    """The layers of a folded hardware graph, in topological order."""
    streams = layers(hardware)
    return [
        LayerRow(
            row,
            ", ".join(stream_text(s) for s in streams[row.name].inputs),
            ", ".join(stream_text(s) for s in streams[row.name].outputs),
            row.cycles / expected.interval,
        )
        for row in expected.layers
    ]


def stream_text(stream: StreamType) -> str:
    """A stream in a few characters: frame, element type, elements a word."""
    shape = "×".join(map(str, stream.shape))
    kind = "BIPOLAR" if stream.range.bipolar else f"{'INT' if stream.range.signed else 'UINT'}{stream.bits}"
    return f"{shape} {kind} ×{stream.elements}"


def drawing(hardware: Graph, rows: Sequence[LayerRow]) -> str:
    """SVG of the hardware graph; the bar in a box is the layer's share of the interval."""
    by_name = {row.layer.name: row for row in rows}
    boxes: dict[str, Box] = {}
    arrows: list[Arrow] = []
    for name in hardware:
        op = hardware.op(name)
        if isinstance(op, Layer):
            row = by_name[name]
            detail = f"{row.layer.kind} {row.folding}".strip() + f", {row.layer.cycles:,} cycles"
            boxes[name] = Box(name, detail, row.share, row.share == 1)
        else:
            boxes[name] = Box(name, "input" if isinstance(op, Input) else "output" if isinstance(op, Output) else "")
        for port, value in enumerate(hardware.sources(name)):
            arrows.append(Arrow(value.node, name, _wire(hardware, value.node, value.port, name, port)))
    return draw(boxes, arrows)


def _wire(hardware: Graph, source: str, out: int, target: str, port: int) -> str:
    for op, index, side in ((hardware.op(source), out, "outputs"), (hardware.op(target), port, "inputs")):
        if isinstance(op, Layer):
            streams: tuple[StreamType, ...] = getattr(op, side)
            return f"{streams[index].word_bits} bit: {stream_text(streams[index])}"
    return str(hardware.types(source)[out])


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("pages")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    return environment


def _number(value: float) -> str:
    if value >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.3g}"
