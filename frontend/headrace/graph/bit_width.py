"""The end of learning bit widths: every one is rounded and becomes a constant."""

from __future__ import annotations

import torch
from torch import nn

from headrace.core.bit_width import BitWidthConst, BitWidthParameter
from headrace.inject.enum import BitWidthImplType
from headrace.proxy import QuantProxyFromInjector


def freeze_bit_widths(model: nn.Module) -> dict[str, int]:
    """Replace the learned bit widths of *model* by constants, in place.

    The integers of weights and activations stay as they are, and so does everything else that was learned. Do it before
    export and before fine-tuning at the bit widths that were found.

    Returns:
        The bit widths by the name of their quantizer.
    """
    frozen: dict[str, int] = {}
    for name, proxy in model.named_modules():
        if not isinstance(proxy, QuantProxyFromInjector):
            continue
        for parent in list(proxy.modules()):
            for child_name, child in list(parent.named_children()):
                if isinstance(child, BitWidthParameter):
                    frozen[name] = _freeze(proxy, parent, child_name, child)
    return frozen


def _freeze(proxy: QuantProxyFromInjector, parent: nn.Module, name: str, learned: BitWidthParameter) -> int:
    with torch.no_grad():
        bits = int(learned())
    offset = learned.bit_width_offset
    setattr(parent, name, BitWidthConst(bits, offset.dtype, offset.device))
    # The declaration as well: loading a state dictionary builds the quantizer anew.
    constant = {"bit_width_impl_type": BitWidthImplType.CONST, "bit_width": bits}
    proxy.quant_injector = proxy.quant_injector.let(**constant)
    return bits


__all__ = ["freeze_bit_widths"]
