"""Registry of import rules: one per ONNX operator, added by the modules that hold them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache

from headrace.ingest.operands import Rule

ONNX = ""
QONNX = "qonnx.custom_op.general"
FINN = "finn.custom_op.general"
BREVITAS = "onnx.brevitas"
MICROSOFT = "com.microsoft"
CHANNELS_LAST = "qonnx.custom_op.channels_last"

DOMAINS = {
    "": ONNX,
    "ai.onnx": ONNX,
    QONNX: QONNX,
    FINN: QONNX,
    BREVITAS: QONNX,
    MICROSOFT: MICROSOFT,
    CHANNELS_LAST: CHANNELS_LAST,
}
"""Every domain that is known, with the one that its rules are listed under."""

_rules: dict[tuple[str, str], Rule] = {}
_constant_rules: set[tuple[str, str]] = set()
_sequence_rules: set[str] = set()
_ignored: dict[tuple[str, str], frozenset[str]] = {}


def imports(
    *operators: str,
    domain: str = ONNX,
    constants: bool = False,
    sequences: bool = False,
    ignores: Iterable[str] = (),
) -> Callable[[Rule], Rule]:
    """Decorator: register a rule.

    Args:
        operators: names of the operators.
        domain: as :data:`DOMAINS` maps it.
        constants: whether the rule also takes nodes whose operands are all constant.
        sequences: whether the rule makes or takes sequences of tensors; also of constants.
        ignores: attributes that cannot change the result at inference. Any other attribute that a node carries and
            the rule does not ask for is refused: an attribute is never skipped silently.
    """

    def register(rule: Rule) -> Rule:
        for operator in operators:
            if (domain, operator) in _rules:
                raise RuntimeError(f"two import rules for {operator}")
            _rules[domain, operator] = rule
            _ignored[domain, operator] = frozenset(ignores)
            if constants or sequences:
                _constant_rules.add((domain, operator))
            if sequences:
                _sequence_rules.add(operator)
        return rule

    return register


@cache
def load_rules() -> None:
    """Import every module of this package, which registers its rules."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")


def find_rule(domain: str, operator: str) -> Rule | None:
    """The rule of an operator, if any."""
    load_rules()
    return _rules.get((domain, operator))


def takes_constants(domain: str, operator: str) -> bool:
    """Whether the operator's rule folds constants itself."""
    return (domain, operator) in _constant_rules


def sequence_operators() -> list[str]:
    """Names of the operators that make or take sequences of tensors."""
    load_rules()
    return sorted(_sequence_rules)


def ignored_attributes(domain: str, operator: str) -> frozenset[str]:
    """Attributes of an operator that its rule need not ask for."""
    return _ignored[domain, operator] | {"consumed_inputs"}  # a memory hint of the first operator sets


def operators(domain: str) -> list[str]:
    """Names of the operators that have a rule."""
    load_rules()
    return sorted(op for d, op in _rules if d == domain)
