"""The deployed form of a trained model, as an ordinary module: it computes what the hardware computes.

:func:`finalize` copies the model, puts it in evaluation mode, replaces batch norms by their two canonical operations,
and runs the copy under a mode that

* lets every quantized layer see the integers of its input, also where plain tensors pass between layers: a tensor
  that a quantizer returned keeps its grid through functions that only move or select elements, and
* computes batch norms and transcendental functions that are called as functions canonically too.

Nothing about the model needs to be traced, so any Python in its ``forward`` is allowed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from headrace.inject.errors import QuantLayerError
from headrace.nn import exact
from headrace.nn.elementwise import CanonicalBatchNorm, batch_norm_constants, hard_swish, through_float64
from headrace.nn.joined import centred, joined, rearranged
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.quant_tensor import IntQuantTensor, unpack_quant_tensor
from headrace.quant_tensor.average_pool import POOLS
from headrace.quant_tensor.torch_functions import HANDLERS, METHODS, MOVING, REARRANGING

_TRANSCENDENTAL: frozenset[Callable[..., Any]] = frozenset(
    {
        torch.sigmoid,
        torch.Tensor.sigmoid,
        F.sigmoid,
        torch.tanh,
        torch.Tensor.tanh,
        F.tanh,
        torch.exp,
        torch.Tensor.exp,
        torch.log,
        torch.Tensor.log,
        torch.erf,
        torch.Tensor.erf,
        torch.log2,
        torch.exp2,
        torch.sin,
        torch.cos,
        F.gelu,
        F.silu,
        F.softplus,
        F.elu,
        F.selu,
        F.mish,
        F.logsigmoid,
    }
)


@dataclass(frozen=True)
class OutputDifference:
    """How one output of the deployed form differs from the model in evaluation mode on sample data."""

    name: str
    values: int
    differing: int
    max_difference: float


@dataclass(frozen=True)
class FinalizeReport:
    """What :func:`finalize` found on sample data.

    Args:
        outputs: one entry an output tensor of the model.
        float_layers: layers that computed in floating point because their input or weight is not quantized: an export
            may differ from them in the last bits.
    """

    outputs: tuple[OutputDifference, ...]
    float_layers: tuple[str, ...]

    @property
    def differing(self) -> int:
        """Differing values in all outputs."""
        return sum(output.differing for output in self.outputs)

    def __str__(self) -> str:
        lines = [
            f"{o.name}: {o.differing} of {o.values} values differ from the training graph"
            + (f", by at most {o.max_difference:g}" if o.differing else "")
            for o in self.outputs
        ]
        why = "input or weight not quantized; an export may differ in the last bits"
        lines += [f"{name}: computed in floating point ({why})" for name in self.float_layers]
        return "\n".join(lines)


class CanonicalArithmetic(TorchFunctionMode):
    """Carries grids along and replaces functions by their canonical form."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _TRANSCENDENTAL and isinstance(args[0], Tensor) and args[0].dtype == torch.float32:
            return through_float64(lambda x: func(x, *args[1:], **kwargs), args[0])
        if func is F.hardswish and args[0].dtype == torch.float32:
            return through_float64(hard_swish, args[0])
        if func is F.batch_norm:
            return _batch_norm(*unpack_quant_tensor(args), **unpack_quant_tensor(kwargs))
        if func in POOLS:
            return _average(func, args, kwargs)
        if func in MOVING:
            moved = _with_grid(func, args, kwargs)
            if moved is not NotImplemented:
                return moved
        return func(*args, **kwargs)


def _with_grid(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``func`` on quant tensors instead of the plain tensors that remember their grid."""
    if not args:
        return NotImplemented
    first = args[0]
    if isinstance(first, list | tuple):
        if all(isinstance(x, IntQuantTensor) for x in first):
            return NotImplemented  # quant tensors stay quant tensors
        wrapped: Any = [exact.quantized(x) if isinstance(x, Tensor) else x for x in first]
        if any(x is None for x in wrapped):
            return NotImplemented
    else:
        wrapped = exact.quantized(first) if isinstance(first, Tensor) else None
        if wrapped is None:
            return NotImplemented
    handler = METHODS.get(func) or HANDLERS[func]
    try:
        out = handler(func, wrapped, *args[1:], **kwargs)
    except QuantLayerError:  # operands on different grids
        dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
        out = joined(wrapped, dim) if isinstance(wrapped, list) else None
        if out is None:
            return NotImplemented
    if func in REARRANGING and isinstance(wrapped, IntQuantTensor) and wrapped.scale.numel() > 1:
        out = rearranged(lambda t: func(t, *args[1:], **kwargs), wrapped)
    if isinstance(out, tuple | list):
        return type(out)(exact.plain(part) for part in out)
    return exact.plain(out)


def _average(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An average pool on integers where the input tells them.

    The quotient of scale and count stays in float64: a layer that follows multiplies it by its weight scale before the
    one rounding.
    """
    x = exact.quantized(args[0])
    if x is None:
        return func(*args, **kwargs)
    x = centred(x)
    out = POOLS[func](func, x, *args[1:], **kwargs)
    if isinstance(out, IntQuantTensor):
        count = torch.round(x.scale.double() / out.scale.double())
        out = out.set(scale=x.scale.double() * (1.0 / count))
    return out if isinstance(args[0], IntQuantTensor) else exact.plain(out)


def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if training or running_mean is None or running_var is None:
        raise QuantLayerError(
            "batch norm with batch statistics has no deployed form: call it with training=False and running statistics"
        )
    a, b = batch_norm_constants(running_mean, running_var, eps, weight, bias)
    shape = (1, -1, *[1] * (input.dim() - 2))
    return input * a.view(shape) + b.view(shape)


class Finalized(nn.Module):
    """The deployed form of a model; always evaluates, returns plain tensors.

    Args:
        model: the canonical copy.
    """

    report: FinalizeReport | None = None

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.eval()

    def train(self, mode: bool = True) -> Finalized:
        """Stays in evaluation mode: the deployed form does not train."""
        super().train(False)
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode(False), torch.no_grad(), CanonicalArithmetic():
            out = self.model(*args, **kwargs)
        return _plain_outputs(out)


def _plain_outputs(out: Any) -> Any:
    return pytree.tree_map(
        lambda x: x.value if isinstance(x, IntQuantTensor) else x,
        out,
        is_leaf=lambda x: isinstance(x, IntQuantTensor),
    )


def finalize(model: nn.Module, sample: Any = None) -> Finalized:
    """The deployed form of *model*: the function that the hardware computes, for every input.

    The outputs do not depend on batch size, thread count or device. *model* is not changed.

    Args:
        model: a trained model; training or evaluation mode.
        sample: an input tensor, or a tuple of input tensors, to compare the deployed form with the model on.

    Returns:
        A module in evaluation mode. With *sample* its ``report`` says where the two differ, which happens only
        where the training graph rounded a tie or its floating-point sums were off by a rounding.
    """
    canonical = copy.deepcopy(model).eval()
    names = {module: name for name, module in canonical.named_modules()}
    for module in list(canonical.modules()):
        for child_name, child in module.named_children():
            if isinstance(child, nn.modules.batchnorm._BatchNorm):
                setattr(module, child_name, _canonical_norm(child, names[child]))
    if isinstance(canonical, nn.modules.batchnorm._BatchNorm):
        canonical = _canonical_norm(canonical, "model")
    for parameter in canonical.parameters():
        parameter.requires_grad_(False)
    final = Finalized(canonical)
    if sample is not None:
        final.report = _compare(model, final, sample if isinstance(sample, tuple) else (sample,))
    return final


def _canonical_norm(norm: nn.modules.batchnorm._BatchNorm, name: str) -> CanonicalBatchNorm:
    if norm.running_mean is None:
        raise QuantLayerError(f"{name}: a batch norm without running statistics has no deployed form")
    return CanonicalBatchNorm(norm)


def _compare(model: nn.Module, final: Finalized, sample: tuple[Any, ...]) -> FinalizeReport:
    layers = [(n, m) for n, m in final.model.named_modules() if isinstance(m, QuantWeightBiasInputOutputLayer)]
    for _, layer in layers:
        layer.last_was_exact = None
    deployed = final(*sample)
    reference_model = copy.deepcopy(model).eval()
    with torch.no_grad():
        reference = _plain_outputs(reference_model(*sample))
    pairs = zip(_named_tensors(deployed), _named_tensors(reference), strict=True)
    outputs = tuple(
        OutputDifference(name, a.numel(), int((a != b).sum()), float((a - b).abs().max()) if a.numel() else 0.0)
        for (name, a), (_, b) in pairs
    )
    return FinalizeReport(outputs, tuple(name or "model" for name, layer in layers if layer.last_was_exact is False))


def _named_tensors(out: Any) -> list[tuple[str, Tensor]]:
    leaves = pytree.tree_flatten_with_path(out)[0]
    return [("output" + pytree.keystr(path), leaf) for path, leaf in leaves if isinstance(leaf, Tensor)]
