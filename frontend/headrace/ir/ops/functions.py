"""Elementwise functions that take exponentials and the like: computed in double precision, rounded once to float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf

import numpy as np
from numpy.typing import NDArray

from headrace.ir.op import Array
from headrace.ir.ops.elementwise import Elementwise
from headrace.ir.real import Single, single

Double = NDArray[np.float64]


def _sigmoid(x: Double) -> Double:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def _softplus(x: Double) -> Double:
    return np.logaddexp(0.0, x)


def _erf(x: Double) -> Double:
    y: Double = np.vectorize(erf, otypes=[np.float64])(x)
    return y


def _gelu(x: Double) -> Double:
    return 0.5 * x * (1.0 + _erf(x / np.sqrt(2.0)))


def _gelu_tanh(x: Double) -> Double:
    y: Double = 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
    return y


def _half(x: Double) -> Double:
    rounded: Double = x.astype(np.float16).astype(np.float64)
    return rounded


_FUNCTIONS: dict[str, tuple[Callable[[Double], Double], bool]] = {
    # name -> (function in double precision, never falling)
    "Sigmoid": (_sigmoid, True),
    "Tanh": (np.tanh, True),
    "Softplus": (_softplus, True),
    "Softsign": (lambda x: x / (1.0 + np.abs(x)), True),
    "Exp": (np.exp, True),
    "Erf": (_erf, True),
    "Gelu": (_gelu, False),
    "GeluTanh": (_gelu_tanh, False),
    "Float16": (_half, True),
    "Atan": (np.arctan, True),
    "Sinh": (np.sinh, True),
    "Asinh": (np.arcsinh, True),
    "Sqrt": (np.sqrt, True),
    "Log": (np.log, True),
    "Abs": (np.abs, False),
    "Floor": (np.floor, True),
    "Ceil": (np.ceil, True),
    "Round": (np.rint, True),
    "Sin": (np.sin, False),
    "Cos": (np.cos, False),
    "HardSwish": (lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0), False),
    "Mish": (lambda x: x * np.tanh(_softplus(x)), False),
    "Silu": (lambda x: x * _sigmoid(x), False),
}


@dataclass(frozen=True, eq=False)
class Function(Elementwise):
    """A named function computed in double precision and rounded once to float32."""

    name: str

    @property
    def title(self) -> str:
        return self.name

    @staticmethod
    def names() -> tuple[str, ...]:
        """Names that are known: ONNX's where ONNX has one, and GeluTanh, Float16 (rounding to it) and Silu."""
        return tuple(_FUNCTIONS)

    def apply(self, x: Single) -> Single:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return single(_FUNCTIONS[self.name][0](x.astype(np.float64)))

    def exact(self, x: Double) -> Double:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return _FUNCTIONS[self.name][0](x)

    def direction(self) -> Array | None:
        return np.ones((), np.int64) if _FUNCTIONS[self.name][1] else None


@dataclass(frozen=True, eq=False)
class Elu(Elementwise):
    """``gamma * x`` where positive, ``gamma * alpha * (exp(x) - 1)`` elsewhere; Selu with its own constants."""

    alpha: float = 1.0
    gamma: float = 1.0

    def apply(self, x: Single) -> Single:
        return single(self.exact(x.astype(np.float64)))

    def exact(self, x: Double) -> Double:
        return self.gamma * np.where(x > 0, x, self.alpha * np.expm1(np.minimum(x, 0.0)))

    def direction(self) -> Array | None:
        return np.ones((), np.int64) if self.alpha >= 0 and self.gamma >= 0 else None


@dataclass(frozen=True, eq=False)
class Celu(Elementwise):
    """``max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))``, alpha not 0."""

    alpha: float = 1.0

    def apply(self, x: Single) -> Single:
        return single(self.exact(x.astype(np.float64)))

    def exact(self, x: Double) -> Double:
        with np.errstate(over="ignore"):
            return np.maximum(x, 0.0) + np.minimum(0.0, self.alpha * np.expm1(x / self.alpha))

    def direction(self) -> Array | None:
        return np.ones((), np.int64)


@dataclass(frozen=True, eq=False)
class HardSigmoid(Elementwise):
    """``clip(alpha * x + beta, 0, 1)``."""

    alpha: float = 0.2
    beta: float = 0.5

    def apply(self, x: Single) -> Single:
        y: Single = x * np.float32(self.alpha) + np.float32(self.beta)
        return np.clip(y, np.float32(0), np.float32(1))

    def exact(self, x: Double) -> Double:
        return np.clip(x * self.alpha + self.beta, 0.0, 1.0)

    def direction(self) -> Array | None:
        return np.full((), 1 if self.alpha >= 0 else -1)


@dataclass(frozen=True, eq=False)
class Power(Elementwise):
    """``x ** exponent``, computed in double precision and rounded once."""

    exponent: Single

    def apply(self, x: Single) -> Single:
        return single(self.exact(x.astype(np.float64)))

    def exact(self, x: Double) -> Double:
        with np.errstate(all="ignore"):
            y: Double = np.power(x, self.exponent.astype(np.float64))
        return y
