"""Quantizers of weights and biases."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from headrace.inject import ExtendedInjector
from headrace.inject.errors import QuantLayerError
from headrace.inject.resolver import Resolver
from headrace.proxy.grouping import Grouping
from headrace.proxy.quant_proxy import QuantProxyFromInjector
from headrace.quant_tensor import FloatQuantTensor, IntQuantTensor


class _ParameterQuantProxy(QuantProxyFromInjector):
    parameter_name = "weight"

    @property
    def tracked_parameter_list(self) -> list[nn.Parameter]:
        """The parameters that share this quantizer."""
        found = [getattr(module, self.parameter_name, None) for module in self.tracked_module_list]
        return [parameter for parameter in found if parameter is not None]

    def _context(self) -> dict[str, object]:
        return {**super()._context(), "tracked_parameter_list": self.tracked_parameter_list}

    def init_tensor_quant(self) -> None:
        """Build the quantizer anew; nothing to do while the layers have no such parameter (no bias yet)."""
        if self.tracked_parameter_list:
            super().init_tensor_quant()
        else:
            resolver = Resolver(self.quant_injector, **super()._context())
            self._use_without_parameter(resolver)

    def _use_without_parameter(self, resolver: Resolver) -> None:
        """Called instead of :meth:`_use` while there is no parameter."""

    def _quant_tensor(self, out: Any) -> Any:
        value, scale, zero_point, bit_width = out[:4]
        return IntQuantTensor(value, scale, zero_point, bit_width, self.is_signed is not False, self.training)


class WeightQuantProxyFromInjector(_ParameterQuantProxy):
    """Quantizes the weight of one layer, or of several that share it."""

    requires_quant_input = False
    """Whether the quantized weight depends on the format of the input."""

    def forward(self, x: Tensor) -> Any:
        if not self.is_quant_enabled:
            return x
        return self._quant_tensor(self._apply_quantizer(x))

    def _apply_quantizer(self, x: Tensor) -> Any:
        """What the quantizer makes of *x*: value, scale, zero point and more."""
        return self.tensor_quant(x)

    def _quantized(self) -> Any:
        return self(self.tracked_parameter_list[0]) if self.is_quant_enabled else None

    def scale(self) -> Tensor | None:
        """Scale, or ``None`` when not quantized."""
        out = self._quantized()
        found: Tensor | None = None if out is None else out.scale
        return found

    def zero_point(self) -> Tensor | None:
        """Zero point, or ``None`` when not quantized."""
        out = self._quantized()
        found: Tensor | None = None if out is None else out.zero_point
        return found

    def bit_width(self) -> Tensor | None:
        """Bit width, or ``None`` when not quantized."""
        out = self._quantized()
        found: Tensor | None = None if out is None else out.bit_width
        return found


class WeightFloatQuantProxyFromInjector(WeightQuantProxyFromInjector):
    """Quantizes a weight to a minifloat."""

    def _quant_tensor(self, out: Any) -> FloatQuantTensor:
        value, scale, zero_point, float_format = out
        return FloatQuantTensor(value, scale, zero_point, float_format, self.training)


class GroupwiseWeightQuantProxyFromInjector(Grouping, WeightQuantProxyFromInjector):
    """Quantizes a weight with a scale for every group; the scale of its quant tensor has the shape of the weight."""

    def _apply_quantizer(self, x: Tensor) -> Any:
        return self.without_groups(self.tensor_quant(x), x)


class GroupwiseWeightFloatQuantProxyFromInjector(Grouping, WeightFloatQuantProxyFromInjector):
    """The same for minifloats."""

    def _apply_quantizer(self, x: Tensor) -> Any:
        return self.without_groups(self.tensor_quant(x), x)


class DecoupledWeightQuantProxyFromInjector(WeightQuantProxyFromInjector):
    """Quantizes a weight with one scale before the rounding and another after it."""

    def _before_rounding(self, index: int) -> Tensor | None:
        if not self.is_quant_enabled:
            return None
        out: Tensor = self.tensor_quant(self.tracked_parameter_list[0])[index]
        return out

    def pre_scale(self) -> Tensor | None:
        """Scale before the rounding, or ``None`` when not quantized."""
        return self._before_rounding(4)

    def pre_zero_point(self) -> Tensor | None:
        """Zero point before the rounding, or ``None`` when not quantized."""
        return self._before_rounding(5)


class InputAwareWeightQuantProxyFromInjector(WeightQuantProxyFromInjector):
    """Quantizes a weight for inputs of known bit width and sign (accumulator-aware quantization)."""

    requires_quant_input = True

    def __init__(
        self, quant_layer: nn.Module, quant_injector: type[ExtendedInjector], keyword_prefix: str = ""
    ) -> None:
        super().__init__(quant_layer, quant_injector, keyword_prefix)
        self._input_format: tuple[Tensor, bool] | None = None

    def forward(self, x: Tensor, input: Any = None) -> Any:
        if not self.is_quant_enabled:
            return x
        if isinstance(input, IntQuantTensor):
            self._input_format = (input.bit_width.detach(), input.signed)
        if self._input_format is None or (input is not None and not isinstance(input, IntQuantTensor)):
            raise QuantLayerError(
                "an accumulator-aware weight quantizer needs a quantized input: set input_quant, or pass a quant "
                f"tensor (return_quant_tensor=True in the layer before) once; layer: {self.owners}"
            )
        return self._quant_tensor(self.tensor_quant(x, *self._input_format))


class BiasQuantProxyFromInjector(_ParameterQuantProxy):
    """Quantizes a bias, with a scale of its own or with input scale times weight scale."""

    parameter_name = "bias"
    requires_input_scale = False

    def _use(self, resolver: Resolver) -> None:
        super()._use(resolver)
        self._use_without_parameter(resolver)

    def _use_without_parameter(self, resolver: Resolver) -> None:
        self.requires_input_scale = bool(resolver.get("requires_input_scale", False))

    def forward(self, x: Tensor, input: Any = None, weight: Any = None) -> Any:
        if not self.is_quant_enabled:
            return x
        if not self.requires_input_scale:
            return self._quant_tensor(self.tensor_quant(x))
        scale = self._accumulator_scale(input, weight)
        return self._quant_tensor(self.tensor_quant(x, scale))

    def _accumulator_scale(self, input: Any, weight: Any) -> Tensor:
        """Input scale times weight scale: scalar, or one an output channel.

        Raises:
            QuantLayerError: input or weight are not quantized, or the input scale does not fit.
        """
        if not isinstance(input, IntQuantTensor) or not isinstance(weight, IntQuantTensor):
            raise QuantLayerError(
                "Input scale required: this bias quantizer takes input scale times weight scale, so the layer needs a "
                "quantized weight and a quantized input (input_quant, or a preceding layer with return_quant_tensor); "
                f"layer: {self.owners}"
            )
        input_scale, weight_scale = input.scale.reshape(-1), weight.scale.reshape(-1)
        if input_scale.numel() > 1 and weight_scale.numel() > 1 and input_scale.numel() != weight_scale.numel():
            raise QuantLayerError(
                f"Input scale required with 1 or {weight_scale.numel()} values, got {input_scale.numel()}; layer: "
                f"{self.owners}"
            )
        scale = input_scale * weight_scale
        return scale.reshape(()) if scale.numel() == 1 else scale
