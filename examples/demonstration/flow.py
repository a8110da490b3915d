"""From training to simulated hardware, for any example: finalize, export, build, simulate, and compare all of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table
from torch import Tensor, nn

import headrace
from headrace.build import Design, build
from headrace.build.journal import Journal
from headrace.build.simulate import Simulation
from headrace.build.summary import layer_table
from headrace.build.terminal import console, table
from headrace.build.validation import Validation, keep_validation
from headrace.build.verify import compare, compare_simulation
from headrace.export import export_qonnx

CLOCK_MHZ = 200.0

Labels = NDArray[np.int64]
Engine = Literal["cpp", "cocotb"]
ENGINES: dict[Engine, str] = {"cocotb": "Verilator, cocotb", "cpp": "Verilator, C++ bench"}


class Classifier(nn.Module):
    """The class that the scores of a network favour."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.network(inputs)
        return scores.argmax(1, keepdim=True)


@dataclass(frozen=True)
class Samples:
    """Samples ``(n, *shape)`` and their labels ``(n,)``, to train on and to test with."""

    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor


@dataclass(frozen=True)
class Task:
    """What an example brings along.

    Attributes:
        title: data and network, for headings.
        bits: of weights and activations.
        unit: what the samples are.
        names: of input and output in the exported file.
        target_fps: samples a second that the hardware is folded for.
        load: gives the samples.
        network: makes an untrained network, which gives scores by class.
        train: trains it in place, and tells a function about its progress.
        sources: folders whose Python files training depends on.
        engine: that simulates.
        classifier: what is exported: the network with the decision behind it.
    """

    title: str
    bits: int
    unit: str
    names: tuple[str, str]
    target_fps: float
    load: Callable[[], Samples]
    network: Callable[[], nn.Module]
    train: Callable[[nn.Module, Samples, Callable[[str], None]], None]
    sources: tuple[Path, ...]
    engine: Engine = "cpp"
    classifier: Callable[[nn.Module], nn.Module] = Classifier


@dataclass(frozen=True)
class Outcome:
    """What the demo found out.

    Attributes:
        task: what was demonstrated.
        design: the built design.
        simulation: of the first test samples.
        predictions: class by test sample, from PyTorch, the integer graph and the RTL.
        labels: the right classes.
        compared: integers in the hardware that were compared with the integer graph, all of them equal.
    """

    task: Task
    design: Design
    simulation: Simulation
    predictions: dict[str, Labels]
    labels: Labels
    compared: int


@dataclass(frozen=True)
class Demo:
    """What ``headrace demo --example`` calls, as the ``main`` of an example.

    Attributes:
        task: makes the example for a number of bits.
        bits: when none are chosen.
        folder: of the results within ``out``, with the bits for ``{0}``.
    """

    task: Callable[[int], Task]
    bits: int
    folder: str

    def __call__(
        self, bits: int | None = None, images: int = 100, output: Path | None = None, journal: Journal | None = None
    ) -> Outcome:
        """Run the demo and return what it found.

        Args:
            bits: of weights and activations.
            images: how many test samples are simulated.
            output: folder for the trained network, the exported model and the design.
            journal: told of the steps.

        Raises:
            VerificationError: when PyTorch, integer graph and hardware are not equal in every value.
        """
        chosen = self.bits if bits is None else bits
        folder = output or Path("out") / self.folder.format(chosen)
        return demonstrate(self.task(chosen), images, folder, journal or Journal())


def demonstrate(task: Task, count: int, folder: Path, journal: Journal) -> Outcome:
    """Run the whole flow and return what it found.

    Args:
        task: the example.
        count: how many test samples are simulated.
        folder: for the trained network, the exported model and the design.
        journal: told of the steps.

    Raises:
        VerificationError: when PyTorch, integer graph and hardware are not equal in every value.
    """
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    with journal.step(f"load {task.unit}") as note:
        samples = task.load()
        note(f"{len(samples.labels):,} to train on, {len(samples.test_labels):,} to test")
    final = headrace.finalize(task.classifier(trained(task, samples, folder, journal)).eval())
    model = folder / "model.onnx"
    with journal.step("export") as note:
        source, result = task.names
        export_qonnx(final, samples.test_inputs[:1], model, input_names=[source], output_names=[result])
        note(str(model))
    design = build(model, folder / "design", journal=journal, target_fps=task.target_fps, clock_mhz=CLOCK_MHZ)
    return _compare(task, final, design, samples, count, journal)


def trained(task: Task, samples: Samples, folder: Path, journal: Journal) -> nn.Module:
    """The trained network, from *folder* when the same training has left it there."""
    network = task.network()
    kept = folder / "network.pt"
    key = _training_key(task)
    with journal.step("train") as note:
        if kept.is_file() and (state := torch.load(kept, weights_only=True)).get("key") == key:
            network.load_state_dict(state["network"])
            how = f", kept from {kept}"
        else:
            torch.manual_seed(0)
            network = task.network()
            task.train(network, samples, journal.progress)
            torch.save({"key": key, "network": network.state_dict()}, kept.with_suffix(".new"))
            os.replace(kept.with_suffix(".new"), kept)
            how = ""
        network.eval()
        with torch.no_grad():
            share = accuracy(network(samples.test_inputs), samples.test_labels)
        note(f"test accuracy {share:.1%}{how}")
    return network


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Share of the samples whose highest score is that of their label; one score is that of label 1 against 0."""
    decided = scores.argmax(1) if scores.shape[1] > 1 else (scores[:, 0] >= 0).long()
    return float((decided == labels).double().mean())


def _training_key(task: Task) -> str:
    """Changes with everything that training depends on."""
    files = [path for folder in task.sources for path in sorted(folder.glob("*.py"))]
    content = [
        *(path.read_bytes() for path in files),
        f"{task.bits} {torch.__version__} {headrace.__version__}".encode(),
    ]
    return hashlib.sha256(b"\0".join(content)).hexdigest()


def _compare(task: Task, final: nn.Module, design: Design, samples: Samples, count: int, journal: Journal) -> Outcome:
    """PyTorch, integer graph and RTL on test samples."""
    source, result = task.names
    feeds = {source: samples.test_inputs.numpy()}
    with torch.no_grad():
        predictions = {"PyTorch (finalized)": final(samples.test_inputs).numpy()}
    predictions["Integer graph"] = design.run(feeds, mode="integer", journal=journal)[result]
    some = {source: feeds[source][:count]}
    simulation = design.simulate(some, engine=task.engine, trace=True, journal=journal)
    predictions[f"RTL ({ENGINES[task.engine]})"] = simulation.outputs[result]
    with journal.step("compare") as note:
        expected = predictions["PyTorch (finalized)"]
        for stage, got in predictions.items():
            compare(f"PyTorch = {stage}", result, expected[: len(got)], got)
        compared = sum(c.values for c in compare_simulation(design, some, simulation))
        note(f"{compared:,} integers in the hardware, 0 differ")
    flat = {stage: values.ravel() for stage, values in predictions.items()}
    labels = samples.test_labels.numpy()
    keep_validation(design, Validation.of(design, labels, flat, len(some[source]), language="SystemVerilog"))
    return Outcome(task, design, simulation, flat, labels, compared)


def outcome_data(outcome: Outcome) -> dict[str, object]:
    """What the demo found, for ``headrace demo --json``."""
    right = {
        stage: float((predicted == outcome.labels[: len(predicted)]).mean())
        for stage, predicted in outcome.predictions.items()
    }
    return {
        "bits": outcome.task.bits,
        "output": str(outcome.design.folder),
        "accuracy": right,
        "values_compared": outcome.compared,
        "values_differing": 0,
        "interval_cycles": outcome.simulation.result.interval,
    }


def print_outcome(outcome: Outcome) -> None:
    """The tables at the end of the demo."""
    out = console()
    for shown in (layer_table(outcome.design), _accuracy_table(outcome), _hardware_table(outcome)):
        out.print()
        out.print(shown)
    folder = outcome.design.folder
    out.print(f"\nSystemVerilog: {folder}/rtl", soft_wrap=True)
    out.print(f"Report:        {folder}/report/index.html", soft_wrap=True)


def _accuracy_table(outcome: Outcome) -> Table:
    simulated = min(len(p) for p in outcome.predictions.values())
    unit = outcome.task.unit
    heading = f"{outcome.task.title}, {outcome.task.bits}-bit: accuracy on"
    shown = table(heading, right=(f"{len(outcome.labels):,} test {unit}", f"the first {simulated:,}"))
    for stage, predicted in outcome.predictions.items():
        right = predicted == outcome.labels[: len(predicted)]
        every = f"{right.mean():.1%}" if len(predicted) == len(outcome.labels) else ""
        shown.add_row(stage, every, f"{right[:simulated].mean():.1%}")
    return shown


def _hardware_table(outcome: Outcome) -> Table:
    design, result = outcome.design, outcome.simulation.result
    interval = next(iter(result.interval.values()))
    folded = design.performance.interval
    shown = table("hardware", right=("",))
    shown.add_row("Integer values compared", f"{outcome.compared:,}")
    shown.add_row("Integer values differing", "0")
    shown.add_row("Initiation interval, folded bound", f"{folded:,} cycles")
    if interval is not None:
        over = 100 * (interval / folded - 1)
        shown.add_row("Initiation interval, measured", f"{interval:,.1f} cycles ({over:+.1f} %)")
        shown.add_row(f"{outcome.task.unit.capitalize()}/s at {CLOCK_MHZ:g} MHz", f"{CLOCK_MHZ * 1e6 / interval:,.0f}")
    shown.add_row("Latency, measured", f"{result.first_output_latency:,} cycles to the first word out")
    return shown
