"""Random rounding whose expectation is its input (Gupta et al., 2015)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.core import functional


class StochasticRoundSte(nn.Module):
    """Up with the probability of the fractional part, else down; straight-through.

    Args:
        deterministic_inference: round to nearest in evaluation.
        stochastic_round_seed: start of a random sequence of its own; ``None`` takes torch's.
    """

    def __init__(self, deterministic_inference: bool = True, stochastic_round_seed: int | None = None) -> None:
        super().__init__()
        self.deterministic_inference = deterministic_inference
        self.seed = stochastic_round_seed
        self._generator: torch.Generator | None = None

    @property
    def qonnx_mode(self) -> str | None:
        """QONNX's name for the rounding in evaluation."""
        return "ROUND" if self.deterministic_inference else None

    def _random(self, x: Tensor) -> Tensor:
        if self.seed is not None and (self._generator is None or self._generator.device != x.device):
            self._generator = torch.Generator(x.device).manual_seed(self.seed)
        down = torch.floor(x)
        return down + torch.bernoulli((x - down).clamp(0.0, 1.0), generator=self._generator)

    def forward(self, x: Tensor) -> Tensor:
        if self.deterministic_inference and not self.training:
            return functional.round_ste(x)
        return functional.straight_through(x, self._random)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_generator": None}  # a generator cannot be copied: copies start the sequence anew
