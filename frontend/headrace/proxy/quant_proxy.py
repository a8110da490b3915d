"""What the quantizers of weights, biases and activations have in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headrace import config
from headrace.core.stateless import StatelessBuffer
from headrace.inject import ExtendedInjector
from headrace.inject.errors import QuantLayerError
from headrace.inject.resolver import Resolver


def described(module: nn.Module) -> str:
    """*module* without its submodules, for messages: a module does not know its path in the model."""
    return f"{type(module).__name__}({module.extra_repr()})"


class QuantProxyFromInjector(nn.Module):
    """Base: builds ``tensor_quant`` from a quantizer declaration and rebuilds it when its layers change.

    Args:
        quant_layer: the layer that uses the quantizer first; further ones share it through :meth:`add_tracked_module`.
        quant_injector: the declaration.
        keyword_prefix: of keyword overrides, for messages.
    """

    def __init__(
        self, quant_layer: nn.Module, quant_injector: type[ExtendedInjector], keyword_prefix: str = ""
    ) -> None:
        super().__init__()
        self.quant_injector = quant_injector
        self.keyword_prefix = keyword_prefix
        self._zero_hw_sentinel = StatelessBuffer(torch.tensor(0.0))
        self.tensor_quant: Any = None
        self.tracked_module_list: list[nn.Module] = []  # a plain list: the layers own their proxies, not vice versa
        self.disable_quant = False
        self.is_signed: bool | None = None
        self.is_narrow_range: bool | None = None
        self.rounding_mode: str | None = None
        self.add_tracked_module(quant_layer)

    @property
    def owners(self) -> str:
        """The layers that use the quantizer, for messages."""
        return ", ".join(described(module) for module in self.tracked_module_list)

    def _context(self) -> dict[str, object]:
        modules = self.tracked_module_list
        return {"module": modules[0] if len(modules) == 1 else tuple(modules), "proxy_module": self}

    def add_tracked_module(self, module: nn.Module) -> None:
        """Share the quantizer with another layer."""
        if module is None:
            raise QuantLayerError("a quantizer can only be shared with a module, got None")
        self.tracked_module_list.append(module)
        self.init_tensor_quant()

    def init_tensor_quant(self) -> None:
        """Build the quantizer anew from the declaration and the current parameters of the layers."""
        resolver = Resolver(self.quant_injector, **self._context())
        self._use(resolver)
        resolver.check_unused(self.keyword_prefix)

    def _use(self, resolver: Resolver) -> None:
        """Take what this proxy needs from *resolver*."""
        self.tensor_quant = resolver["tensor_quant"]
        signed, narrow = resolver.get("signed"), resolver.get("narrow_range")
        self.is_signed = None if signed is None else bool(signed)
        self.is_narrow_range = None if narrow is None else bool(narrow)
        rounding = getattr(getattr(self.tensor_quant, "int_quant", None), "float_to_int_impl", None)
        self.rounding_mode = getattr(rounding, "qonnx_mode", None)

    @property
    def is_quant_enabled(self) -> bool:
        """Whether the proxy quantizes at the moment."""
        return not self.disable_quant and self.tensor_quant is not None

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        # The layer's own parameters are loaded by now, those of tensor_quant are not: statistics can follow the
        # former without overwriting the latter.
        if config.REINIT_ON_STATE_DICT_LOAD:
            training = self.training
            self.init_tensor_quant()
            self.train(training)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["quant_injector"] = self.quant_injector.parts()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        base, overrides = state.pop("quant_injector")
        state["quant_injector"] = base.let(**overrides)
        super().__setstate__(state)  # type: ignore[no-untyped-call]
