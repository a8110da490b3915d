"""Ordinary PyTorch training; run as ``python -m mnist_mlp.training --bits 2`` from the folder ``examples``."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn

from mnist_mlp.digits import Digits, load_digits
from mnist_mlp.network import build_network

EPOCHS = 40
BATCH = 100
LEARNING_RATE = 0.01


def train(network: nn.Module, digits: Digits, seed: int = 0, report: Callable[[str], None] = print) -> None:
    """Train *network* in place with Adam, a cosine schedule and images shifted by up to one pixel.

    Matrices this small gain nothing from a second thread; ``torch.set_num_threads(1)`` is several times faster on a
    busy machine, and makes the result independent of the number of processors.

    Args:
        network: as :func:`~mnist_mlp.network.build_network` gives it.
        digits: training and test images.
        seed: of the order of the images and their shifts.
        report: told about every epoch.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    steps = EPOCHS * (len(digits.labels) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(EPOCHS):
        network.train()
        total = 0.0
        for chosen in torch.randperm(len(digits.labels), generator=generator).view(-1, BATCH):
            images = _shifted(digits.images[chosen], generator)
            loss = nn.functional.cross_entropy(network(images), digits.labels[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        report(f"epoch {epoch + 1} of {EPOCHS}, loss {total / len(digits.labels):.3f}")
    network.eval()


def _shifted(images: Tensor, generator: torch.Generator) -> Tensor:
    """The images of a batch moved by the same -1, 0 or 1 pixels in both directions; black comes in."""
    padded = nn.functional.pad(images.view(-1, 28, 28), (1, 1, 1, 1), value=-1.0)
    top, left = torch.randint(0, 3, (2,), generator=generator).tolist()
    return padded[:, top : top + 28, left : left + 28].reshape(-1, 784)


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Share of the images whose highest score is that of their label."""
    return float((scores.argmax(1) == labels).double().mean())


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
        print(f"test accuracy {accuracy(network(digits.test_images), digits.test_labels):.1%}")


if __name__ == "__main__":
    main()
