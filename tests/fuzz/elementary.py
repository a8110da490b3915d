"""The exactness contract, written a second time: ONNX nodes in plain numpy, exact fractions and int64.

Nothing of Headrace is used. A tensor is its float32 values and, as long as they stand for integers, those integers with
the fraction each is multiplied by. Products accumulate integers and multiply once (E1); every other step is one float32
operation (E2). ``margins`` keeps how near each quantizer came to deciding otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
from fuzz.rationals import Array, fractions, gcd, single, zeros

WIDEST_ADD, WIDEST_PRODUCT, WIDEST_WEIGHT, WIDEST_SCALED, WIDEST_OFFSET = 2**26, 2**26, 2**24, 2**16, 2**16
f32 = np.float32


@dataclass
class Tensor:
    """Values (batch first unless *constant*); ``q * scale + bias`` in exact arithmetic where q is not None."""

    value: Array
    q: Array | None = None
    scale: Array | None = None  # of Fractions, of the rank of a frame
    bias: Array | None = None
    constant: bool = False
    loose: bool = False  # of a sum: the values are rounded branch by branch, the integers are not

    @property
    def rank(self) -> int:
        return self.value.ndim - (0 if self.constant else 1)

    @property
    def grid(self) -> tuple[Array, Array, Array]:
        assert self.q is not None
        assert self.scale is not None
        assert self.bias is not None
        return self.q, self.scale, self.bias


def constant(values: Array) -> Tensor:
    return Tensor(np.asarray(values), constant=True)


ROUND: dict[str, Callable[[Array], Array]] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "HALF_UP": lambda y: np.sign(y) * np.floor(np.abs(y) + 0.5),
    "HALF_DOWN": lambda y: np.sign(y) * np.ceil(np.abs(y) - 0.5),
    "UP": lambda y: np.sign(y) * np.ceil(np.abs(y)),
    "DOWN": np.trunc,
    "ROUND_TO_ZERO": np.trunc,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
}


@dataclass
class Elementary:
    """Runs nodes one by one; ``env`` holds every tensor by name."""

    env: dict[str, Tensor] = field(default_factory=dict)
    margins: list[float] = field(default_factory=list)

    def apply(self, node: onnx.NodeProto) -> None:
        """Execute one node."""
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        inputs = [self.env[name] if name else None for name in node.input]
        run: Callable[..., Any] = getattr(self, f"run_{node.op_type.lower()}")
        results = run(attributes, *inputs)
        for name, result in zip(node.output, results if isinstance(results, list) else [results], strict=False):
            self.env[name] = result

    # -- quantizers -----------------------------------------------------------------------------------------

    def _decided(self, y: Array, lo: float, hi: float, mode: str) -> None:
        inside = y[(y > lo - 2) & (y < hi + 2)].astype(np.float64)
        if inside.size:
            half = mode in ("ROUND", "HALF_EVEN", "HALF_UP", "HALF_DOWN")
            distance = np.abs(np.abs(inside - np.trunc(inside)) - 0.5) if half else np.abs(inside - np.round(inside))
            self.margins.append(float(np.min(distance / (1 + np.abs(inside)))))

    def _coded(self, x: Tensor, codes: Array, scale: Array) -> Tensor:
        exact = fractions(scale, x.rank)
        value = codes.astype(f32) * np.asarray(scale, f32)
        return Tensor(value.astype(f32), codes.astype(np.int64), exact, zeros(x.rank), x.constant)

    def run_quant(self, a: dict[str, Any], x: Tensor, s: Tensor, z: Tensor, b: Tensor) -> Tensor:
        bits, signed, narrow = int(b.value.ravel()[0]), a.get("signed", 1), a.get("narrow", 0)
        mode = a.get("rounding_mode", b"ROUND").decode()
        if signed and bits == 1:
            return self.run_bipolarquant(a, x, s)
        lo = -(2 ** (bits - 1)) + narrow if signed else 0
        hi = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
        y = (x.value.astype(f32) / s.value.astype(f32)).astype(f32) + z.value.astype(f32)
        self._decided(y, lo, hi, mode)
        codes = np.clip(ROUND[mode](y.astype(np.float64)), lo, hi).astype(np.int64) - z.value.astype(np.int64)
        return self._coded(x, codes, s.value)

    def run_bipolarquant(self, a: dict[str, Any], x: Tensor, s: Tensor) -> Tensor:
        y = (x.value / s.value).astype(np.float64)
        self.margins.append(float(np.min(np.abs(y) / (1 + np.abs(y)))))
        return self._coded(x, np.where(x.value >= 0, 1, -1) * np.ones(s.value.shape, np.int64), s.value)

    def run_multithreshold(self, a: dict[str, Any], x: Tensor, t: Tensor) -> Tensor:
        layout = a.get("data_layout", b"").decode()
        axis = layout.index("C") if layout else {2: 1, 3: 2, 4: 1}[x.value.ndim]
        rows = np.moveaxis(x.value, axis, -1)
        gap = np.abs(rows[..., None].astype(np.float64) - t.value)
        self.margins.append(float(np.min(gap / (1 + np.abs(rows[..., None])))))
        count = np.moveaxis((rows[..., None] >= t.value).sum(-1), -1, axis)
        out, offset = Fraction(a.get("out_scale", 1.0)), Fraction(a.get("out_bias", 0.0))
        unit = gcd([out, offset])
        if max(abs(out / unit), abs(offset / unit)) <= WIDEST_OFFSET:
            return self._coded(x, count * int(out / unit) + int(offset / unit), np.full((), float(unit)))
        codes = self._coded(x, count * (1 if out > 0 else -1), np.full((), float(abs(out))))
        return self._linear(codes, fractions(1.0, x.rank), fractions(float(offset), x.rank), one=True)

    def run_quantizelinear(self, a: dict[str, Any], x: Tensor, s: Tensor, z: Tensor) -> Tensor:
        limits = np.iinfo(z.value.dtype)
        y = (x.value.astype(f32) / s.value.astype(f32)).astype(f32)
        self._decided(y, float(limits.min) - z.value.max(), float(limits.max) - z.value.min(), "ROUND")
        codes = np.clip(np.round(y.astype(np.float64)) + z.value.astype(np.int64), limits.min, limits.max)
        return self._coded(x, codes.astype(np.int64), np.ones(()))

    def run_dequantizelinear(self, a: dict[str, Any], x: Tensor, s: Tensor, z: Tensor) -> Tensor:
        shape = [1] * x.value.ndim
        if s.value.size > 1:
            shape[a.get("axis", 1)] = -1
        scale, zero = s.value.reshape(shape), z.value.reshape(shape)
        if x.constant:
            q = x.value.astype(np.int64) - zero.astype(np.int64)
            return self._coded(Tensor(x.value, constant=True), q, scale)
        shifted = self._linear(x, fractions(1.0, x.rank), fractions(-zero.astype(np.float64), x.rank), one=True)
        return self._linear(shifted, fractions(scale, x.rank), zeros(x.rank))

    # -- elementwise ----------------------------------------------------------------------------------------

    def _linear(self, x: Tensor, a: Array, b: Array, one: bool = False) -> Tensor:
        """``x * a`` then ``+ b``, each rounded once; *one* says that a is 1."""
        value = x.value.astype(f32)
        if not one:
            value = value * single(a)
        if np.any(b != 0):
            value = value + single(b)
        if x.q is None:
            return Tensor(value)
        q, scale, bias = x.grid
        return Tensor(value, np.broadcast_to(q, value.shape), scale * a, bias * a + b, loose=x.loose)

    def run_max(self, a: dict[str, Any], x: Tensor, y: Tensor) -> Tensor:
        return Tensor(np.maximum(x.value, y.value))

    def run_min(self, a: dict[str, Any], x: Tensor, y: Tensor) -> Tensor:
        return Tensor(np.minimum(x.value, y.value))

    def run_mul(self, a: dict[str, Any], x: Tensor, y: Tensor) -> Tensor:
        if not (x.constant or y.constant):
            return Tensor(x.value * y.value)
        x, y = (y, x) if x.constant else (x, y)
        return self._linear(x, fractions(y.value, x.rank), zeros(x.rank))

    def run_div(self, a: dict[str, Any], x: Tensor, y: Tensor) -> Tensor:
        if x.constant:
            with np.errstate(divide="ignore", invalid="ignore"):
                return Tensor((x.value / y.value).astype(f32))
        result = Tensor((x.value / y.value.astype(f32)).astype(f32), loose=x.loose)
        if x.q is not None:
            q, scale, bias = x.grid
            d = fractions(y.value, x.rank)
            result.q, result.scale, result.bias = np.broadcast_to(q, result.value.shape), scale / d, bias / d
        return result

    def run_add(self, a: dict[str, Any], x: Tensor, y: Tensor) -> Tensor:
        if x.constant or y.constant:
            x, y = (y, x) if x.constant else (x, y)
            return self._linear(x, fractions(1.0, x.rank), fractions(y.value, x.rank), one=True)
        if x.q is None or y.q is None:
            return Tensor(x.value + y.value)
        p, s, u = x.grid
        q, t, v = y.grid
        joined = self._join(s, t)
        if joined is None:
            return Tensor(x.value + y.value)
        n, m, unit = joined
        acc = n * p.astype(np.int64) + m * q.astype(np.int64)
        return Tensor(x.value + y.value, acc, unit, u + v, loose=True)

    @staticmethod
    def _join(s: Array, t: Array) -> tuple[int, int, Array] | None:
        """Whole factors, the same for every channel, that bring both scales onto one grid."""
        a, b = np.broadcast_arrays(s, t)
        first = gcd([a.flat[0], b.flat[0]])
        if np.array_equal(a, b):
            return 1, 1, s
        if first == 0:
            return (0, 0, zeros(a.ndim)) if a.size == 1 else None
        n, m = int(a.flat[0] / first), int(b.flat[0] / first)
        if max(abs(n), abs(m)) > WIDEST_ADD or (a.size > 1 and n == 0):
            return None
        unit = a / n if n else np.full((1,) * a.ndim, first, object)
        return (n, m, unit) if np.array_equal(unit * n, a) and np.array_equal(unit * m, b) else None

    def run_sub(self, a: dict[str, Any], x: Tensor, y: Tensor) -> Tensor:
        if y.constant:
            return self.run_add(a, x, constant(-y.value))
        negated = self._linear(y, fractions(-1.0, y.rank), zeros(y.rank))
        return self.run_add(a, x, negated)

    def run_neg(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return self._linear(x, fractions(-1.0, x.rank), zeros(x.rank))

    def run_batchnormalization(self, a: dict[str, Any], x: Tensor, *p: Tensor) -> Tensor:
        gamma, beta, mean, var = (t.value.astype(np.float64) for t in p)
        factor = gamma / np.sqrt(var + float(f32(a.get("epsilon", 1e-5))))
        term = beta - mean * factor
        view = (-1,) + (1,) * (x.rank - 1)
        factor, term = factor.reshape(view), term.reshape(view)
        value = (x.value * factor.astype(f32)).astype(f32) + term.astype(f32)
        if x.q is None:
            return Tensor(value)
        q, scale, bias = x.grid
        exact = fractions(factor, x.rank)
        return Tensor(value, q, scale * exact, bias * exact + fractions(term, x.rank), loose=x.loose)

    def _clipped(self, x: Tensor, lo: float, hi: float) -> Tensor:
        value = np.minimum(np.maximum(x.value, f32(lo)), f32(hi))
        if x.q is None:
            return Tensor(value)
        q, scale, bias = x.grid
        if not np.all(scale != 0):
            return Tensor(value)
        ends = []
        for bound in (lo, hi):
            if math.isinf(bound):
                ends.append(np.where((scale > 0) == (bound > 0), 2**62, -(2**62)).astype(np.int64))
                continue
            exact = (Fraction(float(f32(bound))) - bias) / scale
            if any(v.denominator != 1 for v in exact.ravel()):
                return Tensor(value)
            ends.append(exact.astype(np.int64))
        low, high = np.minimum(*ends), np.maximum(*ends)
        return Tensor(value, np.clip(q, low, high), scale, bias, loose=x.loose)

    def run_relu(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return self._clipped(x, 0.0, math.inf)

    def run_clip(self, a: dict[str, Any], x: Tensor, lo: Tensor | None = None, hi: Tensor | None = None) -> Tensor:
        low = -math.inf if lo is None else float(lo.value)
        high = math.inf if hi is None else float(hi.value)
        return self._clipped(x, min(low, high), high)

    def run_leakyrelu(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return Tensor(np.where(x.value >= 0, x.value, x.value * f32(a.get("alpha", 0.01))))

    def run_prelu(self, a: dict[str, Any], x: Tensor, slope: Tensor) -> Tensor:
        return Tensor(np.where(x.value >= 0, x.value, x.value * slope.value.astype(f32)))

    def run_hardsigmoid(self, a: dict[str, Any], x: Tensor) -> Tensor:
        y = x.value * f32(a.get("alpha", 0.2)) + f32(a.get("beta", 0.5))
        return Tensor(np.clip(y, f32(0), f32(1)))

    @staticmethod
    def _each(function: Callable[[float], float], x: Tensor) -> Tensor:
        return Tensor(np.array([f32(function(float(v))) for v in x.value.ravel()], f32).reshape(x.value.shape))

    def run_sigmoid(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return self._each(lambda v: 1 / (1 + math.exp(-v)) if v > -700 else 0.0, x)

    def run_tanh(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return self._each(math.tanh, x)

    def run_softplus(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return self._each(lambda v: max(v, 0.0) + math.log1p(math.exp(-abs(v))), x)

    def run_elu(self, a: dict[str, Any], x: Tensor) -> Tensor:
        alpha = float(f32(a.get("alpha", 1.0)))
        return self._each(lambda v: v if v > 0 else alpha * math.expm1(v), x)

    def run_gelu(self, a: dict[str, Any], x: Tensor) -> Tensor:
        if a.get("approximate", b"none") == b"tanh":
            return self._each(lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))), x)
        return self._each(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))), x)

    def run_abs(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return Tensor(np.abs(x.value))

    def run_sign(self, a: dict[str, Any], x: Tensor) -> Tensor:
        self.margins.append(float(np.min(np.abs(x.value) / (1 + np.abs(x.value)))))
        return self._coded(x, np.sign(x.value).astype(np.int64), np.ones(()))
