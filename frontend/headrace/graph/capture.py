"""From a model to a graph of torch modules and functions.

:func:`torch.fx.symbolic_trace` keeps the modules of the model and needs no input. Where the model's Python depends on
values that only a run has, :func:`torch.export.export` captures it with an example; that gives operators of ATen, which
become modules and functions of torch again, so that one set of rules quantizes both.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from headrace.errors import HeadraceError
from headrace.nn.quant_layer import QuantLayer

aten = torch.ops.aten

_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    aten.relu.default: F.relu,
    aten.relu_.default: F.relu,
    aten.hardtanh.default: F.hardtanh,
    aten.hardtanh_.default: F.hardtanh,
    aten.relu6.default: F.relu6,
    aten.silu.default: F.silu,
    aten.silu_.default: F.silu,
    aten.sigmoid.default: torch.sigmoid,
    aten.tanh.default: torch.tanh,
    aten.hardswish.default: F.hardswish,
    aten.hardswish_.default: F.hardswish,
    aten.hardsigmoid.default: F.hardsigmoid,
    aten.leaky_relu.default: F.leaky_relu,
    aten.leaky_relu_.default: F.leaky_relu,
    aten.gelu.default: F.gelu,
    aten.elu.default: F.elu,
    aten.softplus.default: F.softplus,
    aten.mish.default: F.mish,
    aten.add.Tensor: operator.add,
    aten.add_.Tensor: operator.add,
    aten.sub.Tensor: operator.sub,
    aten.mul.Tensor: operator.mul,
    aten.mul_.Tensor: operator.mul,
    aten.cat.default: torch.cat,
    aten.flatten.using_ints: torch.flatten,
    aten.view.default: torch.reshape,
    aten.reshape.default: torch.reshape,
    aten.permute.default: torch.permute,
    aten.transpose.int: torch.transpose,
    aten.unsqueeze.default: torch.unsqueeze,
    aten.squeeze.dim: torch.squeeze,
    aten.mean.dim: torch.mean,
    aten.max_pool1d.default: F.max_pool1d,
    aten.max_pool2d.default: F.max_pool2d,
    aten.avg_pool1d.default: F.avg_pool1d,
    aten.avg_pool2d.default: F.avg_pool2d,
    aten.adaptive_avg_pool1d.default: F.adaptive_avg_pool1d,
    aten.adaptive_avg_pool2d.default: F.adaptive_avg_pool2d,
}
_NOTHING = (aten.dropout.default, aten.clone.default, aten.contiguous.default, aten.alias.default, aten.detach.default)
_CONVOLUTIONS: dict[Any, type[nn.Module]] = {
    aten.conv1d.default: nn.Conv1d,
    aten.conv2d.default: nn.Conv2d,
    aten.conv3d.default: nn.Conv3d,
    aten.conv1d.padding: nn.Conv1d,
    aten.conv2d.padding: nn.Conv2d,
    aten.conv3d.padding: nn.Conv3d,
}
_TRANSPOSED: dict[Any, type[nn.Module]] = {
    aten.conv_transpose1d.default: nn.ConvTranspose1d,
    aten.conv_transpose2d.input: nn.ConvTranspose2d,
    aten.conv_transpose3d.input: nn.ConvTranspose3d,
}
_NORMS: dict[int, type[nn.Module]] = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}


class NotTraceableError(HeadraceError):
    """A model whose graph cannot be captured."""


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, QuantLayer) or super().is_leaf_module(m, module_qualified_name)


def capture(model: nn.Module, example: Any = None) -> fx.GraphModule:
    """The graph of *model*, which is in evaluation mode; parameters are shared with it.

    Args:
        model: any model.
        example: an input, or a tuple of inputs; needed where symbolic tracing fails.

    Raises:
        NotTraceableError: neither way works; says why.
    """
    try:
        return fx.GraphModule(model, _Tracer().trace(model), type(model).__name__)
    except Exception as error:  # whatever the model's own code raises when it is given symbols
        if example is None:
            raise NotTraceableError(
                f"{type(model).__name__} cannot be traced symbolically ({_reason(error)}); give example=, an input of "
                "the model, to capture it by torch.export"
            ) from error
    return _exported(model, example if isinstance(example, tuple) else (example,))


def _reason(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _exported(model: nn.Module, example: tuple[Any, ...]) -> fx.GraphModule:
    # torch takes a batch of 1 for a constant
    args = tuple(torch.cat([a, a]) if isinstance(a, Tensor) and a.dim() and a.shape[0] == 1 else a for a in example)
    shapes = tuple({0: torch.export.Dim.AUTO} if isinstance(a, Tensor) and a.dim() else None for a in args)
    try:
        program = torch.export.export(model, args, dynamic_shapes=shapes, strict=False)
    except Exception as error:  # torch raises a different type for every reason
        raise NotTraceableError(
            f"{type(model).__name__} can be captured neither by torch.fx nor by torch.export: {_reason(error)}"
        ) from error
    traced: Any = program.module()
    _Lifting(traced).run()
    return fx.GraphModule(traced, traced.graph, type(model).__name__)


class _Lifting:
    """ATen operators become modules and functions of torch."""

    def __init__(self, traced: fx.GraphModule) -> None:
        self.traced, self.graph = traced, traced.graph
        self._made: dict[tuple[Any, ...], str] = {}

    def run(self) -> None:
        """Rewrite every node."""
        for node in list(self.graph.nodes):
            if node.op == "call_module" and str(node.target) == "_guards_fn":
                self.graph.erase_node(node)
            elif node.op == "call_function":
                self._rewrite(node)
        self.graph.eliminate_dead_code()
        self.graph.lint()
        self.traced.recompile()

    def _rewrite(self, node: fx.Node) -> None:
        target: Any = node.target
        if target in _NOTHING:
            node.replace_all_uses_with(node.all_input_nodes[0])
            self.graph.erase_node(node)
        elif target in _FUNCTIONS and not (_FUNCTIONS[target] is F.elu and len(node.args) > 2):
            if target in (aten.add.Tensor, aten.add_.Tensor, aten.sub.Tensor) and node.kwargs:  # a factor alpha
                return
            node.target = _FUNCTIONS[target]
        elif target in _CONVOLUTIONS or target in _TRANSPOSED or target is aten.linear.default:
            self._layer(node)
        elif target is aten.batch_norm.default:
            self._norm(node)
        elif target is aten.prelu.default:
            slope = self._constant(node.args[1])
            self._call(node, lambda: _with_parameters(nn.PReLU(slope.numel()), weight=slope))

    def _constant(self, node: Any) -> Any:
        """The parameter that *node* gets, or ``None``."""
        if node is None or not isinstance(node, fx.Node) or node.op != "get_attr":
            return None
        return operator.attrgetter(str(node.target))(self.traced)

    def _layer(self, node: fx.Node) -> None:
        arguments: Any = node.normalized_arguments(self.traced, normalize_to_only_use_kwargs=True)
        given = dict(arguments.kwargs)
        weight, bias = self._constant(given["weight"]), self._constant(given.get("bias"))
        if weight is None or (bias is None and given.get("bias") is not None):
            return
        if node.target is aten.linear.default:
            self._call(node, lambda: _with_parameters(_empty_linear(weight), weight=weight, bias=bias))
            return
        transposed = node.target in _TRANSPOSED
        kind: Any = (_TRANSPOSED if transposed else _CONVOLUTIONS)[node.target]
        names = ["stride", "padding", "dilation", "groups", *(["output_padding"] if transposed else [])]
        options = {name: _size(given[name]) for name in names if name in given}
        groups = options.get("groups", 1)
        inputs, outputs = (weight.shape[1] * groups, weight.shape[0])
        if transposed:
            inputs, outputs = weight.shape[0], weight.shape[1] * groups
        kernel = tuple(weight.shape[2:])
        self._call(
            node,
            lambda: _with_parameters(
                kind(inputs, outputs, kernel, bias=False, device="meta", **options), weight=weight, bias=bias
            ),
        )

    def _norm(self, node: fx.Node) -> None:
        _, weight, bias, mean, var, *rest = node.args
        constants = [self._constant(item) for item in (weight, bias, mean, var)]
        if rest[0] or constants[3] is None:
            return
        value: Any = node.args[0].meta["val"]  # type: ignore[union-attr]
        made: Any = _NORMS[value.dim()](len(constants[3]), eps=rest[2], affine=constants[0] is not None, device="meta")
        names = ("weight", "bias", "running_mean", "running_var")
        self._call(node, lambda: _with_parameters(made, **dict(zip(names, constants, strict=True))).eval())

    def _call(self, node: fx.Node, make: Callable[[], nn.Module]) -> None:
        """*node* becomes a call of a module; nodes of the same parameters and options share one."""
        key = (node.target, *map(str, node.args[1:]), str(node.kwargs))
        if key not in self._made:
            first = next(a for a in node.args[1:] if isinstance(a, fx.Node) and a.op == "get_attr")
            stem = str(first.target).rpartition(".")[0].replace(".", "_") or str(first.target).replace(".", "_")
            name, count = stem, 0
            while hasattr(self.traced, name):
                name, count = f"{stem}_{count}", count + 1
            self.traced.add_submodule(name, make())
            self._made[key] = name
        with self.graph.inserting_before(node):
            new = self.graph.call_module(self._made[key], (node.args[0],))
        new.meta = node.meta
        node.replace_all_uses_with(new)
        self.graph.erase_node(node)


def _size(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def _empty_linear(weight: Tensor) -> nn.Module:
    return nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")


def _with_parameters(module: nn.Module, **tensors: Any) -> nn.Module:
    for name, tensor in tensors.items():
        if name in module._buffers:
            module._buffers[name] = tensor
        else:
            module._parameters[name] = tensor
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        module.num_batches_tracked = None
    return module


__all__ = ["NotTraceableError", "capture"]
