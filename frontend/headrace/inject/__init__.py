"""Declaring quantizers: a class whose attributes are the parts and the hyperparameters of a quantizer.

A quantizer is a subclass of :class:`ExtendedInjector`. Its attributes are

* plain values (``bit_width = 8``),
* classes, instantiated with arguments taken from attributes of the same names (``int_quant = IntQuant``),
* functions marked with :func:`value`, computed from attributes of the names of their arguments,
* references to other attributes (``zero_point_shape = this.scaling_shape``).

Inheriting overrides attributes, so does :meth:`ExtendedInjector.let`. Nothing is computed before a layer asks for a
part; :mod:`headrace.inject.resolver` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

__all__ = ["BaseInjector", "ExtendedInjector", "Injector", "Reference", "Value", "this", "value"]

_OWN = frozenset({"attributes", "let", "overrides", "parts"})


class Value:
    """A function to evaluate when the attribute is asked for; made by :func:`value`."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.__doc__ = function.__doc__


def value(function: Callable[..., object]) -> Any:
    """Decorator: the attribute is what *function* returns for the attributes named as its arguments.

    A returned class is instantiated and a returned :data:`this` reference is followed, as if written in its place.
    """
    return Value(function)


class Reference:
    """``this.name``: the attribute *name* of the same quantizer."""

    def __init__(self, name: str) -> None:
        self.name = name


class _This:
    def __getattr__(self, name: str) -> Any:
        return Reference(name)


this = _This()


class ExtendedInjector:
    """Base of every quantizer."""

    overrides: ClassVar[frozenset[str]] = frozenset()
    """Names given as keyword arguments (through :meth:`let`), which must not go unused."""

    @classmethod
    def attributes(cls) -> dict[str, object]:
        """Every attribute by name; those of a class come before those of its bases."""
        found: dict[str, object] = {}
        for base in reversed(cls.__mro__):
            found.update({k: v for k, v in vars(base).items() if not k.startswith("__") and k not in _OWN})
        return found

    @classmethod
    def let(cls, **overrides: object) -> type[ExtendedInjector]:
        """A quantizer like this one with attributes replaced."""
        if not overrides:
            return cls
        namespace: Mapping[str, object] = {**overrides, "overrides": cls.overrides | overrides.keys()}
        return type(cls.__name__, (cls,), {**namespace, "__module__": cls.__module__, "__doc__": cls.__doc__})

    @classmethod
    def parts(cls) -> tuple[type[ExtendedInjector], dict[str, object]]:
        """The class as declared, which can be pickled by name, and what :meth:`let` has replaced since."""
        if not vars(cls).get("overrides"):
            return cls, {}
        parent: type[ExtendedInjector] = cls.__bases__[0]
        base, replaced = parent.parts()
        own = {k: v for k, v in vars(cls).items() if not k.startswith("__") and k not in _OWN}
        return base, {**replaced, **own}


Injector = BaseInjector = ExtendedInjector
