"""Folding of batch norms into the layers before or after them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from headrace.graph.channels import CONVOLUTIONS, LAYERS, response, scale_inputs, scale_outputs

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def module_of(traced: fx.GraphModule, node: Any) -> nn.Module | None:
    """The module that *node* calls, or ``None``."""
    if not isinstance(node, fx.Node) or node.op != "call_module":
        return None
    return traced.get_submodule(str(node.target))


def replace_module(traced: fx.GraphModule, name: str, new: nn.Module) -> None:
    """Put *new* in the place of the submodule *name*."""
    parent, _, child = name.rpartition(".")
    setattr(traced.get_submodule(parent), child, new)


def fold_batch_norms(traced: fx.GraphModule) -> int:
    """Fold every batch norm with running statistics that a layer with weights precedes or follows alone.

    A layer after the norm takes it only where it pads nothing: what is padded has not been through the norm. *traced*
    is changed in place and must be in evaluation mode.

    Returns:
        The number of folded batch norms.
    """
    folded = 0
    calls = [str(node.target) for node in traced.graph.nodes if node.op == "call_module"]

    def once(node: Any) -> Any:
        """The layer with weights that *node* calls, if nothing else calls it (it would be scaled twice)."""
        layer = module_of(traced, node)
        return layer if isinstance(layer, LAYERS) and calls.count(str(node.target)) == 1 else None

    for node in list(traced.graph.nodes):
        norm: Any = module_of(traced, node)
        if not isinstance(norm, _NORMS) or norm.running_mean is None:
            continue
        source = node.args[0]
        before = once(source) if len(source.users) == 1 else None
        after = once(next(iter(node.users))) if len(node.users) == 1 else None
        if before is not None:
            gain, offset = _affine(norm)
            scale_outputs(before, gain)
            _add_to_bias(before, offset)
        elif after is not None and _pads_nothing(after):
            gain, offset = _affine(norm)
            _add_to_bias(after, response(after, offset))
            scale_inputs(after, gain)
        else:
            continue
        node.replace_all_uses_with(source)
        traced.graph.erase_node(node)
        folded += 1
    traced.delete_all_unused_submodules()
    traced.recompile()
    return folded


def _affine(norm: Any) -> tuple[Tensor, Tensor]:
    """Gain and offset of every channel."""
    gain = torch.rsqrt(norm.running_var.double() + norm.eps)
    if norm.weight is not None:
        gain = gain * norm.weight.detach().double()
    offset = -norm.running_mean.double() * gain
    if norm.bias is not None:
        offset = offset + norm.bias.detach().double()
    return gain.to(norm.running_var.dtype), offset.to(norm.running_var.dtype)


@torch.no_grad()
def _add_to_bias(layer: Any, offset: Tensor) -> None:
    layer.bias = nn.Parameter(offset.clone() if layer.bias is None else layer.bias + offset)


def _pads_nothing(layer: Any) -> bool:
    if isinstance(layer, nn.Linear):
        return True
    padding = layer.padding if isinstance(layer.padding, tuple) else (layer.padding,)
    return isinstance(layer, CONVOLUTIONS) and all(p in (0, "valid") for p in padding)


__all__ = ["fold_batch_norms", "module_of", "replace_module"]
