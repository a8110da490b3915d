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
from headrace.layers import Layer, Resources, StreamType


@dataclass(frozen=True)
class LayerRow:
    """One hardware layer."""

    name: str
    kind: str
    folding: Mapping[str, int]
    input: str
    output: str
    cycles: int
    share: float
    bottleneck: bool
    resources: Resources


@dataclass(frozen=True)
class Report:
    """Everything on the page, and in ``report.json`` beside it.

    ``cycles`` are clock cycles a frame; ``share`` is a layer's part of the interval; ``disagreements`` counts, by
    activation, the accumulator values for which float32 and exact real arithmetic decide differently.
    """

    name: str
    source: str
    clock_mhz: float
    target_fps: float | None
    interval: int
    latency: int
    fps: float
    layers: Sequence[LayerRow]
    resources: Resources
    comparisons: Sequence[Comparison]
    disagreements: Mapping[str, int]
    host: Sequence[str]
    steps: Sequence[StepRecord]
    graph: str = field(repr=False, default="")

    @property
    def verdict(self) -> str:
        """One sentence: what was compared (a build with a difference ends in an error, not in a report)."""
        values = sum(c.values for c in self.comparisons)
        frames = max((c.frames for c in self.comparisons), default=0)
        return f"Exact: {values:,} values of {frames:,} random frames are equal at every stage of the compiler."

    @property
    def bottleneck(self) -> LayerRow:
        """The slowest layer, which sets the interval."""
        return max(self.layers, key=lambda row: row.cycles)

    def json(self) -> str:
        """The data of the page, without the drawing."""
        data = {key: value for key, value in asdict(self).items() if key != "graph"}
        return json.dumps({**data, "verdict": self.verdict}, indent=2) + "\n"

    def html(self) -> str:
        """The page; it refers to nothing outside itself."""
        return _environment().get_template("report.html.j2").render(report=self)


def layer_rows(hardware: Graph) -> list[LayerRow]:
    """The layers of a folded hardware graph, in topological order."""
    layers = {name: op for name in hardware if isinstance(op := hardware.op(name), Layer)}
    interval = max((layer.cycles for layer in layers.values()), default=1)
    return [
        LayerRow(
            name,
            layer.kind,
            dict(layer.folding),
            ", ".join(stream_text(s) for s in layer.inputs),
            ", ".join(stream_text(s) for s in layer.outputs),
            layer.cycles,
            layer.cycles / interval,
            layer.cycles == interval,
            layer.resources(),
        )
        for name, layer in layers.items()
    ]


def stream_text(stream: StreamType) -> str:
    """A stream in a few characters: frame, element type, elements a word."""
    shape = "×".join(map(str, stream.shape))
    kind = "BIPOLAR" if stream.range.bipolar else f"{'INT' if stream.range.signed else 'UINT'}{stream.bits}"
    return f"{shape} {kind} ×{stream.elements}"


def drawing(hardware: Graph, rows: Sequence[LayerRow]) -> str:
    """SVG of the hardware graph; the bar in a box is the layer's share of the interval."""
    by_name = {row.name: row for row in rows}
    boxes: dict[str, Box] = {}
    arrows: list[Arrow] = []
    for name in hardware:
        op = hardware.op(name)
        if isinstance(op, Layer):
            row = by_name[name]
            folding = " ".join(f"{key}={value}" for key, value in row.folding.items())
            detail = f"{row.kind} {folding}".strip() + f", {row.cycles:,} cycles"
            boxes[name] = Box(name, detail, row.share, row.bottleneck)
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
