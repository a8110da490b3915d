"""Ordinary PyTorch training of a classifier."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from demonstration.flow import Samples

BATCH = 100


def fit(
    network: nn.Module,
    samples: Samples,
    epochs: int,
    rate: float,
    varied: Callable[[Tensor, torch.Generator], Tensor],
    seed: int = 0,
    report: Callable[[str], None] = print,
    loss: Callable[[Tensor, Tensor], Tensor] = nn.functional.cross_entropy,
) -> None:
    """Train *network* in place with Adam, a cosine schedule and varied samples.

    Networks this small gain nothing from a second thread; ``torch.set_num_threads(1)`` is several times faster on a
    busy machine, and makes the result independent of the number of processors.

    Args:
        network: gives scores by class.
        samples: to train on.
        epochs: passes over the samples.
        rate: learning rate at the start.
        varied: a batch in a random variation.
        seed: of the order of the samples and their variations.
        report: told about every epoch.
        loss: of scores and labels.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    count = len(samples.labels) // BATCH * BATCH
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * count // BATCH)
    for epoch in range(epochs):
        network.train()
        total = 0.0
        for chosen in torch.randperm(len(samples.labels), generator=generator)[:count].view(-1, BATCH):
            inputs = varied(samples.inputs[chosen], generator)
            missed = loss(network(inputs), samples.labels[chosen])
            optimizer.zero_grad()
            missed.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += missed.item() * len(chosen)
        report(f"epoch {epoch + 1} of {epochs}, loss {total / count:.3f}")
    network.eval()


def shifted(images: Tensor, generator: torch.Generator) -> Tensor:
    """Images of 28 x 28 moved by the same -1, 0 or 1 pixels in both directions; black, which is -1, comes in."""
    padded = nn.functional.pad(images.view(-1, 28, 28), (1, 1, 1, 1), value=-1.0)
    top, left = torch.randint(0, 3, (2,), generator=generator).tolist()
    return padded[:, top : top + 28, left : left + 28].reshape(images.shape)


def unchanged(samples: Tensor, generator: torch.Generator) -> Tensor:
    """Samples as they are, for data that is plentiful enough."""
    return samples
