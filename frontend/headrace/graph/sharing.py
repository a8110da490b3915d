"""One quantizer for several tensors, so that hardware adds and joins their integers."""

from __future__ import annotations

from typing import Any

import torch

import headrace.nn as qnn
from headrace.quant_tensor import unpack_quant_tensor


class SharedQuantIdentity(qnn.QuantIdentity):
    """Quantizes tensors on one grid; while it collects statistics, it collects those of all of them together.

    (A quantizer that is called for one after the other averages their statistics, and clips the larger one.)
    """

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        values = [unpack_quant_tensor(x) for x in inputs]
        if self.training or getattr(self.act_quant, "observe_only", False):
            joined = super().forward(torch.cat([v.reshape(-1) for v in values]))
            parts = torch.split(joined, [v.numel() for v in values])
            return tuple(part.reshape(v.shape) for part, v in zip(parts, values, strict=True))
        return tuple(super(SharedQuantIdentity, self).forward(v) for v in values)


__all__ = ["SharedQuantIdentity"]
