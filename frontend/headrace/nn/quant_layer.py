"""The layers' common ground: building quantizers from arguments, and the forward pass of layers with weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from torch import Tensor, nn

from headrace.inject import ExtendedInjector
from headrace.inject.errors import QuantizerTypeError, QuantLayerError
from headrace.nn import exact
from headrace.nn.geometry import Geometry
from headrace.nn.keywords import split_keywords
from headrace.proxy.quant_proxy import QuantProxyFromInjector, described
from headrace.quant.none import NoneActQuant, NoneBiasQuant, NoneWeightQuant
from headrace.quant_tensor import IntQuantTensor, QuantTensor, unpack_quant_tensor

Quantizer = type[ExtendedInjector] | QuantProxyFromInjector | None
"""What the ``*_quant`` arguments of a layer accept: a declaration, the quantizer of another layer, or ``None``."""


def _build_quantizer(
    layer: nn.Module,
    name: str,
    quantizer: Any,
    none: type[ExtendedInjector],
    keywords: Mapping[str, object],
    context: Mapping[str, object],
    prefix: str,
) -> nn.Module:
    """The proxy for the argument *name* of *layer*.

    Raises:
        QuantizerTypeError: something else than a quantizer, or keywords it has no use for.
    """
    if isinstance(quantizer, QuantProxyFromInjector):
        if keywords:
            given = ", ".join(prefix + key for key in keywords)
            raise QuantizerTypeError(f"{name} is shared with another layer: {given} cannot change it")
        quantizer.add_tracked_module(layer)
        return quantizer
    if quantizer is None:
        quantizer = none
    if not (isinstance(quantizer, type) and issubclass(quantizer, ExtendedInjector)):
        raise QuantizerTypeError(
            f"{type(layer).__name__}: {name}={quantizer!r} is not a quantizer; accepted: a class such as "
            f"headrace.quant.{none.__name__}, the quantizer of another layer, or None"
        )
    declared = quantizer.let(**{**context, **keywords})
    proxy_class: Any = declared.attributes().get("proxy_class")
    if not isinstance(proxy_class, type):
        raise QuantizerTypeError(f"quantizer {quantizer.__name__} needs a proxy_class (see headrace.proxy)")
    proxy: nn.Module = proxy_class(layer, declared, keyword_prefix=prefix)
    return proxy


class QuantLayer(nn.Module):
    """Base of all quantized layers."""

    return_quant_tensor: bool

    def train(self, mode: bool = True) -> Self:
        """Training or evaluation mode; either way, weights are quantized anew."""
        cache = getattr(self, "_weight_cache", None)
        if isinstance(cache, exact.WeightCache):
            cache.clear()
        return super().train(mode)

    def _pack(self, out: Any, return_quant_tensor: bool) -> Any:
        if not return_quant_tensor:
            return exact.plain(out)
        if not isinstance(out, QuantTensor):
            raise QuantLayerError(
                "QuantLayer is not correctly configured: return_quant_tensor=True needs a quantized output "
                f"(output_quant, or quantized input and weight); layer: {described(self)}"
            )
        return out


class QuantNonLinearActLayer(QuantLayer):
    """An activation whose result is quantized.

    Args:
        act_impl: module class of the activation, ``None`` for the identity.
        passthrough_act: whether the activation keeps a quantized input quantized, with the same scale.
        input_quant: quantizer before the activation.
        act_quant: quantizer after the activation.
        return_quant_tensor: return a quant tensor instead of a plain one.
        keywords: attributes of *act_quant* (no prefix) and *input_quant* (``input_``).
    """

    def __init__(
        self,
        act_impl: type[nn.Module] | None,
        passthrough_act: bool,
        input_quant: Any,
        act_quant: Any,
        return_quant_tensor: bool,
        keywords: Mapping[str, object],
    ) -> None:
        super().__init__()
        self.input_quant: Any
        self.act_quant: Any
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)
        groups = split_keywords(type(self).__name__, keywords, ("input_", ""))
        self.input_quant = _build_quantizer(
            self, "input_quant", input_quant, NoneActQuant, groups["input_"], {}, "input_"
        )
        activation = {"act_impl": act_impl, "passthrough_act": passthrough_act}
        self.act_quant = _build_quantizer(self, "act_quant", act_quant, NoneActQuant, groups[""], activation, "")

    def forward(self, input: Any) -> Any:
        return self._pack(self.act_quant(self.input_quant(input)), self.return_quant_tensor)


class QuantWeightBiasInputOutputLayer(QuantLayer):
    """A layer with a weight (and a bias) whose weight, bias, input and output can be quantized.

    A subclass also inherits from the torch layer, whose constructor has run when :meth:`_init_quantizers` is called.
    """

    weight: Tensor
    bias: Any
    weight_quant: Any
    bias_quant: Any
    input_quant: Any
    output_quant: Any
    last_was_exact: bool | None = None
    """Whether the last evaluation accumulated integers; ``None`` before."""

    def _init_quantizers(
        self,
        weight_quant: Any,
        bias_quant: Any,
        input_quant: Any,
        output_quant: Any,
        return_quant_tensor: bool,
        keywords: Mapping[str, object],
    ) -> None:
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)
        self._weight_cache = exact.WeightCache()
        groups = split_keywords(type(self).__name__, keywords, ("weight_", "bias_", "input_", "output_"))
        for name, quantizer, none in (
            ("input", input_quant, NoneActQuant),
            ("output", output_quant, NoneActQuant),
            ("weight", weight_quant, NoneWeightQuant),
            ("bias", bias_quant, NoneBiasQuant),
        ):
            prefix = name + "_"
            proxy = _build_quantizer(self, prefix + "quant", quantizer, none, groups[prefix], {}, prefix)
            setattr(self, prefix + "quant", proxy)

    # What a subclass defines.

    @property
    def output_channel_dim(self) -> int:
        """Dimension of the weight that holds output channels."""
        raise NotImplementedError

    @property
    def geometry(self) -> Geometry:
        """The linear operation of this layer."""
        raise NotImplementedError

    # Shared by all.

    def quant_weight(self) -> Any:
        """The quantized weight, a quant tensor; the plain weight if it is not quantized."""
        return self.weight_quant(self.weight)

    def quant_bias(self) -> Any:
        """The quantized bias, for a bias quantizer with its own scale; the plain bias if it is not quantized."""
        return None if self.bias is None else self.bias_quant(self.bias)

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """A new weight or bias starts new statistics."""
        super().register_parameter(name, param)
        proxy = self._modules.get(name + "_quant") if name in ("weight", "bias") else None
        if isinstance(proxy, QuantProxyFromInjector):
            training = proxy.training
            proxy.init_tensor_quant()
            proxy.train(training)

    def forward(self, input: Any) -> Any:
        return self._run(input, self.geometry)

    def _run(self, input: Any, geometry: Geometry) -> Any:
        """Quantize, compute, quantize."""
        quant_input = self.input_quant(input)
        quant_weight = self._weight_cache.weight(self, quant_input)
        both = isinstance(quant_input, IntQuantTensor) and isinstance(quant_weight, IntQuantTensor)
        if self.return_quant_tensor and not both and not self.output_quant.is_quant_enabled:
            raise QuantLayerError(
                "QuantLayer is not correctly configured: return_quant_tensor=True needs a quantized output: set "
                "output_quant, or quantize both input (input_quant or a quant tensor) and weight; layer: "
                f"{described(self)}"
            )
        quant_bias = None if self.bias is None else self.bias_quant(self.bias, quant_input, quant_weight)
        output = self._linear(quant_input, quant_weight, quant_bias, geometry)
        return self._pack(self.output_quant(output), self.return_quant_tensor)

    def _linear(self, input: Any, weight: Any, bias: Any, geometry: Geometry) -> Any:
        """The linear operation: exact on integers in evaluation, fake-quantized in training."""
        bias_value: Tensor | None = unpack_quant_tensor(bias)
        value = None
        if not self.training:
            value = exact.apply(self, input, weight, bias_value, geometry)
            self.__dict__["last_was_exact"] = value is not None  # not through Module.__setattr__, which is slow
        if value is None:
            value = geometry(unpack_quant_tensor(input), unpack_quant_tensor(weight), bias_value)
        described = self.return_quant_tensor and not self.output_quant.is_quant_enabled
        if described and isinstance(input, IntQuantTensor) and isinstance(weight, IntQuantTensor):
            return exact.output_quant_tensor(geometry, value, input, weight, bias)
        return value


def _flag(name: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise QuantizerTypeError(f"{name} must be True or False, got {given!r}")
    return given


__all__ = ["QuantLayer", "QuantNonLinearActLayer", "QuantWeightBiasInputOutputLayer", "Quantizer"]
