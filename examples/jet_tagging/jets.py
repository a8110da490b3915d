"""Synthetic jets: sprays of particles from one, two or three hard ones, and sixteen numbers that describe each.

No recorded or fully simulated collision is used. The toy knows five origins: gluon and light quark (one hard particle
that may radiate), W and Z (two, at the angle that their mass demands) and top (three). Its numbers are of the kind that
the public jet data sets have (masses, multiplicities, angularities, energy correlations, before and after soft
particles are dropped), so the network has the shape of that benchmark; accuracies are not comparable with it.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from demonstration.flow import Samples

KINDS = ("gluon", "quark", "W", "Z", "top")
FEATURES = 16
PARTICLES = 30  # that a jet has at most
SOFT = 0.01
"""Share of the momentum below which a particle is dropped for the second half of the numbers."""

Array = NDArray[np.float64]


def load_jets(train: int = 12_000, test: int = 4000) -> Samples:
    """Features ``(n, 16)`` within -1..1 and the number of the kind; always the same ones."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, len(KINDS), train + test)
    features = describe(*sprays(kinds, rng))
    middle, spread = np.median(features[:train], 0), features[:train].std(0)
    x = torch.from_numpy(np.clip((features - middle) / (3 * spread), -1, 1).astype(np.float32))
    labels = torch.from_numpy(kinds)
    return Samples(x[:train], labels[:train], x[train:], labels[train:])


def sprays(kinds: NDArray[np.int64], rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Momenta ``(n,)`` in GeV, shares ``(n, PARTICLES)``, 0 where there is none, and places ``(n, PARTICLES, 2)``."""
    momentum = rng.normal(1000, 60, len(kinds))
    shares, places = _hard(kinds, momentum, rng)
    mean = np.array([24, 14, 16, 16, 22])[kinds]
    count = np.clip(rng.poisson(mean), 4, PARTICLES)
    origin = (rng.random((len(kinds), PARTICLES, 1)) > np.cumsum(shares, 1)[:, None, :]).sum(2).clip(0, 2)
    width = np.array([0.07, 0.04, 0.035, 0.035, 0.05])[kinds]
    angle = (
        rng.normal(size=(len(kinds), PARTICLES, 2)) * (width[:, None] * rng.exponential(size=origin.shape))[..., None]
    )
    z = rng.exponential(size=origin.shape) ** 2 * (np.arange(PARTICLES) < count[:, None])
    return momentum, z / z.sum(1, keepdims=True), np.take_along_axis(places, origin[..., None], 1) + angle


def _hard(kinds: NDArray[np.int64], momentum: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Shares ``(n, 3)`` and places ``(n, 3, 2)`` of the hard particles."""
    n = len(kinds)
    mass = np.array([0.0, 0.0, 80.4, 91.2, 173.0])[kinds] * rng.normal(1, 0.04, n)
    first = rng.uniform(0.2, 0.8, n)
    opening = mass / (momentum * np.sqrt(first * (1 - first)))
    radiates = rng.random(n) < np.array([0.8, 0.45, 0, 0, 0])[kinds]
    light = kinds < 2
    first = np.where(light, np.where(radiates, 1 - 10 ** rng.uniform(-1.7, -0.4, n), 1.0), first)
    opening = np.where(light, 10 ** rng.uniform(-1.5, -0.4, n), opening)
    second = np.where(kinds == 4, rng.uniform(0.2, 0.8, n), 1.0)
    inner = np.where(kinds == 4, 80.4 / (momentum * first * np.sqrt(second * (1 - second) + 1e-9)), 0.0)
    shares = np.stack([first * second, first * (1 - second), 1 - first], 1)
    turn = rng.uniform(0, 2 * np.pi, (2, n))
    away = opening[:, None] * np.stack([np.cos(turn[0]), np.sin(turn[0])], 1)
    apart = inner[:, None] * np.stack([np.cos(turn[1]), np.sin(turn[1])], 1)
    return shares, np.stack([apart * (1 - second)[:, None], -apart * second[:, None], away], 1)


def describe(momentum: Array, z: Array, places: Array) -> Array:
    """The sixteen numbers of each jet: eight of all particles, and the same eight without the soft ones."""
    hard = np.where(z > SOFT, z, 0.0)
    return np.concatenate([_eight(momentum, z, places), _eight(momentum, hard, places)], 1)


def _eight(momentum: Array, z: Array, places: Array) -> Array:
    """Logarithm of the mass, multiplicity, spread of momentum, the largest share, angularities, correlations."""
    centre = (z[..., None] * places).sum(1, keepdims=True) / z.sum(1)[:, None, None]
    radius = np.linalg.norm(places - centre, axis=2)
    apart = np.linalg.norm(places[:, :, None] - places[:, None], axis=3)
    pairs = z[:, :, None] * z[:, None]
    half, one, two = (0.5 * (pairs * apart**power).sum((1, 2)) for power in (0.5, 1, 2))
    return np.stack(
        [
            np.log(momentum * np.sqrt(two) + 1),
            (z > 0).sum(1),
            -(z * np.log(z + 1e-9)).sum(1),
            z.max(1),
            (z * radius).sum(1),
            (z * radius**2).sum(1) / ((z * radius).sum(1) + 1e-9),
            half,
            one,
        ],
        1,
    )
