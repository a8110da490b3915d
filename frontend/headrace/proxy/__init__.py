"""Modules between a layer and its quantizers: they build the quantizer and wrap its results as quant tensors."""

from headrace.proxy.parameter_quant import (
    BiasQuantProxyFromInjector,
    DecoupledWeightQuantProxyFromInjector,
    GroupwiseWeightFloatQuantProxyFromInjector,
    GroupwiseWeightQuantProxyFromInjector,
    InputAwareWeightQuantProxyFromInjector,
    WeightFloatQuantProxyFromInjector,
    WeightQuantProxyFromInjector,
)
from headrace.proxy.quant_proxy import QuantProxyFromInjector
from headrace.proxy.runtime_quant import (
    ActFloatQuantProxyFromInjector,
    ActQuantProxyFromInjector,
    ClampQuantProxyFromInjector,
    DynamicActFloatQuantProxyFromInjector,
    DynamicActQuantProxyFromInjector,
    FusedActivationQuantProxy,
    GroupwiseActFloatQuantProxyFromInjector,
    GroupwiseActQuantProxyFromInjector,
    TruncQuantProxyFromInjector,
)

__all__ = [
    "ActFloatQuantProxyFromInjector",
    "ActQuantProxyFromInjector",
    "BiasQuantProxyFromInjector",
    "ClampQuantProxyFromInjector",
    "DecoupledWeightQuantProxyFromInjector",
    "DynamicActFloatQuantProxyFromInjector",
    "DynamicActQuantProxyFromInjector",
    "FusedActivationQuantProxy",
    "GroupwiseActFloatQuantProxyFromInjector",
    "GroupwiseActQuantProxyFromInjector",
    "GroupwiseWeightFloatQuantProxyFromInjector",
    "GroupwiseWeightQuantProxyFromInjector",
    "InputAwareWeightQuantProxyFromInjector",
    "QuantProxyFromInjector",
    "TruncQuantProxyFromInjector",
    "WeightFloatQuantProxyFromInjector",
    "WeightQuantProxyFromInjector",
]
