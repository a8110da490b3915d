"""What ``headrace demo --example jet_tagging`` does: a network that takes a jet every clock cycle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

import demonstration
import headrace.nn as qnn
from demonstration.flow import CLOCK_MHZ, Demo, Samples, Task, outcome_data, print_outcome
from demonstration.networks import dense
from demonstration.training import fit, unchanged
from jet_tagging.jets import FEATURES, KINDS, load_jets

WIDTHS = (FEATURES, 64, 32, 32, len(KINDS))
INPUT_BITS = 8
EPOCHS = 10
LEARNING_RATE = 0.005

__all__ = ["main", "outcome_data", "print_outcome"]


def task(bits: int) -> Task:
    """The example; *bits* of weights and activations; features have eight."""
    return Task(
        title=f"Jets, {'-'.join(map(str, WIDTHS))}",
        bits=bits,
        unit="jets",
        names=("jet", "kind"),
        target_fps=CLOCK_MHZ * 1e6,  # one a cycle: every layer is unrolled
        load=load_jets,
        network=lambda: dense(WIDTHS, bits, qnn.QuantIdentity(bit_width=INPUT_BITS)),
        train=train,
        sources=(Path(__file__).parent, Path(demonstration.__file__).parent),
    )


main = Demo(task, 4, "jets_w{0}a{0}")


def train(network: nn.Module, samples: Samples, report: Callable[[str], None]) -> None:
    """Train *network* in place."""
    fit(network, samples, EPOCHS, LEARNING_RATE, unchanged, report=report)
