"""Synthetic records of network flows as 593 bits each, and whether the flow is an attack.

No recorded traffic is used. The records have the make-up of UNSW-NB15, as FINN's example encodes it: protocol, service
and state of the connection one-hot, and numbers (durations, bytes, packets, rates, counts of similar flows ...) as
binary digits of their logarithm. The toy knows some kinds of ordinary traffic and some attacks, and each attack
resembles one ordinary kind. So the network has the shape of that benchmark; accuracies are not comparable with it.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from demonstration.flow import Samples

ONE_HOT = (133, 13, 11)
"""Protocols, services and states."""
NUMBERS, DIGITS, FLAGS = 27, 16, 4
BITS = sum(ONE_HOT) + NUMBERS * DIGITS + FLAGS
"""Of one record: 593."""
ORDINARY, ATTACKS = 12, 9
"""Kinds of traffic."""

Array = NDArray[np.float64]


def load_flows(train: int = 16_000, test: int = 4000) -> Samples:
    """Records ``(n, 593)`` of -1 and 1, and labels, 1 for an attack; always the same ones."""
    rng = np.random.default_rng(0)
    kinds = _Kinds(rng)
    parts: list[torch.Tensor] = []
    for count in (train, test):
        labels = rng.integers(0, 2, count)
        parts += [torch.from_numpy(kinds.records(labels, rng)), torch.from_numpy(labels)]
    return Samples(*parts)


class _Kinds:
    """How each kind of traffic is distributed; the attacks come after the ordinary kinds."""

    def __init__(self, rng: np.random.Generator) -> None:
        like = rng.integers(0, ORDINARY, ATTACKS)

        def kinds(ordinary: Array, change: Array) -> Array:
            return np.concatenate([ordinary, ordinary[like] + change])

        self.means = kinds(rng.normal(0, 1, (ORDINARY, NUMBERS)), rng.normal(0, 0.5, (ATTACKS, NUMBERS)))
        self.tastes = [
            kinds(rng.gumbel(0, 2, (ORDINARY, n)), rng.normal(0, 1, (ATTACKS, n))) for n in (*ONE_HOT, *(2,) * FLAGS)
        ]

    def records(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
        """One record a label."""
        n = len(labels)
        kind = np.where(labels == 1, ORDINARY + rng.integers(0, ATTACKS, n), rng.integers(0, ORDINARY, n))
        choices = [(taste[kind] + rng.gumbel(size=(n, taste.shape[1]))).argmax(1) for taste in self.tastes]
        level = np.clip((self.means[kind] + rng.normal(0, 1, (n, NUMBERS))) / 8 + 0.5, 0, 1)
        number = np.rint(level * (2**DIGITS - 1)).astype(np.int64)
        columns = [np.eye(size, dtype=np.int64)[choice] for size, choice in zip(ONE_HOT, choices, strict=False)]
        columns += [(number[:, :, None] >> np.arange(DIGITS) & 1).reshape(n, -1), np.stack(choices[-FLAGS:], 1)]
        return (2 * np.concatenate(columns, 1) - 1).astype(np.float32)
