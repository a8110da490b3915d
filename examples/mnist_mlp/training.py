"""Ordinary PyTorch training; run as ``python -m mnist_mlp.training --bits 2`` from the folder ``examples``."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import nn

from demonstration.flow import Samples, accuracy
from demonstration.training import fit, shifted
from mnist_mlp.digits import load_digits
from mnist_mlp.network import build_network

EPOCHS = 40
LEARNING_RATE = 0.01


def train(network: nn.Module, digits: Samples, seed: int = 0, report: Callable[[str], None] = print) -> None:
    """Train *network* in place on images shifted by up to one pixel.

    Args:
        network: as :func:`~mnist_mlp.network.build_network` gives it.
        digits: training and test images.
        seed: of the order of the images and their shifts.
        report: told about every epoch.
    """
    fit(network, digits, EPOCHS, LEARNING_RATE, shifted, seed, report)


def main() -> None:
    """Train once and print the accuracy on the test images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bits", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    network, digits = build_network(options.bits), load_digits()
    train(network, digits, options.seed)
    with torch.no_grad():
        print(f"test accuracy {accuracy(network(digits.test_inputs), digits.test_labels):.1%}")


if __name__ == "__main__":
    main()
