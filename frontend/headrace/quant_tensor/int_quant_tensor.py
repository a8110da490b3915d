"""The integer quant tensor: a float tensor on a grid, ``value = (integer - zero_point) * scale``.

Torch functions that keep values on the grid return a quant tensor (see
:mod:`headrace.quant_tensor.torch_functions`), all others take its value and return a plain tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from headrace.core import functional
from headrace.inject.errors import QuantLayerError

_GRID_TOLERANCE = {torch.float64: 1e-1, torch.float32: 2e-1, torch.float16: 0.5, torch.bfloat16: 0.5}

_Int = int  # IntQuantTensor has a method of that name


def _tensor(x: Tensor | float) -> Tensor:
    return x if isinstance(x, Tensor) else torch.tensor(float(x))


class QuantTensor:
    """Base of the quant tensors."""

    value: Tensor


@dataclass(frozen=True, eq=False, repr=False)
class IntQuantTensor(QuantTensor):
    """A quantized tensor in dequantized form.

    Args:
        value: real values.
        scale: broadcastable to *value*.
        zero_point: broadcastable to *value*, in integer units.
        bit_width: bits of the integers.
        signed: whether the integers are signed.
        training: whether a layer in training mode made it; checks of equal scales apply to evaluation only.
    """

    value: Tensor
    scale: Tensor
    zero_point: Tensor
    bit_width: Tensor
    signed: bool
    training: bool

    def __post_init__(self) -> None:
        for name in ("scale", "zero_point", "bit_width"):
            if not isinstance(getattr(self, name), Tensor):
                object.__setattr__(self, name, _tensor(getattr(self, name)))
        for name in ("signed", "training"):
            if not isinstance(getattr(self, name), bool):
                object.__setattr__(self, name, bool(getattr(self, name)))

    @classmethod
    def of_integers(
        cls,
        integers: Tensor,
        scale: Tensor,
        zero_point: Tensor,
        bit_width: Tensor,
        signed: bool,
        value: Tensor | None = None,
    ) -> IntQuantTensor:
        """A quant tensor of evaluation with known integers; its value is computed when it is asked for.

        Args:
            integers: ``integer - zero_point``, in the dtype of the value.
            scale, zero_point, bit_width, signed: see the class.
            value: ``integers * scale``, if it is there.
        """
        made = object.__new__(cls)
        made.__dict__.update(
            known_integers=integers,
            scale=scale,
            zero_point=zero_point,
            bit_width=bit_width,
            signed=signed,
            training=False,
        )
        if value is not None:
            made.__dict__["value"] = value
        return made

    @property
    def integers_if_known(self) -> Tensor | None:
        """``integer - zero_point`` where a quantizer has left them, in the dtype of the value."""
        known: Tensor | None = self.__dict__.get("known_integers")
        return known

    @property
    def content(self) -> Tensor:
        """The value, or the integers while nobody has asked for the value: for shape, dtype and device."""
        content: Tensor = self.__dict__["value"] if "value" in self.__dict__ else self.__dict__["known_integers"]
        return content

    def with_content(self, content: Tensor) -> IntQuantTensor:
        """The same grid with other elements: integers if :attr:`content` is integers, else values."""
        if "value" in self.__dict__ or "known_integers" not in self.__dict__:
            return self.set(value=content)
        return IntQuantTensor.of_integers(content, self.scale, self.zero_point, self.bit_width, self.signed)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        from headrace.quant_tensor.torch_functions import HANDLERS

        handler = HANDLERS.get(func)
        if handler is not None:
            return handler(func, *args, **(kwargs or {}))
        return func(*unpack_quant_tensor(args), **unpack_quant_tensor(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name == "value" and "known_integers" in self.__dict__:
            value = self.__dict__["known_integers"] * self.scale
            self.__dict__["value"] = value
            return value
        if name.startswith("__") or name in ("value", "known_integers"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def __repr__(self) -> str:
        return (
            f"IntQuantTensor(value={self.value!r}, scale={self.scale!r}, zero_point={self.zero_point!r}, "
            f"bit_width={self.bit_width!r}, signed_t={self.signed_t!r}, training_t={self.training_t!r})"
        )

    def __str__(self) -> str:
        return (
            f"IntQuantTensor(value={self.value}, scale={self.scale}, zero_point={self.zero_point}, "
            f"bit_width={self.bit_width}, signed_t={self.signed}, training_t={self.training})"
        )

    @property
    def signed_t(self) -> Tensor:
        """:attr:`signed` as a tensor."""
        return torch.tensor(self.signed)

    @property
    def training_t(self) -> Tensor:
        """:attr:`training` as a tensor."""
        return torch.tensor(self.training)

    @property
    def tensor(self) -> Tensor:
        """The value."""
        return self.value

    @property
    def shape(self) -> torch.Size:
        """Shape of the value."""
        return self.content.shape

    def size(self, dim: _Int | None = None) -> Any:
        """Size of the value."""
        return self.content.size() if dim is None else self.content.size(dim)

    def dim(self) -> _Int:
        """Number of dimensions of the value."""
        return self.content.dim()

    def set(self, **changes: Any) -> IntQuantTensor:
        """A copy with fields replaced."""
        return replace(self, **changes)

    def _on_tensors(self, function: Callable[[Tensor], Tensor]) -> IntQuantTensor:
        return self.set(
            value=function(self.value),
            scale=function(self.scale),
            zero_point=function(self.zero_point),
            bit_width=function(self.bit_width),
        )

    def detach(self) -> IntQuantTensor:
        """Without gradient."""
        return self._on_tensors(Tensor.detach)

    def to(self, *args: Any, **kwargs: Any) -> IntQuantTensor:
        """On another device or in another float type."""
        return self._on_tensors(lambda t: t.to(*args, **kwargs))

    def cpu(self) -> IntQuantTensor:
        """On the CPU."""
        return self._on_tensors(Tensor.cpu)

    def cuda(self, *args: Any) -> IntQuantTensor:
        """On a GPU."""
        return self._on_tensors(lambda t: t.cuda(*args))

    def contiguous(self) -> IntQuantTensor:
        """With a contiguous value."""
        return self.set(value=self.value.contiguous())

    def _unrounded_integers(self) -> Tensor:
        wide = torch.float64 if self.value.dtype == torch.float64 else torch.float32
        return self.value.to(wide) / self.scale.to(wide) + self.zero_point.to(wide)

    @property
    def is_valid(self) -> bool:
        """Whether every value is on the grid and within the bit width."""
        with torch.no_grad():
            exact = self._unrounded_integers()
            integers = torch.round(exact)
            if bool(((exact - integers).abs() >= _GRID_TOLERANCE[self.value.dtype]).any()):
                return False
            bits = float(self.bit_width)
            if bits < 2 and self.signed:
                return bool((integers.abs() == 1).all())
            low = -(2.0 ** (bits - 1)) if self.signed else 0.0
            high = 2.0 ** (bits - 1) - 1 if self.signed else 2.0**bits - 1
            return bool(((integers >= low) & (integers <= high)).all())

    def int(self, float_datatype: bool = False) -> Tensor:
        """The integers, in the smallest of int8, uint8, int32 that the bit width allows (or as floats).

        Raises:
            QuantLayerError: values off the grid or outside of the bit width.
        """
        if not self.is_valid:
            raise QuantLayerError("QuantTensor not valid: its values are not integers of its bit width at its scale")
        integers = functional.round_ste(self._unrounded_integers())
        if float_datatype:
            return integers.to(self.scale.dtype if float(self.bit_width) <= 8 else torch.float32)
        if float(self.bit_width) > 8:
            return integers.to(torch.int32)
        return integers.to(torch.int8 if self.signed else torch.uint8)

    # Views and reshaping, as methods of the tensor.

    def __getitem__(self, index: Any) -> Any:
        return self._moved(self.value[index])

    def __len__(self) -> _Int:
        return len(self.value)

    def _moved_by(self, function: Callable[[Tensor], Tensor]) -> Any:
        """:meth:`_moved` of what *function* makes of the value."""
        scalars = self.scale.dim() == 0 and self.zero_point.dim() == 0
        return self.with_content(function(self.content)) if scalars else self._moved(function(self.value))

    def _moved(self, value: Tensor) -> Any:
        """*value* holds some elements of this tensor in another place: quantized if the scale is the same for all."""
        per_tensor = all(t.numel() == 1 for t in (self.scale, self.zero_point))
        if not per_tensor:
            return value
        if self.scale.dim() or self.zero_point.dim():
            return self.set(value=value, scale=self.scale.reshape(()), zero_point=self.zero_point.reshape(()))
        return self.set(value=value)

    def view(self, *shape: Any) -> Any:
        """See :meth:`torch.Tensor.view`."""
        return self._moved_by(lambda t: t.view(*shape))

    def reshape(self, *shape: Any) -> Any:
        """See :meth:`torch.Tensor.reshape`."""
        return self._moved_by(lambda t: t.reshape(*shape))

    def flatten(self, start_dim: _Int = 0, end_dim: _Int = -1) -> Any:
        """See :meth:`torch.Tensor.flatten`."""
        return self._moved_by(lambda t: t.flatten(start_dim, end_dim))

    def squeeze(self, *dim: Any) -> Any:
        """See :meth:`torch.Tensor.squeeze`."""
        return self._moved_by(lambda t: t.squeeze(*dim))

    def unsqueeze(self, dim: _Int) -> Any:
        """See :meth:`torch.Tensor.unsqueeze`."""
        return self._moved_by(lambda t: t.unsqueeze(dim))

    def expand(self, *shape: Any) -> Any:
        """See :meth:`torch.Tensor.expand`."""
        return self._moved(self.value.expand(*shape))

    def _permuted(self, function: Callable[[Tensor], Tensor]) -> IntQuantTensor:
        """Scale and zero point follow where they have the dimensions of the value."""

        def follow(t: Tensor) -> Tensor:
            return function(t) if t.dim() == self.value.dim() else t

        return self.set(value=function(self.value), scale=follow(self.scale), zero_point=follow(self.zero_point))

    def transpose(self, dim0: _Int, dim1: _Int) -> IntQuantTensor:
        """See :meth:`torch.Tensor.transpose`."""
        return self._permuted(lambda t: t.transpose(dim0, dim1))

    def permute(self, *dims: Any) -> IntQuantTensor:
        """See :meth:`torch.Tensor.permute`."""
        return self._permuted(lambda t: t.permute(*dims))

    @property
    def T(self) -> IntQuantTensor:
        """Transposed."""
        return self._permuted(lambda t: t.T)

    # Arithmetic.

    def __add__(self, other: Any) -> Any:
        return _arithmetic.add(self, other)

    __radd__ = add = __add__

    def __sub__(self, other: Any) -> Any:
        return _arithmetic.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return _arithmetic.add(_arithmetic.negate(self), other)

    def __mul__(self, other: Any) -> Any:
        return _arithmetic.multiply(self, other)

    __rmul__ = mul = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _arithmetic.divide(self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        out: Tensor = unpack_quant_tensor(other) / self.value
        return out

    def __matmul__(self, other: Any) -> Any:
        return _arithmetic.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        out: Tensor = unpack_quant_tensor(other) @ self.value
        return out

    def __neg__(self) -> IntQuantTensor:
        return _arithmetic.negate(self)

    def __pos__(self) -> IntQuantTensor:
        return self

    def __abs__(self) -> IntQuantTensor:
        return _arithmetic.absolute(self)


def unpack_quant_tensor(data: Any) -> Any:
    """*data* with every quant tensor in it (tuples, lists and dicts included) replaced by its value."""
    if isinstance(data, QuantTensor):
        return data.value
    if type(data) in (tuple, list):
        return type(data)(unpack_quant_tensor(item) for item in data)
    if type(data) is dict:
        return {key: unpack_quant_tensor(item) for key, item in data.items()}
    return data


from headrace.quant_tensor import arithmetic as _arithmetic  # noqa: E402  (needs the class above)
