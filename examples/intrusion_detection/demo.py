"""What ``headrace demo --example intrusion_detection`` does: one bit in for every feature, one bit out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor, nn

import demonstration
from demonstration.flow import Demo, Samples, Task, outcome_data, print_outcome
from demonstration.networks import bipolar, dense
from demonstration.training import fit, unchanged
from intrusion_detection.flows import BITS, load_flows

WIDTHS = (BITS, 64, 64, 64, 1)
EPOCHS = 8
LEARNING_RATE = 0.005
TARGET_FPS = 1_000_000

__all__ = ["main", "outcome_data", "print_outcome"]


class Alarm(nn.Module):
    """1 where the score is at least 0, else 0; hardware compares, and gives -1 or 1."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.sign = bipolar()

    def forward(self, records: Tensor) -> Tensor:
        decided: Tensor = self.sign(self.network(records))
        return decided * 0.5 + 0.5


def task(bits: int) -> Task:
    """The example; *bits* of activations, and of weights: 1 is bipolar, 2 is ternary."""
    return Task(
        title=f"Flows, {'-'.join(map(str, WIDTHS))}",
        bits=bits,
        unit="flows",
        names=("flow", "attack"),
        target_fps=TARGET_FPS,
        load=load_flows,
        network=lambda: dense(WIDTHS, bits, bipolar()),
        train=train,
        sources=(Path(__file__).parent, Path(demonstration.__file__).parent),
        classifier=Alarm,
    )


main = Demo(task, 2, "flows_w{0}a{0}")


def train(network: nn.Module, samples: Samples, report: Callable[[str], None]) -> None:
    """Train *network* in place."""
    fit(network, samples, EPOCHS, LEARNING_RATE, unchanged, report=report, loss=surprise)


def surprise(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of one score against the labels 0 and 1."""
    return nn.functional.binary_cross_entropy_with_logits(scores[:, 0], labels.float())
