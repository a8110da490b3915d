"""Errors of quantizer declarations; each is also the built-in exception that callers expect."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.inject.module_path import running_module


class _InForward(HeadraceError):
    """Begins with the path of the module whose forward pass it stops."""

    def __init__(self, message: str = "") -> None:
        path = running_module()
        where = "" if path is None else f"module {path!r}: "
        super().__init__(message if message.startswith(where) else where + message)


class QuantizerTypeError(_InForward, TypeError):
    """A value of the wrong type, or a keyword or attribute that nothing uses."""


class QuantizerValueError(_InForward, ValueError):
    """A value of the right type outside of what is accepted."""


class MissingAttributeError(HeadraceError, AttributeError):
    """A quantizer lacks an attribute that one of its parts needs."""


class QuantLayerError(_InForward, RuntimeError):
    """A quantized layer or tensor used in a way that its quantizers do not allow."""
