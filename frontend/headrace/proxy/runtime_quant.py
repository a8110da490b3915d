"""Quantizers of activations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headrace.core.function_wrapper import Identity
from headrace.core.quant import IntegerGrid, RescalingIntQuant, TensorQuantOutput
from headrace.core.tracked_state import TrackedState
from headrace.inject.errors import QuantLayerError
from headrace.inject.resolver import Resolver
from headrace.proxy.grouping import Grouping
from headrace.proxy.quant_proxy import QuantProxyFromInjector
from headrace.quant_tensor import FloatQuantTensor, IntQuantTensor, unpack_quant_tensor


class FusedActivationQuantProxy(nn.Module):
    """An activation followed by its quantizer."""

    def __init__(self, activation_impl: nn.Module, tensor_quant: nn.Module) -> None:
        super().__init__()
        self.activation_impl = activation_impl
        self.tensor_quant = tensor_quant

    def forward(self, x: Tensor) -> TensorQuantOutput:
        out: TensorQuantOutput
        if type(self.activation_impl) is nn.ReLU and type(self.tensor_quant) is RescalingIntQuant:
            out = self.tensor_quant(x, rectify=True)
        else:
            out = self.tensor_quant(self.activation_impl(x))
        return out

    def constants(self, x: Tensor) -> IntegerGrid | None:
        """What quantizes any input like *x*; ``None`` if there is more to do than that."""
        kind = type(self.activation_impl)
        if type(self.tensor_quant) is not RescalingIntQuant or kind not in (Identity, nn.ReLU):
            return None
        grid = self.tensor_quant.constants(x)
        if grid is None or kind is Identity:
            return grid
        return replace(grid, low=max(grid.low, 0)) if grid.shift is None else None


class ActQuantProxyFromInjector(QuantProxyFromInjector):
    """Applies the activation of the layer (if any) and the quantizer (if any).

    Returns a quant tensor when it quantizes; otherwise what comes in, quantized or not, after the activation.
    """

    def _use(self, resolver: Resolver) -> None:
        super()._use(resolver)
        tensor_quant = self.tensor_quant
        del self.tensor_quant  # registered once, below
        self.__dict__["tensor_quant"] = None
        # Clamping by the quantizer makes a hard tanh before it redundant, and its limits would be wrong.
        redundant = tensor_quant is not None and resolver.declares_class("act_impl", nn.Hardtanh)
        act_impl = None if redundant else resolver.get("act_impl")
        self.is_passthrough_act = bool(resolver.get("passthrough_act", False)) or act_impl is None
        self.fused_activation_quant_proxy: FusedActivationQuantProxy | None = None
        if act_impl is not None or tensor_quant is not None:
            activation = act_impl if isinstance(act_impl, nn.Module) else Identity()
            self.fused_activation_quant_proxy = FusedActivationQuantProxy(activation, tensor_quant)

    @property
    def is_quant_enabled(self) -> bool:
        fused = self.fused_activation_quant_proxy
        return not self.disable_quant and fused is not None and fused.tensor_quant is not None

    observe_only = False
    """Collect statistics, but return the activation unquantized (calibration)."""

    def forward(self, x: Any) -> Any:
        fused = self.fused_activation_quant_proxy
        if fused is None:
            return x
        value: Tensor = unpack_quant_tensor(x)
        grid = self._evaluation_grid(fused, value)
        if grid is not None:
            out = grid.integers(value)
            return IntQuantTensor.of_integers(
                out, grid.scale, grid.zero_point, grid.bit_width, self.is_signed is not False
            )
        if self.observe_only and self.is_quant_enabled:
            value = fused.activation_impl(value)
            fused.tensor_quant(value)
            return value
        if self.is_quant_enabled:
            return self._quant_tensor(self._apply_quantizer(fused, value))
        value = fused.activation_impl(value)
        if self.is_passthrough_act and isinstance(x, IntQuantTensor):
            return x.set(value=value, training=self.training)
        return value

    def _evaluation_grid(self, fused: FusedActivationQuantProxy, x: Tensor) -> IntegerGrid | None:
        """The constants of the quantizer in evaluation without gradients, computed once while its state stays."""
        idle = self.training or self.observe_only or self.disable_quant or torch.is_grad_enabled()
        if idle or type(x) is not Tensor or x.dtype != torch.float32 or torch.compiler.is_compiling():
            return None
        if self._grid_state is None or not self._grid_state.is_current():
            self._grid = fused.constants(x) if fused.tensor_quant is not None else None
            self._grid_state = TrackedState(self)
        return self._grid

    def _apply_quantizer(self, fused: FusedActivationQuantProxy, x: Tensor) -> Any:
        """What activation and quantizer make of *x*: value, scale, zero point and more."""
        return fused(x)

    _grid: IntegerGrid | None = None
    _grid_state: TrackedState | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k not in ("_grid", "_grid_state")}

    def _quant_tensor(self, out: Any) -> Any:
        value, scale, zero_point, bit_width = out
        return IntQuantTensor(value, scale, zero_point, bit_width, self.is_signed is not False, self.training)

    def _evaluated(self) -> Any:
        """What the quantizer makes of a zero in evaluation mode; ``None`` if it does not quantize."""
        if not self.is_quant_enabled:
            return None
        training = self.training
        self.eval()
        try:
            with torch.set_grad_enabled(torch.is_grad_enabled()):
                out = self(self._zero_hw_sentinel.value)
        finally:
            self.train(training)
        return out

    def scale(self) -> Tensor | None:
        """Scale in evaluation mode, or ``None``."""
        out = self._evaluated()
        return None if out is None else out.scale

    def zero_point(self) -> Tensor | None:
        """Zero point in evaluation mode, or ``None``."""
        out = self._evaluated()
        return None if out is None else out.zero_point

    def bit_width(self) -> Tensor | None:
        """Bit width in evaluation mode, or ``None``."""
        out = self._evaluated()
        return None if out is None else out.bit_width


class ActFloatQuantProxyFromInjector(ActQuantProxyFromInjector):
    """Quantizes activations to a minifloat."""

    def _quant_tensor(self, out: Any) -> FloatQuantTensor:
        value, scale, zero_point, float_format = out
        return FloatQuantTensor(value, scale, zero_point, float_format, self.training)


class DynamicActQuantProxyFromInjector(ActQuantProxyFromInjector):
    """A quantizer whose scale and zero point depend on the input."""

    def scale(self) -> Tensor | None:
        raise QuantLayerError("the scale of a dynamic quantizer depends on its input; read it off the quant tensor")

    def zero_point(self) -> Tensor | None:
        raise QuantLayerError(
            "the zero point of a dynamic quantizer depends on its input; read it off the quant tensor"
        )


class DynamicActFloatQuantProxyFromInjector(DynamicActQuantProxyFromInjector, ActFloatQuantProxyFromInjector):
    """The same for minifloats."""


class GroupwiseActQuantProxyFromInjector(Grouping, DynamicActQuantProxyFromInjector):
    """Quantizes activations with a scale for every group of each input."""

    def _apply_quantizer(self, fused: FusedActivationQuantProxy, x: Tensor) -> Any:
        return self.without_groups(fused(x), x)


class GroupwiseActFloatQuantProxyFromInjector(Grouping, DynamicActFloatQuantProxyFromInjector):
    """The same for minifloats."""

    def _apply_quantizer(self, fused: FusedActivationQuantProxy, x: Tensor) -> Any:
        return self.without_groups(fused(x), x)


class ClampQuantProxyFromInjector(QuantProxyFromInjector):
    """Clamps the integers of a quant tensor, keeping its scale; a plain tensor passes.

    Raises:
        QuantLayerError: a zero point, or integers signed otherwise than the quantizer says.
    """

    def forward(self, x: Any) -> Any:
        if not self.is_quant_enabled or not isinstance(x, IntQuantTensor):
            return x
        if bool((x.zero_point != 0).any()):
            raise QuantLayerError("clamping integers with a zero point is not supported: quantize without one before")
        if x.signed != self.is_signed:
            kind = "signed" if x.signed else "unsigned"
            raise QuantLayerError(f"the clamping quantizer has signed={self.is_signed}, the integers are {kind}")
        scale = x.scale.to(x.value.dtype)
        value, _, zero_point, bit_width = self.tensor_quant(x.value, scale, x.bit_width)
        return IntQuantTensor(value, scale, zero_point, bit_width, x.signed, self.training)


class TruncQuantProxyFromInjector(QuantProxyFromInjector):
    """Requantizes a quant tensor to fewer bits, keeping its sign; a plain tensor passes."""

    def forward(self, x: Any) -> Any:
        if not self.is_quant_enabled or not isinstance(x, IntQuantTensor):
            return x
        scale = x.scale.to(x.value.dtype)
        value, scale, zero_point, bit_width = self.tensor_quant(x.value, scale, x.zero_point, x.bit_width, x.signed)
        return IntQuantTensor(value, scale, zero_point, bit_width, x.signed, self.training)
