"""The exactness contract, written a second time: ONNX nodes in plain numpy, exact fractions and int64.

Nothing of Headrace is used. A tensor is its float32 values and, as long as they stand for integers, those integers with
the fraction each is multiplied by. Products accumulate integers and multiply once (E1); every other step is one float32
operation (E2). ``margins`` keeps how near each quantizer came to deciding otherwise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
from fuzz.rationals import compact, fractions, gcd, single, zeros
from fuzz.windows import conv, pool, window
from numpy.typing import NDArray

Array = NDArray[Any]

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
class Oracle:
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

    def run_mul(self, a: dict[str, Any], x: Tensor, y: Tensor) -> Tensor:
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

    # -- products -------------------------------------------------------------------------------------------

    def _weights(self, w: Tensor, rank: int) -> tuple[Array, Array] | None:
        """Integers and their fractions; raw float constants are read as integers where they are."""
        if w.q is not None:
            return w.q, w.grid[1]
        if np.all(w.value == np.round(w.value)) and np.max(np.abs(w.value), initial=0) <= WIDEST_WEIGHT:
            return w.value.astype(np.int64), np.full((1,) * rank, Fraction(1), object)
        unit = gcd([Fraction(v) for v in w.value.astype(np.float64).ravel().tolist()])
        q = np.array([int(Fraction(v) / unit) for v in w.value.astype(np.float64).ravel().tolist()], object)
        if max(map(abs, q)) > WIDEST_SCALED:
            return None
        return q.astype(np.int64).reshape(w.value.shape), np.full((1,) * rank, unit, object)

    def _column(self, factors: Array, integers: Array) -> tuple[Array, Fraction] | None:
        """Weights of one output on the common grid of the factors of its inputs."""
        spread = np.broadcast_to(factors, integers.shape)
        first = spread.flat[0]
        if all(v == first for v in spread.ravel()):
            return integers, first
        unit = gcd(list(spread.ravel()))
        if unit == 0:
            return integers * 0, Fraction(1)
        multiples = np.array([int(v / unit) for v in spread.ravel()], object)
        if max(map(abs, multiples)) > WIDEST_PRODUCT:
            return None
        return integers * multiples.astype(np.int64).reshape(integers.shape), unit

    def _scaled(self, acc: Array, scale: Array, bias: Array, rank: int) -> Tensor:
        value = acc.astype(f32)
        factor, term = single(scale), single(bias)
        if np.any(factor != 1):
            value = value * factor
        if np.any(bias != 0):
            value = value + term
        return Tensor(value.astype(f32), acc.astype(np.int64), scale, bias)

    @staticmethod
    def _centred(x: Tensor) -> Tensor:
        """Integers without their zero point, where the offset is that of one."""
        if x.q is None or not np.all(x.grid[1] != 0):
            return x
        q, scale, bias = x.grid
        zero = -bias / scale
        if any(v.denominator != 1 for v in zero.ravel()):
            return x
        return Tensor(x.value, q.astype(np.int64) - zero.astype(np.int64), scale, zeros(x.rank))

    @staticmethod
    def _of_values(
        run: Callable[[Array], Array], w: Tensor, wq: Array, ws: Array, out: int, view: tuple[int, ...]
    ) -> Tensor:
        """The product of values that are on no grid: exact, rounded once, then times the weights' scale."""
        wide = np.moveaxis(np.broadcast_to(ws, wq.shape), out, 0).reshape(wq.shape[out], -1)
        if any(v != row[0] for row in wide for v in row):
            return Tensor(run(w.value.astype(np.float64)).astype(f32))
        value = run(wq.astype(np.float64)).astype(f32)
        factor = single(wide[:, 0]).reshape(view)
        return Tensor(value * factor if np.any(factor != 1) else value)

    def run_matmul(self, a: dict[str, Any], x: Tensor, w: Tensor) -> Tensor:
        parts = self._weights(w, 2)
        assert parts is not None
        wq, wscale = parts
        depth, width = wq.shape
        x = self._centred(x)
        view = (1,) * (x.rank - 1) + (-1,)
        real = self._of_values(lambda v: x.value.astype(np.float64) @ v, w, wq, wscale, 1, view)
        if x.q is None:
            return real
        q, scale, bias = x.grid
        if any(n > 1 for n in scale.shape[:-1]) or any(n > 1 for n in bias.shape[:-1]):
            return real
        s, b = np.broadcast_to(scale.ravel(), (depth,)), np.broadcast_to(bias.ravel(), (depth,))
        ws = np.broadcast_to(wscale, wq.shape)
        columns, units, offsets = [], [], []
        for m in range(width):
            found = self._column(s * ws[:, m], wq[:, m])
            if found is None:
                return real
            columns.append(found[0])
            units.append(found[1])
            offsets.append(sum((b[k] * int(wq[k, m]) * ws[k, m] for k in range(depth)), Fraction(0)))
        acc = np.einsum("...k,km->...m", q.astype(np.int64), np.stack(columns, 1))
        return self._scaled(acc, np.array(units, object).reshape(view), np.array(offsets, object).reshape(view), x.rank)

    def run_gemm(self, a: dict[str, Any], x: Tensor, w: Tensor, c: Tensor | None = None) -> Tensor:
        if a.get("transB", 0):
            w = Tensor(w.value.T, *(None if part is None else part.T for part in (w.q, w.scale, w.bias)), constant=True)
        y = self.run_matmul({}, x, w)
        return y if c is None else self.run_add({}, y, constant(c.value))

    def run_conv(self, a: dict[str, Any], x: Tensor, w: Tensor, c: Tensor | None = None) -> Tensor:
        parts = self._weights(w, w.value.ndim)
        assert parts is not None
        wq, ws = parts[0], np.broadcast_to(parts[1], parts[0].shape)
        kernel, groups = wq.shape[2:], a.get("group", 1)
        strides, dilations, pads = window(a, kernel)
        per_in, per_out = wq.shape[1], wq.shape[0] // groups
        x = self._centred(x)
        view = (-1,) + (1,) * len(kernel)
        result = self._of_values(
            lambda v: conv(x.value.astype(np.float64), v, strides, dilations, pads, groups), w, wq, ws, 0, view
        )
        if x.q is not None:
            q, scale, bias = x.grid
            spatial = any(n > 1 for n in (*scale.shape[1:], *bias.shape[1:]))
            padded = bool(np.any(bias != 0)) and any(map(any, pads))
            columns, units, offsets = [], [], []
            s, b = (np.broadcast_to(v.ravel()[: 1 if spatial else None], (x.value.shape[1],)) for v in (scale, bias))
            for m in range(wq.shape[0]):
                ins = slice(m // per_out * per_in, m // per_out * per_in + per_in)
                found = self._column(s[ins].reshape(view) * ws[m], wq[m])
                if found is None:
                    padded = True
                    break
                columns.append(found[0])
                units.append(found[1])
                offsets.append((b[ins].reshape(view) * wq[m] * ws[m]).sum())
            if not (spatial or padded):
                acc = conv(q.astype(np.int64), np.stack(columns), strides, dilations, pads, groups)
                units_, offsets_ = (np.array(v, object).reshape(view) for v in (units, offsets))
                result = self._scaled(acc, units_, offsets_, x.rank)
        return result if c is None else self.run_add({}, result, constant(c.value.reshape(-1, *(1,) * len(kernel))))

    # -- pools ----------------------------------------------------------------------------------------------

    def run_maxpool(self, a: dict[str, Any], x: Tensor) -> Tensor:
        strides, dilations, pads = window(a, a["kernel_shape"])
        value = pool(x.value, a["kernel_shape"], strides, dilations, pads, -np.inf, np.max)
        if x.q is None or x.loose or np.any(x.grid[1] < 0) or any(n > 1 for part in x.grid[1:] for n in part.shape[1:]):
            return Tensor(value)
        q = pool(x.q.astype(np.int64), a["kernel_shape"], strides, dilations, pads, -(2**62), np.max)
        return Tensor(value, q, x.scale, x.bias)

    def run_averagepool(self, a: dict[str, Any], x: Tensor) -> Tensor:
        kernel = a["kernel_shape"]
        x = self._centred(x)
        strides, dilations, pads = window(a, kernel)
        ones = np.ones((1, 1, *x.value.shape[2:]), np.int64)
        count = pool(ones, kernel, strides, dilations, pads, 0, np.sum)[0]
        if a.get("count_include_pad", 0):
            count = np.full_like(count, int(np.prod(kernel)))
        if np.all(count == count.flat[0]):
            count = count.ravel()[:1].reshape((1,) * count.ndim)
        on_grid = x.q is not None and not np.any(x.grid[2] != 0) and not any(n > 1 for n in x.grid[1].shape[1:])
        if not on_grid:
            total = pool(x.value.astype(np.float64), kernel, strides, dilations, pads, 0, np.sum)
            return Tensor((total.astype(f32) / count.astype(f32)).astype(f32))
        q, scale, bias = x.grid
        total = pool(q.astype(np.int64), kernel, strides, dilations, pads, 0, np.sum)
        y = self._scaled(total, scale, bias, x.rank)
        exact = fractions(count, x.rank)
        return Tensor((y.value / count.astype(f32)).astype(f32), total, scale / exact, bias / exact)

    def run_globalaveragepool(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return self.run_averagepool({"kernel_shape": list(x.value.shape[2:])}, x)

    def run_globalmaxpool(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return self.run_maxpool({"kernel_shape": list(x.value.shape[2:])}, x)

    # -- movement -------------------------------------------------------------------------------------------

    @staticmethod
    def _moved(x: Tensor, move: Callable[[Array], Array]) -> Tensor:
        """*move* takes and gives arrays with a batch (or none, for constants) in front."""
        if x.q is None:
            return Tensor(move(x.value), constant=x.constant)
        q, scale, bias = x.grid
        if x.constant:
            return Tensor(move(x.value), move(q), *(move(np.broadcast_to(p, q.shape)) for p in (scale, bias)), True)
        wide = [move(np.broadcast_to(p, q.shape[1:])[None])[0] for p in (scale, bias)]
        return Tensor(move(x.value), move(q), *(compact(p) for p in wide), loose=x.loose)

    def run_flatten(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return self._moved(x, lambda v: v.reshape(v.shape[0], -1))

    def run_reshape(self, a: dict[str, Any], x: Tensor, shape: Tensor) -> Tensor:
        target = shape.value.tolist()
        return self._moved(x, lambda v: v.reshape(v.shape[0], *target[1:]))

    def run_transpose(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return self._moved(x, lambda v: v.transpose(a["perm"]))

    def run_identity(self, a: dict[str, Any], x: Tensor) -> Tensor:
        return x

    def run_cast(self, a: dict[str, Any], x: Tensor) -> Tensor:
        q, one = x.value.astype(np.int64), np.full((1,) * x.rank, Fraction(1), object)
        return Tensor(x.value.astype(f32), q, one, zeros(x.rank)) if x.value.dtype.kind in "iu" else x

    def run_slice(self, a: dict[str, Any], x: Tensor, first: Tensor, last: Tensor, axes: Tensor) -> Tensor:
        index = [slice(None)] * x.value.ndim
        index[int(axes.value[0])] = slice(int(first.value[0]), int(last.value[0]))
        return self._moved(x, lambda v: v[tuple(index)])

    def run_split(self, a: dict[str, Any], x: Tensor, sizes: Tensor) -> list[Tensor]:
        edges = np.cumsum([0, *sizes.value.tolist()]).tolist()
        axis = a["axis"]
        return [
            self._moved(x, lambda v, i=i, j=j: np.take(v, range(i, j), axis=axis)) for i, j in itertools.pairwise(edges)
        ]

    def run_concat(self, a: dict[str, Any], *parts: Tensor) -> Tensor:
        value = np.concatenate([p.value for p in parts], axis=a["axis"])
        if any(p.q is None or p.loose for p in parts):
            return Tensor(value)
        q = np.concatenate([p.grid[0] for p in parts], axis=a["axis"])
        scale, bias = (
            compact(np.concatenate([np.broadcast_to(p.grid[k], p.value.shape[1:]) for p in parts], axis=a["axis"] - 1))
            for k in (1, 2)
        )
        return Tensor(value, q, scale, bias)

    def run_argmax(self, a: dict[str, Any], x: Tensor) -> Tensor:
        index = np.argmax(x.value, axis=a["axis"])
        return Tensor(np.expand_dims(index, a["axis"]) if a.get("keepdims", 1) else index)

    def run_topk(self, a: dict[str, Any], x: Tensor, k: Tensor) -> list[Tensor]:
        keys = -x.value if a.get("largest", 1) else x.value
        order = np.argsort(keys, axis=-1, kind="stable")[..., : int(k.value[0])]
        return [Tensor(np.take_along_axis(x.value, order, -1)), Tensor(order)]
