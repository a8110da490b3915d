"""What ``headrace demo`` does: an MNIST network from training to simulated hardware."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import demonstration
from demonstration.flow import Demo, Task, outcome_data, print_outcome
from mnist_mlp.digits import load_digits
from mnist_mlp.network import WIDTHS, build_network
from mnist_mlp.training import train

TARGET_FPS = 500_000

__all__ = ["main", "outcome_data", "print_outcome"]


def task(bits: int) -> Task:
    """The example; *bits* of weights and activations."""
    return Task(
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


main = Demo(task, 2, "mnist_w{0}a{0}")
