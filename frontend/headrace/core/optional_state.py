"""State that a state dictionary may lack, and learned values that start from statistics."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headrace import config
from headrace.inject.errors import QuantizerValueError


class OptionalState(nn.Module):
    """A module whose state may be missing from a state dictionary when ``config.IGNORE_MISSING_KEYS`` is set.

    A subclass with an attribute ``override_pretrained`` that is true ignores what the dictionary has.
    """

    optional_keys: ClassVar[tuple[str, ...]] = ("value",)
    """Parameters and buffers that may be missing, the main one first."""

    def _value_loaded(self) -> None:
        """Called when a state dictionary brought the first of :attr:`optional_keys`."""

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        keys = [prefix + key for key in self.optional_keys]
        override = getattr(self, "override_pretrained", False)
        for key in keys if override else ():
            state_dict.pop(key, None)
        super()._load_from_state_dict(state_dict, prefix, *args)
        missing_keys: list[str] = args[2]
        if keys[0] not in missing_keys:
            self._value_loaded()
        if override or config.IGNORE_MISSING_KEYS:
            missing_keys[:] = [key for key in missing_keys if key not in keys]


class StartsFromParameters(OptionalState):
    """A learned ``value`` that a statistic of the parameters sets at the first call, and no state before it."""

    def __init__(self) -> None:
        super().__init__()
        self.init_done = False

    def _value_loaded(self) -> None:
        self.init_done = True

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.init_done:
            del destination[prefix + "value"]


class StartsFromBatches(OptionalState):
    """A learned ``value`` that starts from the average of statistics of the first batches, kept in ``buffer``.

    For *collect_stats_steps* training steps :attr:`counter` counts the batches; what is saved then is the average.

    Raises:
        QuantizerValueError: fewer than one step.
    """

    value: nn.Parameter
    buffer: Tensor

    def __init__(self, collect_stats_steps: int) -> None:
        super().__init__()
        if collect_stats_steps <= 0:
            raise QuantizerValueError(f"collect_stats_steps must be at least 1, got {collect_stats_steps}")
        self.collect_stats_steps = collect_stats_steps
        self.counter = 0

    @property
    def is_collecting(self) -> bool:
        """Whether the value still follows statistics."""
        return self.counter <= self.collect_stats_steps

    @property
    def follows_input(self) -> bool:
        """Whether the next value depends on the tensor to quantize."""
        return self.training and self.counter < self.collect_stats_steps

    def _average(self) -> Tensor:
        """What ``value`` would be if the collection ended now."""
        return self.buffer

    def _end_collection(self) -> None:
        """The average becomes the learned parameter."""
        if self.is_collecting:
            with torch.no_grad():
                self.value.copy_(self._average())
            self._value_loaded()

    def _value_loaded(self) -> None:
        self.counter = self.collect_stats_steps + 1

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.counter == 0:
            del destination[prefix + "value"]
        elif self.is_collecting:
            destination[prefix + "value"] = self._average().detach().clone()


__all__ = ["OptionalState", "StartsFromBatches", "StartsFromParameters"]
