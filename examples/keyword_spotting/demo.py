"""What ``headrace demo --example keyword_spotting`` does: a one-dimensional CNN from training to simulated hardware."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

import demonstration
import headrace.nn as qnn
from demonstration.flow import Demo, Samples, Task, outcome_data, print_outcome
from demonstration.training import fit
from keyword_spotting.sounds import BANDS, WORDS, load_sounds

EPOCHS = 10
LEARNING_RATE = 0.01
TARGET_FPS = 200_000
CHANNELS = (24, 24, 24)

__all__ = ["main", "outcome_data", "print_outcome"]


def task(bits: int) -> Task:
    """The example; *bits* of weights and activations, from 2 on."""
    return Task(
        title=f"synthetic words, convolutions to {', '.join(map(str, CHANNELS))} channels",
        bits=max(bits, 2),
        unit="sounds",
        names=("spectrum", "word"),
        target_fps=TARGET_FPS,
        load=load_sounds,
        network=partial(build_network, max(bits, 2)),
        train=train,
        sources=(Path(__file__).parent, Path(demonstration.__file__).parent),
    )


main = Demo(task, 3, "keywords_w{0}a{0}")


def build_network(bits: int) -> nn.Sequential:
    """Spectra ``(n, 16, 48)`` to the scores of the words: convolutions over time, each with half the frames of the one
    before, and a dense layer."""
    layers: list[nn.Module] = [qnn.QuantIdentity(bit_width=6)]
    inputs = BANDS
    for outputs in CHANNELS:
        layers += [
            qnn.QuantConv1d(inputs, outputs, 5, stride=2, padding=2, bias=False, weight_bit_width=bits),
            nn.BatchNorm1d(outputs),
            qnn.QuantReLU(bit_width=bits),
        ]
        inputs = outputs
    dense = qnn.QuantLinear(6 * inputs, len(WORDS), bias=False, weight_bit_width=bits)
    return nn.Sequential(*layers, nn.Flatten(), dense)


def train(network: nn.Module, samples: Samples, report: Callable[[str], None]) -> None:
    """Train *network* in place on sounds moved a little in time."""
    fit(network, samples, EPOCHS, LEARNING_RATE, _moved, report=report)


def _moved(spectra: Tensor, generator: torch.Generator) -> Tensor:
    """Spectra that begin up to two frames later; the last ones come first."""
    return spectra.roll(int(torch.randint(0, 3, (1,), generator=generator)), dims=2)
