"""Rounding up or down as a learned decision of every element (AdaRound, Nagel et al., 2020; SignRound, 2023)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.core import functional
from headrace.core.function_wrapper.misc import Identity
from headrace.core.optional_state import OptionalState
from headrace.inject.errors import QuantizerValueError


class LearnedRoundHardSigmoid(nn.Module):
    """A stretched sigmoid between 0 (down) and 1 (up); a decision in evaluation.

    Args:
        learned_round_zeta, learned_round_gamma: upper and lower end of the stretch.
    """

    def __init__(self, learned_round_zeta: float = 1.1, learned_round_gamma: float = -0.1) -> None:
        super().__init__()
        self.zeta = learned_round_zeta
        self.gamma = learned_round_gamma

    def forward(self, p: Tensor) -> Tensor:
        up = (torch.sigmoid(p) * (self.zeta - self.gamma) + self.gamma).clamp(0.0, 1.0)
        return up if self.training else (up > 0.5).to(p.dtype)

    def round(self, x: Tensor, up: Tensor) -> Tensor:
        """*x* rounded down, plus *up*."""
        return functional.floor_ste(x) + up


class LearnedRoundSigmoid(nn.Module):
    """A sigmoid between 0 (down) and 1 (up); a decision in evaluation.

    Args:
        learned_round_temperature: divides the learned value.

    Raises:
        QuantizerValueError: a temperature of 0.
    """

    def __init__(self, learned_round_temperature: float = 1.0) -> None:
        super().__init__()
        if learned_round_temperature == 0:
            raise QuantizerValueError("learned_round_temperature must not be 0")
        self.temperature = learned_round_temperature

    def forward(self, p: Tensor) -> Tensor:
        return torch.sigmoid(p / self.temperature) if self.training else (p > 0).to(p.dtype)

    def round(self, x: Tensor, up: Tensor) -> Tensor:
        """*x* rounded down, plus *up*."""
        return functional.floor_ste(x) + up


class LearnedRoundIdentity(nn.Module):
    """A learned offset within half a step, rounded to nearest."""

    def forward(self, p: Tensor) -> Tensor:
        return functional.straight_through(p, lambda t: t.clamp(-0.5, 0.5))

    def round(self, x: Tensor, offset: Tensor) -> Tensor:
        """``round(x + offset)``."""
        return functional.round_ste(x + offset)


class LearnedRoundSte(OptionalState):
    """Rounds each element the way its own learned value says.

    Args:
        learned_round_impl: what the learned value means.
        learned_round_init: where learning starts, in the shape of the weight.
        input_view_impl: view of the weight before quantization, applied to the learned values as well.
    """

    per_element = True
    """Whether the rounding belongs to the elements of one tensor, so that nothing else can use it."""

    def __init__(
        self,
        learned_round_impl: LearnedRoundHardSigmoid | LearnedRoundSigmoid | LearnedRoundIdentity,
        learned_round_init: Tensor,
        input_view_impl: nn.Module | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.learned_round_impl = learned_round_impl
        self.value = nn.Parameter(learned_round_init.detach().clone().to(device=device, dtype=dtype))
        self.input_view_impl = input_view_impl or Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.learned_round_impl.round(x, self.input_view_impl(self.learned_round_impl(self.value)))
