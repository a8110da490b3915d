"""What ``headrace demo`` does: train, finalize, export, build, simulate, and compare all of it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table
from torch import nn

import headrace
from headrace.build import Design, build
from headrace.build.journal import Journal
from headrace.build.simulate import Simulation
from headrace.build.summary import layer_table
from headrace.build.terminal import console, table
from headrace.build.verify import compare, compare_simulation
from headrace.export import export_qonnx
from mnist_mlp.digits import Digits, load_digits
from mnist_mlp.network import WIDTHS, Classifier, build_network
from mnist_mlp.training import accuracy, train

TARGET_FPS = 500_000
CLOCK_MHZ = 200.0

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """What the demo found out.

    Attributes:
        bits: of weights and activations.
        design: the built design.
        simulation: of the first test images.
        predictions: digit by test image, from PyTorch, the integer graph and the RTL.
        labels: the right digits.
        compared: integers in the hardware that were compared with the integer graph, all of them equal.
    """

    bits: int
    design: Design
    simulation: Simulation
    predictions: dict[str, Labels]
    labels: Labels
    compared: int


def main(bits: int = 2, images: int = 100, output: Path | None = None, journal: Journal | None = None) -> Outcome:
    """Run the demo and return what it found.

    Args:
        bits: of weights and activations.
        images: how many test images are simulated.
        output: folder for the trained network, the exported model and the design.
        journal: told of the steps.

    Raises:
        VerificationError: when PyTorch, integer graph and hardware are not equal in every value.
    """
    torch.set_num_threads(1)
    journal = journal or Journal()
    folder = output or Path("out") / f"mnist_w{bits}a{bits}"
    folder.mkdir(parents=True, exist_ok=True)
    with journal.step("load digits") as note:
        digits = load_digits()
        note(f"{len(digits.labels):,} to train on, {len(digits.test_labels):,} to test")
    final = headrace.finalize(Classifier(trained(bits, digits, folder, journal)))
    model = folder / "model.onnx"
    with journal.step("export") as note:
        export_qonnx(final, digits.test_images[:1], model, input_names=["image"], output_names=["digit"])
        note(str(model))
    design = build(model, folder / "design", journal=journal, target_fps=TARGET_FPS, clock_mhz=CLOCK_MHZ)
    return _compare(bits, final, design, digits, images, journal)


def trained(bits: int, digits: Digits, folder: Path, journal: Journal) -> nn.Module:
    """The trained network, from *folder* when the same training has left it there."""
    network = build_network(bits)
    kept = folder / "network.pt"
    key = _training_key(bits)
    with journal.step("train") as note:
        if kept.is_file() and (state := torch.load(kept, weights_only=True)).get("key") == key:
            network.load_state_dict(state["network"])
            how = f", kept from {kept}"
        else:
            torch.manual_seed(0)
            network = build_network(bits)
            train(network, digits, report=journal.progress)
            torch.save({"key": key, "network": network.state_dict()}, kept.with_suffix(".new"))
            os.replace(kept.with_suffix(".new"), kept)
            how = ""
        network.eval()
        with torch.no_grad():
            share = accuracy(network(digits.test_images), digits.test_labels)
        note(f"test accuracy {share:.1%}{how}")
    return network


def _training_key(bits: int) -> str:
    """Changes with everything that training depends on."""
    sources = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    content = [*sources, f"{bits} {torch.__version__} {headrace.__version__}".encode()]
    return hashlib.sha256(b"\0".join(content)).hexdigest()


def _compare(bits: int, final: nn.Module, design: Design, digits: Digits, images: int, journal: Journal) -> Outcome:
    """PyTorch, integer graph and RTL on test images."""
    feeds = {"image": digits.test_images.numpy()}
    with torch.no_grad():
        predictions = {"PyTorch (finalized)": final(digits.test_images).numpy()}
    predictions["Integer graph"] = design.run(feeds, mode="integer", journal=journal)["digit"]
    some = {"image": feeds["image"][:images]}
    simulation = design.simulate(some, engine="cocotb", trace=True, journal=journal)
    predictions["RTL (Verilator, cocotb)"] = simulation.outputs["digit"]
    with journal.step("compare") as note:
        expected = predictions["PyTorch (finalized)"]
        for stage, got in predictions.items():
            compare(f"PyTorch = {stage}", "digit", expected[: len(got)], got)
        compared = sum(c.values for c in compare_simulation(design, some, simulation))
        note(f"{compared:,} integers in the hardware, 0 differ")
    flat = {stage: values.ravel() for stage, values in predictions.items()}
    return Outcome(bits, design, simulation, flat, digits.test_labels.numpy(), compared)


def outcome_data(outcome: Outcome) -> dict[str, object]:
    """What the demo found, for ``headrace demo --json``."""
    right = {
        stage: float((predicted == outcome.labels[: len(predicted)]).mean())
        for stage, predicted in outcome.predictions.items()
    }
    return {
        "bits": outcome.bits,
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
    heading = f"MNIST, {'-'.join(map(str, WIDTHS))}, {outcome.bits}-bit: accuracy on"
    shown = table(heading, right=(f"{len(outcome.labels):,} test images", f"the first {simulated:,}"))
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
        shown.add_row(f"Images/s at {CLOCK_MHZ:g} MHz", f"{CLOCK_MHZ * 1e6 / interval:,.0f}")
    shown.add_row("Latency, measured", f"{result.first_output_latency:,} cycles to the first word out")
    return shown
