"""What a build found out, as data and as one self-contained page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
from pydantic import TypeAdapter

from headrace import __version__
from headrace.bounded_text import kept_text
from headrace.build.bitstreams import Bitstream, read_bitstreams
from headrace.build.drawing import Arrow, Box, draw
from headrace.build.estimates import network_counts
from headrace.build.journal import StepRecord
from headrace.build.output import write_files
from headrace.build.page import page_environment
from headrace.build.profile import Profile, read_profile
from headrace.build.validation import Validation, read_validation
from headrace.build.verify import Comparison
from headrace.codegen.control import address_map
from headrace.codegen.design import Backend
from headrace.errors import InputError, counted, printable
from headrace.ir import Graph, Input, Op, Output, Value
from headrace.layers import Layer, StreamType
from headrace.layers.base import Resources
from headrace.layers.fifo import FIFO
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.partition import Partition
from headrace.schedule import LayerPerformance, Performance
from headrace.schedule.streams import layers
from headrace.synth import Synthesis
from headrace.synth.results import Utilisation, read_synthesis

if TYPE_CHECKING:
    from headrace.build.design import Design

REPORT_PAGE, REPORT_DATA = "report/index.html", "report/report.json"

_PAGES = Path(__file__).with_name("pages")


@dataclass(frozen=True)
class LayerRow:
    """One hardware layer: its performance, the streams it reads and writes, and its part of the interval.

    ``moves`` says that it hands on what it reads: a FIFO, a width converter; ``ip`` that it is made in C++, an IP of
    high-level synthesis between layers in SystemVerilog; ``style`` of which ways a layer in SystemVerilog is made.
    """

    layer: LayerPerformance
    inputs: str
    outputs: str
    share: float
    moves: bool
    ip: bool = False
    style: str = ""

    @property
    def kind(self) -> str:
        """``MVAU``, or ``MVAU (HLS IP)``."""
        return f"{self.layer.kind} (HLS IP)" if self.ip else self.layer.kind

    @property
    def folding(self) -> str:
        """``PE=8 SIMD=49``."""
        return " ".join(f"{name}={value}" for name, value in self.layer.folding.items())


@dataclass(frozen=True)
class Report:
    """Everything on the page, and in ``report.json`` beside it.

    ``disagreements`` counts, by activation, the accumulator values for which float32 and exact real arithmetic decide
    differently; ``host`` says what of the model is not in the hardware, and why; ``synthesis`` is what synthesis tools
    made of the design, ``profile`` where it spent its time in simulation, ``bitstreams`` what they made of
    it for boards, ``validation`` how accurate it is, when these were run; ``control`` is the address map of its control
    interface, where it has one. ``counts`` are operations a frame and parameters by type; ``available`` are the
    resources of what the design is to fit, ``available_in`` its name; ``version`` is that of Headrace.
    """

    name: str
    source: str
    clock_mhz: float
    target_fps: float | None
    performance: Performance
    rows: Sequence[LayerRow]
    comparisons: Sequence[Comparison]
    disagreements: Mapping[str, int]
    backend: Backend
    host: Sequence[str]
    steps: Sequence[StepRecord]
    graph: str = field(repr=False)
    synthesis: Synthesis | None = None
    profile: Profile | None = None
    bitstreams: Sequence[Bitstream] = ()
    control: Mapping[str, Any] | None = None
    validation: Validation | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    available: Mapping[str, float] = field(default_factory=dict)
    available_in: str = ""
    version: str = __version__

    @property
    def computing(self) -> Sequence[LayerRow]:
        """The layers that compute."""
        return [row for row in self.rows if not row.moves]

    @property
    def moving(self) -> Sequence[LayerRow]:
        """The layers between them."""
        return [row for row in self.rows if row.moves]

    @property
    def between(self) -> str:
        """Their kinds and numbers: ``11 FIFOs, 2 DWCs``."""
        return kinds_text(self.rows)

    @property
    def moving_resources(self) -> Resources:
        """What they take, estimated."""
        return sum((row.layer.resources for row in self.moving), Resources())

    @property
    def moving_synthesised(self) -> tuple[Utilisation, bool]:
        """What they take, synthesised, and whether all of them have a result."""
        units = self.synthesis.by_name if self.synthesis is not None else {}
        found = [unit.used for row in self.moving if (unit := units.get(row.layer.name)) and unit.used is not None]
        return sum(found, Utilisation()), len(found) == len(self.moving)

    @property
    def fps(self) -> float:
        """Frames a second."""
        return self.performance.fps(self.clock_mhz)

    @property
    def as_slow(self) -> int:
        """How many layers that compute take as long as the bottleneck, which is not counted."""
        others = (row for row in self.computing if row.layer.name != self.performance.bottleneck)
        return sum(row.layer.cycles == self.performance.interval for row in others)

    @property
    def products(self) -> int:
        """Multiply-accumulate operations a frame."""
        return sum(count for kind, count in self.counts.items() if kind.startswith("op_mac_"))

    @property
    def weights(self) -> int:
        """Weights of all layers."""
        return sum(count for kind, count in self.counts.items() if kind.startswith("param_weight_"))

    @property
    def ultra(self) -> bool:
        """Whether there is UltraRAM, estimated or synthesised."""
        synthesised = self.synthesis is not None and self.synthesis.total.uram > 0
        return synthesised or self.performance.resources.uram > 0

    @property
    def compared(self) -> str:
        """What was compared (a build with a difference ends in an error, not in a report)."""
        own = [c for c in self.comparisons if c.data == "random"]
        values, frames = sum(c.values for c in own), max((c.frames for c in own), default=0)
        stages = "the model, the integer graph and the arithmetic of the hardware layers"
        text = f"Exact: {counted(values, 'value')} of {counted(frames, 'random frame')} are equal in {stages}."
        if given := [c for c in self.comparisons if c.data == "expected"]:
            where = ", ".join(dict.fromkeys(c.stages.removeprefix("expected output = ") for c in given))
            text += f" The expected output is that of {counted(given[0].frames, 'frame')} at {where}."
        return text

    @property
    def by_stages(self) -> dict[str, list[Comparison]]:
        """The comparisons of each two stages."""
        found: dict[str, list[Comparison]] = {}
        for comparison in self.comparisons:
            found.setdefault(comparison.stages, []).append(comparison)
        return found

    @property
    def not_simulated(self) -> str:
        """What the comparison does not cover, even with what ran after the build."""
        built = {c.simulated for c in self.comparisons}
        return not_simulated(self.backend, built, self._simulated_since)

    @property
    def _simulated_since(self) -> set[str]:
        """The languages of simulations after the build, all of them compared with the integer network."""
        found = set() if self.profile is None else {"SystemVerilog"}
        return found if self.validation is None else found | {self.validation.language}

    @property
    def verdict(self) -> str:
        """Both."""
        return f"{self.compared} {self.not_simulated}"

    def json(self) -> str:
        """The data of the page, without the drawing."""
        data = asdict(self)
        own_files = ("synthesis", "profile", "bitstreams", "validation", "control")
        for name in ("graph", *own_files):
            del data[name]
        return json.dumps({"verdict": self.verdict, "fps": self.fps, **data}, indent=2) + "\n"

    def html(self) -> str:
        """The page; it refers to nothing outside itself."""
        environment = page_environment(_PAGES, _number)
        chart = {"area": _area, "chart_width": CHART_WIDTH, "chart_height": CHART_HEIGHT}
        return environment.get_template("report.html.j2").render(report=self, **chart)


def report_files(
    design: Design,
    comparisons: Sequence[Comparison],
    steps: Sequence[StepRecord],
    folder: Path,
    source: str | None = None,
) -> dict[str, str]:
    """The texts of the page and of its data, by path in the *folder* of the build.

    What *folder* holds of a synthesis and of a profile of this very design is shown as well. *source* is the name of
    the model's file, where the design was opened from the folder and has its copy.
    """
    digest, budget = design.plan.digest, design.config.goal.budget
    synthesis = read_synthesis(folder)
    rows = layer_rows(design.hardware, design.performance)
    page = Report(
        name=design.name,
        source=source or Path(design.source.file or design.name).name,
        clock_mhz=design.config.clock_mhz,
        target_fps=design.config.target_fps,
        performance=design.performance,
        rows=rows,
        comparisons=comparisons,
        disagreements=dict(design.integer.disagreements),
        backend=design.config.backend,
        host=list(map(str, design.integer.blockers)),
        steps=list(steps),
        graph=drawing(design.hardware.graph, rows, end_boxes(design.hardware, design.parts)),
        synthesis=synthesis if synthesis is not None and synthesis.digest == digest else None,
        profile=read_profile(folder, digest),
        bitstreams=read_bitstreams(folder, digest),
        control=address_map(design.plan.files),
        validation=read_validation(folder, digest),
        counts=network_counts(design.hardware.graph),
        available={kind: most for kind, most in asdict(budget.available).items() if isfinite(most)} if budget else {},
        available_in=budget.name.removesuffix(",") if budget else "",
    )
    return {REPORT_PAGE: printable(page.html(), keep="\n"), REPORT_DATA: page.json()}


def renewed_report(design: Design, folder: Path) -> dict[str, str]:
    """The report's files again, with what the build found out then and what was found since.

    Raises:
        InputError: when there is no report, or one of another version.
    """
    path = folder / REPORT_DATA
    try:
        data = json.loads(kept_text(path))
        comparisons = TypeAdapter(list[Comparison]).validate_python(data["comparisons"])
        steps = TypeAdapter(list[StepRecord]).validate_python(data["steps"])
        source = TypeAdapter(str).validate_python(data["source"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not the report of this version of Headrace; build the design again") from error
    return report_files(design, comparisons, steps, folder, source)


def add_to_report(design: Design, folder: Path, files: Mapping[str, str]) -> None:
    """Write what was found of a design that was built to the *folder* of the build, and into its report.

    Raises:
        InputError: as :func:`renewed_report`, or when the folder cannot be written.
    """
    write_files(folder, files)
    write_files(folder, renewed_report(design, folder))


def not_simulated(
    backend: Backend, simulated: Collection[str] = (), since: Collection[str] = (), folder: str = "OUT"
) -> str:
    """One sentence: whether a build simulated what it generates, or how to.

    Args:
        backend: what is generated.
        simulated: languages that were simulated.
        since: languages that were simulated after the build.
        folder: of the build, as a command line names it.
    """
    kinds = {"rtl": [("SystemVerilog", "rtl")], "hls": [("C++", "hls")]}
    both = [*kinds["rtl"], *kinds["hls"]]
    made = kinds.get(backend, both)
    if all(name in simulated for name, _ in made):
        return "What is generated was simulated in this build, too."
    missing = [(name, mode) for name, mode in made if name not in simulated and name not in since]
    if not missing:
        return "What is generated was simulated, too, since it was built."
    name, mode = missing[0]
    run = f"`headrace run {folder} --input X.npz --output Y.npz --mode hls`"
    how = {"rtl": f"`headrace profile {folder}`", "hls": run}
    also = f"; nor was the C++: {run} does" if len(missing) > 1 else ""
    return f"The generated {name} was not simulated in this build: {how[mode]} does it{also}."


def layer_rows(hardware: HardwareDesign, expected: Performance) -> list[LayerRow]:
    """The layers of a folded design, in topological order."""
    found, backends = layers(hardware.graph), hardware.backends
    return [
        LayerRow(
            row,
            ", ".join(stream_text(s) for s in found[row.name].inputs),
            ", ".join(stream_text(s) for s in found[row.name].outputs),
            row.cycles / expected.interval,
            _moves(found[row.name]),
            backends.get(row.name) == "hls",
            found[row.name].style_in_use if backends.get(row.name) != "hls" else "",
        )
        for row in expected.layers
    ]


def kinds_text(rows: Sequence[LayerRow]) -> str:
    """How many there are of each kind of layer between those that compute: ``11 FIFOs, 2 DWCs``."""
    kinds = Counter(row.layer.kind for row in rows if row.moves)
    return ", ".join(counted(number, kind) for kind, number in kinds.items())


def _moves(layer: Layer) -> bool:
    """Whether a layer reads one tensor and writes the same."""
    return not layer.folding_choices and [s.tensor for s in layer.inputs] == [s.tensor for s in layer.outputs]


def stream_text(stream: StreamType) -> str:
    """A stream in a few characters: frame, element type, elements a word."""
    shape = "×".join(map(str, stream.shape))
    return f"{shape} {stream.range.type_name} ×{stream.elements}"


def end_boxes(hardware: HardwareDesign, parts: Partition) -> dict[str, Box]:
    """The ends of the hardware graph by node, titled with the model's own inputs and outputs that they belong to."""
    boxes = {}
    for port in hardware.inputs:
        before = nx.ancestors(parts.head.nx, parts.head.output_node(port.name))
        boxes[port.node] = Box(_ends(parts.head, before, Input, port.name), f"input {port.range}")
    for port in hardware.outputs:
        after = nx.descendants(parts.tail.nx, parts.tail.input_node(port.name))
        boxes[port.node] = Box(_ends(parts.tail, after, Output, port.name), f"output {port.range}")
    return boxes


def _ends(graph: Graph, nodes: Set[str], kind: type[Input] | type[Output], otherwise: str) -> str:
    names, node_of = (graph.inputs, graph.input_node) if kind is Input else (graph.outputs, graph.output_node)
    return ", ".join(name for name in names if node_of(name) in nodes) or otherwise


def drawing(hardware: Graph, rows: Sequence[LayerRow], ends: Mapping[str, Box]) -> str:
    """SVG of the hardware graph; the bar in a box is the layer's share of the interval.

    What only moves a tensor is written beside the arrow that it lies on.

    Args:
        hardware: folded.
        rows: its layers.
        ends: the boxes of its inputs and outputs, by node.
    """
    by_name = {row.layer.name: row for row in rows}
    boxes: dict[str, Box] = {}
    arrows: list[Arrow] = []
    for name in hardware:
        row = by_name.get(name)
        if row is not None and row.moves:
            continue
        if row is not None:
            detail = f"{row.kind} {row.folding}".strip() + f", {counted(row.layer.cycles, 'cycle')}"
            boxes[name] = Box(name, detail, row.share, row.share == 1)
        else:
            boxes[name] = ends.get(name) or Box(name, type(hardware.op(name)).__name__.lower())
        arrows += [_arrow(hardware, by_name, value, Value(name, k)) for k, value in enumerate(hardware.sources(name))]
    return draw(boxes, arrows)


def _arrow(hardware: Graph, rows: Mapping[str, LayerRow], source: Value, target: Value) -> Arrow:
    """The arrow into port *target*, from the nearest layer that computes what arrives there."""
    between: list[str] = []
    label = _stream_label(hardware, source)
    while (row := rows.get(source.node)) is not None and row.moves:
        between.insert(0, _mover(hardware.op(source.node), row.layer.kind))
        (source,) = hardware.sources(source.node)
    return Arrow(source.node, target.node, f"{label} ({', '.join(between)})" if between else label)


def _mover(op: Op, kind: str) -> str:
    return f"{kind} {op.depth:,}" if isinstance(op, FIFO) else kind


def _stream_label(hardware: Graph, value: Value) -> str:
    op = hardware.op(value.node)
    return stream_text(op.outputs[value.port]) if isinstance(op, Layer) else str(hardware.type(value))


def _number(value: float) -> str:
    if value >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.3g}"


CHART_WIDTH, CHART_HEIGHT = 240, 26


def _area(values: Sequence[float], top: float) -> str:
    """The path of an SVG area under *values*, side by side, of which *top* reaches the upper edge."""
    width = CHART_WIDTH / max(len(values), 1)
    steps = (f"V{CHART_HEIGHT * (1 - min(value / (top or 1), 1)):.1f}h{width:.3g}" for value in values)
    return f"M0 {CHART_HEIGHT}{''.join(steps)}V{CHART_HEIGHT}z"
