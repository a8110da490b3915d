"""Errors of quantizer declarations; each is also the built-in exception that callers expect."""

from __future__ import annotations

from headrace.errors import HeadraceError


class QuantizerTypeError(HeadraceError, TypeError):
    """A value of the wrong type, or a keyword or attribute that nothing uses."""


class QuantizerValueError(HeadraceError, ValueError):
    """A value of the right type outside of what is accepted."""


class MissingAttributeError(HeadraceError, AttributeError):
    """A quantizer lacks an attribute that one of its parts needs."""


class QuantLayerError(HeadraceError, RuntimeError):
    """A quantized layer or tensor used in a way that its quantizers do not allow."""
