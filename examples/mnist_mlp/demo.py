"""What ``headrace demo`` does: an MNIST network from training to simulated hardware."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import demonstration
from demonstration.flow import Outcome, Task, demonstrate, outcome_data, print_outcome
from headrace.build.journal import Journal
from mnist_mlp.digits import load_digits
from mnist_mlp.network import WIDTHS, build_network
from mnist_mlp.training import train

TARGET_FPS = 500_000

__all__ = ["main", "outcome_data", "print_outcome"]


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
    task = Task(
        title=f"MNIST, {'-'.join(map(str, WIDTHS))}",
        bits=bits,
        unit="images",
        names=("image", "digit"),
        target_fps=TARGET_FPS,
        load=load_digits,
        network=partial(build_network, bits),
        train=lambda network, digits, report: train(network, digits, report=report),
        sources=(Path(__file__).parent, Path(demonstration.__file__).parent),
        engine="cocotb",
    )
    return demonstrate(task, images, output or Path("out") / f"mnist_w{bits}a{bits}", journal or Journal())
