"""Turns the attributes of a quantizer into its parts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache

from headrace.errors import did_you_mean
from headrace.inject import ExtendedInjector, Reference, Value
from headrace.inject.errors import MissingAttributeError, QuantizerTypeError
from headrace.inject.vocabulary import VOCABULARY, check_attribute

_SOLVERS = "headrace.quant.solver"
_CONTEXT = frozenset({"module", "proxy_module", "tracked_parameter_list"})


@lru_cache(maxsize=4096)
def _parameters(function: Callable[..., object]) -> tuple[tuple[str, bool], ...]:
    """``(name, required)`` of each argument of *function* or of the constructor of a class."""
    target = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    if target is object.__init__:
        return ()
    parameters = list(inspect.signature(target).parameters.values())[isinstance(function, type) :]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple((p.name, p.default is p.empty) for p in parameters if p.kind in named)


class Resolver:
    """Computes attributes of a quantizer on demand, each once.

    Args:
        quantizer: the declaration.
        context: extra attributes (``module``: the layer or a tuple of layers that share the quantizer,
            ``tracked_parameter_list``: the parameters it quantizes).
    """

    def __init__(self, quantizer: type[ExtendedInjector], **context: object) -> None:
        self.quantizer = quantizer
        self._declared = {**quantizer.attributes(), **context}
        self._built: dict[str, object] = {}
        self._pending: list[str] = []
        self._asked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._declared

    def get(self, name: str, default: object = None) -> object:
        """The attribute *name*, or *default* if the quantizer does not declare it."""
        self._asked.add(name)
        return self[name] if name in self._declared else default

    def __getitem__(self, name: str) -> object:
        self._asked.add(name)
        if name not in self._built:
            if name in self._pending:
                cycle = " -> ".join([*self._pending[self._pending.index(name) :], name])
                raise QuantizerTypeError(f"quantizer {self._name}: attributes depend on each other: {cycle}")
            self._pending.append(name)
            try:
                self._built[name] = self._evaluate(name, self._lookup(name))
            finally:
                self._pending.pop()
        return self._built[name]

    def declares_class(self, name: str, kind: type) -> bool:
        """Whether the attribute *name* is a subclass of *kind*, which need not be instantiated then."""
        declared = self._declared.get(name)
        is_kind = isinstance(declared, type) and issubclass(declared, kind)
        if is_kind:
            self._asked.add(name)
        return is_kind

    @property
    def _name(self) -> str:
        return self.quantizer.__name__

    def _lookup(self, name: str) -> object:
        if name not in self._declared:
            user = f", which {self._pending[-2]!r} needs" if len(self._pending) > 1 else ""
            hint = did_you_mean(name, set(self._declared) - _CONTEXT)
            raise MissingAttributeError(f"quantizer {self._name} has no attribute {name!r}{user}{hint}")
        return self._declared[name]

    def _evaluate(self, name: str, declared: object) -> object:
        if isinstance(declared, Value):
            return self._evaluate(name, self._call(declared.function))
        if isinstance(declared, Reference):
            return self[declared.name]
        if isinstance(declared, type) and not name.endswith("_class") and not issubclass(declared, ExtendedInjector):
            return self._call(declared)
        if name not in _CONTEXT:
            check_attribute(name, declared, f"quantizer {self._name}")
        return declared

    def _call(self, function: Callable[..., object]) -> object:
        arguments = {}
        for name, required in _parameters(function):
            if required or name in self._declared:
                arguments[name] = self[name]
            else:
                self._asked.add(name)
        return function(**arguments)

    def check_unused(self, prefix: str = "") -> None:
        """Raise for attributes that nothing has asked for and that no built-in part knows.

        Args:
            prefix: of the keyword arguments as the user wrote them (``"weight_"``).

        Raises:
            QuantizerTypeError: naming the attribute and the nearest known one.
        """
        own = {k for k in self._declared if not k.startswith("_")} - self._asked - _CONTEXT
        overrides = self.quantizer.overrides
        declared_by_class = {
            k
            for base in self.quantizer.__mro__
            if not vars(base).get("overrides") and not base.__module__.startswith(_SOLVERS)
            for k in vars(base)
        }
        for name in sorted(own):
            if name in overrides and name not in declared_by_class:
                raise QuantizerTypeError(self._unused_keyword(name, prefix))
            if name not in overrides and name not in VOCABULARY and not _is_solver_attribute(self.quantizer, name):
                hint = did_you_mean(name, self._known())
                raise QuantizerTypeError(f"quantizer {self._name}: attribute {name!r} is not used by any part{hint}")

    def _known(self) -> Iterable[str]:
        return set(VOCABULARY) | self._asked

    def _unused_keyword(self, name: str, prefix: str) -> str:
        if name in VOCABULARY:
            return f"keyword {prefix + name!r} has no effect on the quantizer {self._name}"
        known = [prefix + k for k in self._known() if k not in _CONTEXT]
        return f"unknown keyword {prefix + name!r}{did_you_mean(prefix + name, known)}"


def _is_solver_attribute(quantizer: type[ExtendedInjector], name: str) -> bool:
    """Whether the topmost class that declares *name* is part of the library."""
    owners = [base for base in quantizer.__mro__ if name in vars(base)]
    return any(owner.__module__.startswith("headrace.") for owner in owners)
