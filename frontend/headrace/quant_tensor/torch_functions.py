"""Torch functions that return quant tensors for quant tensors.

A function belongs here if it commutes with quantization: its values are on the grid of its input. Everything else
decays to a plain tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from headrace.quant_tensor import arithmetic
from headrace.quant_tensor.average_pool import POOLS
from headrace.quant_tensor.int_quant_tensor import IntQuantTensor, unpack_quant_tensor

Handler = Callable[..., Any]
HANDLERS: dict[Callable[..., Any], Handler] = {}


def _plain(func: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    return func(unpack_quant_tensor(x), *unpack_quant_tensor(args), **unpack_quant_tensor(kwargs))


def _selects(func: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """Elements, or maxima of elements, of each channel: scale and zero point stay."""
    if not isinstance(x, IntQuantTensor):
        return _plain(func, x, *args, **kwargs)
    out = func(x.content, *unpack_quant_tensor(args), **unpack_quant_tensor(kwargs))
    if isinstance(out, torch.Tensor):
        return x.with_content(out)
    return func(x.value, *unpack_quant_tensor(args), **unpack_quant_tensor(kwargs))


def _needs_real_zero(func: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """Elements or 0: on the grid if the zero point is an integer in range, which a quantizer guarantees."""
    out = _plain(func, x, *args, **kwargs)
    if not isinstance(x, IntQuantTensor):
        return out
    bipolar = x.signed and float(x.bit_width) < 2
    return out if bipolar else x.set(value=out)


def _pad(func: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    mode = kwargs.get("mode", args[1] if len(args) > 1 else "constant")
    fill = kwargs.get("value", args[2] if len(args) > 2 else None)
    if mode == "constant" and fill:
        return _plain(func, x, *args, **kwargs)
    return (_needs_real_zero if mode == "constant" else _selects)(func, x, *args, **kwargs)


def _interpolate(func: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    mode = kwargs.get("mode", args[2] if len(args) > 2 else "nearest")
    return (_selects if mode in ("nearest", "nearest-exact") else _plain)(func, x, *args, **kwargs)


def _dropout(func: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    training = kwargs.get("training", args[1] if len(args) > 1 else True)
    return _plain(func, x, *args, **kwargs) if training else x


_REARRANGING: set[Handler] = set()


def _method(name: str) -> Handler:
    def call(func: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, IntQuantTensor):
            return _plain(func, x, *args, **kwargs)
        return getattr(x, name)(*args, **kwargs)

    _REARRANGING.add(call)
    return call


def _moves(func: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    out = _plain(func, x, *args, **kwargs)
    if not isinstance(x, IntQuantTensor):
        return out
    if isinstance(out, tuple | list):
        return type(out)(x._moved(part) for part in out)
    return x._moved(out)


def _cat(func: Callable[..., Any], tensors: Any, dim: int = 0, **kwargs: Any) -> Any:
    if kwargs:
        return func(unpack_quant_tensor(tensors), dim, **kwargs)
    return arithmetic.concatenate(list(tensors), dim)


def _binary(operation: Callable[[IntQuantTensor, Any], Any]) -> Handler:
    """An operation of a quant tensor with anything, in either order when it commutes."""

    def call(func: Callable[..., Any], a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            return func(unpack_quant_tensor(a), unpack_quant_tensor(b), *args, **kwargs)
        if isinstance(a, IntQuantTensor):
            return operation(a, b)
        return operation(b, a) if operation is not arithmetic.matmul else func(a, b.value)

    return call


def _subtract(func: Callable[..., Any], a: Any, b: Any, **kwargs: Any) -> Any:
    if kwargs:
        return func(unpack_quant_tensor(a), unpack_quant_tensor(b), **kwargs)
    return a - b if isinstance(a, IntQuantTensor) else arithmetic.add(arithmetic.negate(b), a)


def _embedding(func: Callable[..., Any], index: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
    out = func(unpack_quant_tensor(index), unpack_quant_tensor(weight), *args, **kwargs)
    return weight._moved(out) if isinstance(weight, IntQuantTensor) else out


def _register(handler: Handler, *functions: Callable[..., Any]) -> None:
    HANDLERS.update(dict.fromkeys(functions, handler))


_register(
    _selects,
    F.max_pool1d,
    F.max_pool2d,
    F.max_pool3d,
    F.adaptive_max_pool1d,
    F.adaptive_max_pool2d,
    F.adaptive_max_pool3d,
    torch.max_pool1d,
)
_register(_needs_real_zero, F.relu, torch.relu, torch.Tensor.relu)
_register(_dropout, F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout)
HANDLERS.update(POOLS)
_register(_embedding, F.embedding)
_register(_pad, F.pad)
_register(_interpolate, F.interpolate)
_register(
    _moves,
    F.pixel_shuffle,
    F.pixel_unshuffle,
    F.channel_shuffle,
    torch.chunk,
    torch.split,
    torch.unbind,
    torch.narrow,
    torch.flip,
    torch.roll,
    torch.index_select,
    torch.squeeze,
    torch.unsqueeze,
    torch.movedim,
)
_register(_method("flatten"), torch.flatten)
_register(_method("reshape"), torch.reshape)
_register(_method("transpose"), torch.transpose)
_register(_method("permute"), torch.permute)
_register(_cat, torch.cat, torch.concat, torch.concatenate)
_register(_binary(arithmetic.add), torch.add, torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__)
_register(_binary(arithmetic.multiply), torch.mul, torch.Tensor.mul, torch.Tensor.__mul__, torch.Tensor.__rmul__)
_register(_binary(arithmetic.matmul), torch.matmul, torch.Tensor.__matmul__)
_register(_subtract, torch.sub, torch.Tensor.sub, torch.Tensor.__sub__)

# The same for methods of plain tensors that remember their grid (see headrace.nn.finalize).
METHODS: dict[Callable[..., Any], Handler] = {
    torch.Tensor.view: _method("view"),
    torch.Tensor.reshape: _method("reshape"),
    torch.Tensor.flatten: _method("flatten"),
    torch.Tensor.transpose: _method("transpose"),
    torch.Tensor.permute: _method("permute"),
    torch.Tensor.contiguous: _method("contiguous"),
    torch.Tensor.squeeze: _method("squeeze"),
    torch.Tensor.unsqueeze: _method("unsqueeze"),
    torch.Tensor.expand: _method("expand"),
    torch.Tensor.detach: _method("detach"),
    torch.Tensor.__getitem__: _method("__getitem__"),
    torch.Tensor.chunk: _moves,
    torch.Tensor.split: _moves,
    torch.Tensor.relu: _needs_real_zero,
}
_ARITHMETIC = (torch.add, torch.mul, torch.sub, torch.matmul, F.embedding, *POOLS)
MOVING: frozenset[Callable[..., Any]] = frozenset(
    {f for f in HANDLERS if f not in _ARITHMETIC and getattr(torch.Tensor, f.__name__, None) is not f} | METHODS.keys()
)
"""Functions whose result is on the grid of their first argument without any arithmetic."""
REARRANGING: frozenset[Callable[..., Any]] = frozenset(
    f for f, handler in (HANDLERS | METHODS).items() if handler is _moves or handler in _REARRANGING
)
"""Functions whose result is elements of their first argument, at places that do not depend on its values."""
