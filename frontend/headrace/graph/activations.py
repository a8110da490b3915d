"""Float activations and what they become when their outputs are quantized."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

import headrace.nn as qnn
from headrace.graph.config import QuantizeConfig

_UNSIGNED = (nn.Hardsigmoid, nn.Softplus)
_SIGNED = (
    nn.SiLU,
    nn.Hardswish,
    nn.LeakyReLU,
    nn.PReLU,
    nn.GELU,
    nn.ELU,
    nn.SELU,
    nn.CELU,
    nn.Mish,
    nn.Softsign,
    nn.LogSigmoid,
    nn.Hardtanh,
)
_FUNCTIONS: dict[Callable[..., Any] | str, type[nn.Module]] = {
    F.relu: nn.ReLU,
    torch.relu: nn.ReLU,
    torch.relu_: nn.ReLU,
    "relu": nn.ReLU,
    "relu_": nn.ReLU,
    F.relu6: nn.ReLU6,
    F.hardtanh: nn.Hardtanh,
    F.sigmoid: nn.Sigmoid,
    torch.sigmoid: nn.Sigmoid,
    "sigmoid": nn.Sigmoid,
    F.tanh: nn.Tanh,
    torch.tanh: nn.Tanh,
    "tanh": nn.Tanh,
    F.silu: nn.SiLU,
    F.hardswish: nn.Hardswish,
    F.hardsigmoid: nn.Hardsigmoid,
    F.leaky_relu: nn.LeakyReLU,
    F.gelu: nn.GELU,
    F.elu: nn.ELU,
    F.selu: nn.SELU,
    F.celu: nn.CELU,
    F.mish: nn.Mish,
    F.softplus: nn.Softplus,
    F.softsign: nn.Softsign,
    F.logsigmoid: nn.LogSigmoid,
}


class SaturatingReLU(nn.Module):
    """``min(relu(x), bound)`` with a bound a channel: a ReLU6 whose channels have been scaled.

    Args:
        bound: shape that broadcasts over a frame.
    """

    bound: Tensor

    def __init__(self, bound: Tensor) -> None:
        super().__init__()
        self.register_buffer("bound", bound)

    def forward(self, x: Tensor) -> Tensor:
        return torch.minimum(torch.relu(x), self.bound)


def activation_of(traced: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    """The activation that *node* calls, as a module; ``None`` if it is none."""
    if node.op == "call_module":
        module = traced.get_submodule(str(node.target))
        known = (nn.ReLU, nn.ReLU6, nn.Sigmoid, nn.Tanh, SaturatingReLU, *_UNSIGNED, *_SIGNED)
        return module if type(module) in known else None
    kind = _FUNCTIONS.get(node.target)
    if kind is None:
        return None
    accepted = set(inspect.signature(kind).parameters) - {"inplace"}
    options = dict(zip(inspect.signature(kind).parameters, node.args[1:], strict=False))
    options = {**options, **node.kwargs}
    options.pop("inplace", None)
    options.pop("input", None)
    if not set(options) <= accepted or any(isinstance(v, fx.Node) for v in options.values()):
        return None
    return kind(**options).eval()


def largest_value(activation: nn.Module | None) -> float | None:
    """Where *activation* saturates, if it is a ReLU that does."""
    if isinstance(activation, nn.ReLU6):
        return 6.0
    if type(activation) is nn.Hardtanh and activation.min_val == 0.0 and activation.max_val > 0.0:
        return float(activation.max_val)
    return None


def quantized_activation(activation: nn.Module, config: QuantizeConfig) -> tuple[nn.Module | None, nn.Module, bool]:
    """What takes the place of *activation*.

    Returns:
        What is computed in floating point before (or ``None``), the quantizer after it, and whether results are
        never negative.
    """
    options: dict[str, Any] = {"return_quant_tensor": True}
    largest = largest_value(activation)
    if isinstance(activation, nn.ReLU) or largest is not None:
        return None, qnn.QuantReLU(**config.relu_options(largest), **options), True
    if isinstance(activation, SaturatingReLU):
        return activation, qnn.QuantReLU(**config.relu_options(None), **options), True
    options["bit_width"] = config.act_bit_width
    if type(activation) is nn.Hardtanh and activation.min_val == -activation.max_val:
        options |= {"min_val": float(activation.min_val), "max_val": float(activation.max_val)}
        return None, qnn.QuantHardTanh(**options), False
    if isinstance(activation, nn.Sigmoid):
        return None, qnn.QuantSigmoid(**options), True
    if isinstance(activation, nn.Tanh):
        return None, qnn.QuantTanh(**options), False
    if isinstance(activation, _UNSIGNED):
        return activation, qnn.QuantIdentity(act_quant=config.unsigned, **options), True
    return activation, qnn.QuantIdentity(**options), False


__all__ = ["SaturatingReLU", "activation_of", "largest_value", "quantized_activation"]
