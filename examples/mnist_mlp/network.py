"""The network: three hidden layers of 64, weights and activations of the same few bits."""

from __future__ import annotations

from torch import nn

from demonstration.networks import dense

WIDTHS = (784, 64, 64, 64, 10)


def build_network(bits: int) -> nn.Sequential:
    """Images ``(n, 784)`` to the scores of ten digits.

    Args:
        bits: of weights and activations; 1 is bipolar, values -1 and 1.
    """
    return dense(WIDTHS, bits)
