"""Folding of batch norms into the layers before them."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
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
    """Fold every batch norm with running statistics that follows a convolution or linear layer alone.

    *traced* is changed in place and must be in evaluation mode.

    Returns:
        The number of folded batch norms.
    """
    folded = 0
    calls = [str(node.target) for node in traced.graph.nodes if node.op == "call_module"]
    for node in list(traced.graph.nodes):
        norm = module_of(traced, node)
        if not isinstance(norm, _NORMS) or norm.running_mean is None:
            continue
        source = node.args[0]
        layer: Any = module_of(traced, source)
        if not isinstance(layer, (*_CONVOLUTIONS, nn.Linear)) or len(source.users) > 1:
            continue
        if calls.count(str(source.target)) > 1:  # a layer that is called twice would be scaled twice
            continue
        with torch.no_grad():
            if isinstance(layer, nn.Linear):
                fused: nn.Module = fuse_linear_bn_eval(layer, norm)
            else:
                transposed = isinstance(layer, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d)
                fused = _fuse_transposed(layer, norm) if transposed else fuse_conv_bn_eval(layer, norm)
        replace_module(traced, str(source.target), fused)
        node.replace_all_uses_with(source)
        traced.graph.erase_node(node)
        folded += 1
    traced.delete_all_unused_submodules()
    traced.recompile()
    return folded


def _fuse_transposed(layer: Any, norm: Any) -> nn.Module:
    return fuse_conv_bn_eval(layer, norm, transpose=True) if layer.groups == 1 else _fuse_grouped(layer, norm)


def _fuse_grouped(layer: Any, norm: Any) -> nn.Module:
    """Transposed and grouped: the weight is ``(in, out / groups, kernel)``, a row belongs to one group."""
    gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    per_group = layer.weight.shape[0] // layer.groups
    rows = gain.view(layer.groups, 1, -1).expand(-1, per_group, -1).reshape(layer.weight.shape[:2])
    bias = layer.bias if layer.bias is not None else torch.zeros_like(norm.running_mean)
    layer.weight = nn.Parameter(layer.weight * rows.view(*rows.shape, *[1] * (layer.weight.dim() - 2)))
    layer.bias = nn.Parameter((bias - norm.running_mean) * gain + norm.bias)
    fused: nn.Module = layer
    return fused


__all__ = ["fold_batch_norms", "module_of", "replace_module"]
