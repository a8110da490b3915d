"""Ready-made quantizers, to pass to layers as they are or to inherit from."""

from headrace.quant import binary, fixed_point, none, scaled_int, shifted_scaled_int, ternary

_MODULES = (binary, fixed_point, none, scaled_int, shifted_scaled_int, ternary)
__all__ = sorted(name for module in _MODULES for name in module.__all__)
globals().update({name: getattr(module, name) for module in _MODULES for name in module.__all__})
