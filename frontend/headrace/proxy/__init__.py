"""Modules between a layer and its quantizers: they build the quantizer and wrap its results as quant tensors."""

from headrace.proxy.parameter_quant import (
    BiasQuantProxyFromInjector,
    InputAwareWeightQuantProxyFromInjector,
    WeightFloatQuantProxyFromInjector,
    WeightQuantProxyFromInjector,
)
from headrace.proxy.quant_proxy import QuantProxyFromInjector
from headrace.proxy.runtime_quant import (
    ActFloatQuantProxyFromInjector,
    ActQuantProxyFromInjector,
    DynamicActQuantProxyFromInjector,
    FusedActivationQuantProxy,
    TruncQuantProxyFromInjector,
)

__all__ = [
    "ActFloatQuantProxyFromInjector",
    "ActQuantProxyFromInjector",
    "BiasQuantProxyFromInjector",
    "DynamicActQuantProxyFromInjector",
    "FusedActivationQuantProxy",
    "InputAwareWeightQuantProxyFromInjector",
    "QuantProxyFromInjector",
    "TruncQuantProxyFromInjector",
    "WeightFloatQuantProxyFromInjector",
    "WeightQuantProxyFromInjector",
]
