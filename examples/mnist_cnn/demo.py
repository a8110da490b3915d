"""What ``headrace demo --example mnist_cnn`` does: a convolutional network from training to simulated hardware."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch import nn

import demonstration
from demonstration.flow import Demo, Samples, Task, outcome_data, print_outcome
from demonstration.training import fit, shifted
from mnist_cnn.network import CHANNELS, build_network
from mnist_mlp.digits import load_digits

EPOCHS = 12
LEARNING_RATE = 0.01
TARGET_FPS = 100_000

__all__ = ["main", "outcome_data", "print_outcome"]


def task(bits: int) -> Task:
    """The example; *bits* of weights and activations."""
    return Task(
        title=f"MNIST, convolutions to {', '.join(map(str, CHANNELS))} channels",
        bits=bits,
        unit="images",
        names=("image", "digit"),
        target_fps=TARGET_FPS,
        load=square_digits,
        network=partial(build_network, bits),
        train=train,
        sources=(Path(__file__).parent, Path(demonstration.__file__).parent),
    )


main = Demo(task, 2, "mnist_cnn_w{0}a{0}")


def square_digits() -> Samples:
    """The digits of the other example, as images ``(n, 1, 28, 28)``."""
    flat = load_digits()
    square = (-1, 1, 28, 28)
    return Samples(flat.inputs.view(square), flat.labels, flat.test_inputs.view(square), flat.test_labels)


def train(network: nn.Module, samples: Samples, report: Callable[[str], None]) -> None:
    """Train *network* in place on images shifted by up to one pixel."""
    fit(network, samples, EPOCHS, LEARNING_RATE, shifted, report=report)
