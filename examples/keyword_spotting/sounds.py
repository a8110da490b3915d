"""Synthetic sounds: eight "words", each two syllables of a pitch that rises, falls or stays, in noise.

No recording is used; the sounds stand in for keywords where none can be downloaded. The task is an honest one: pitch,
tempo, loudness, onset and noise vary at random, so that neither a spectrum nor a place in time gives a word away, and
test sounds are drawn apart from those for training.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from demonstration.flow import Samples

RATE = 8000  # samples a second
FRAMES, HOP, WINDOW = 48, 128, 256  # of the spectrogram
BANDS = 16
WORDS = (
    ("rise", "rise"), ("rise", "fall"), ("fall", "rise"), ("fall", "fall"),
    ("stay", "rise"), ("stay", "fall"), ("rise", "stay"), ("fall", "stay"),
)  # fmt: skip
"""Glides of the two syllables of each word."""

Signal = NDArray[np.float64]


def load_sounds(train: int = 4000, test: int = 1000) -> Samples:
    """Log spectra ``(n, BANDS, FRAMES)`` within -1..1 and the number of the word; always the same ones."""
    rng = np.random.default_rng(0)
    parts = []
    for count in (train, test):
        labels = rng.integers(0, len(WORDS), count)
        spectra = np.stack([log_spectrum(spoken(WORDS[k], rng)) for k in labels])
        parts += [torch.from_numpy(spectra.astype(np.float32)), torch.from_numpy(labels)]
    return Samples(*parts)


def spoken(word: tuple[str, str], rng: np.random.Generator) -> Signal:
    """One utterance: two syllables with harmonics, somewhere in noise."""
    sound = rng.normal(scale=rng.uniform(0.02, 0.2), size=(FRAMES - 1) * HOP + WINDOW)
    at = int(rng.integers(0, 1200))
    for glide in word:
        length = int(rng.integers(1400, 2000))
        time = np.linspace(0, 1, length)
        change = {"rise": 1.0, "fall": -1.0, "stay": 0.0}[glide] * rng.uniform(0.35, 0.7)
        pitch = rng.uniform(250, 450) * np.exp(change * (time - 0.5))
        phase = 2 * np.pi * np.cumsum(pitch) / RATE
        voice = sum(rng.uniform(0.3, 1.0) / k * np.sin(k * phase) for k in range(1, 5))
        end = min(at + length, sound.size)
        sound[at:end] += (rng.uniform(0.5, 1.0) * voice * np.sin(np.pi * time))[: end - at]
        at = end + int(rng.integers(100, 500))
    return sound


def log_spectrum(sound: Signal) -> Signal:
    """Energies of BANDS bands up to 2 kHz, equally wide in octaves, by frame; their logarithms within -1..1."""
    starts = np.arange(FRAMES)[:, None] * HOP + np.arange(WINDOW)
    power = np.abs(np.fft.rfft(sound[starts] * np.hanning(WINDOW), 1024, axis=1)) ** 2
    edges = np.round(np.geomspace(180, 2000, BANDS + 1) * 1024 / RATE).astype(int)
    bands = np.stack([power[:, low : max(high, low + 1)].mean(axis=1) for low, high in pairwise(edges)])
    scaled: Signal = np.clip(np.log10(bands + 1e-3) / 3, -1, 1)
    return scaled
