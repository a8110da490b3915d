"""Several pixels a cycle: images whose neighbouring pixels are seen as channels of one.

A row of ``W`` pixels with ``C`` channels is, in the same stream order, ``W / B`` *blocks* with ``B * C`` channels;
whole rows make larger blocks, and an image can be one block. An operator over pixels is an operator over blocks: of a
convolution the weights of each pixel stand in their rows, shifted, among zeros; of a pool each pixel is the largest of
some places of some blocks. So layers need not know of it: their words hold several pixels because the last axis of
their frames does.

Which blocks fit an operator, and what it is on blocks, is a pair of rules for its class (:mod:`.rules`); a class
without rules makes a pixel a cycle.
"""

from headrace.passes.pixels import elementwise, windows
from headrace.passes.pixels.blocking import Blocked, block_pixels
from headrace.passes.pixels.planning import pixel_choices, pixels_for

__all__ = ["Blocked", "block_pixels", "elementwise", "pixel_choices", "pixels_for", "windows"]
