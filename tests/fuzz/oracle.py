"""The oracle's products, pools and movements."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from fuzz.elementary import WIDEST_PRODUCT, WIDEST_SCALED, WIDEST_WEIGHT, Elementary, Tensor, constant, f32
from fuzz.rationals import Array, compact, fractions, gcd, single, zeros
from fuzz.windows import conv, pool, scatter, window


class Oracle(Elementary):
    """Everything that the random networks are made of."""

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

    def run_convtranspose(self, a: dict[str, Any], x: Tensor, w: Tensor) -> Tensor:
        parts = self._weights(w, w.value.ndim)
        assert parts is not None
        groups = a.get("group", 1)
        value, wq, ws = (_by_output(v, groups) for v in (w.value, parts[0], np.broadcast_to(parts[1], w.value.shape)))
        x = self._centred(x)
        view = (-1,) + (1,) * (w.value.ndim - 2)
        real = Tensor(value, constant=True)
        result = self._of_values(lambda v: scatter(x.value.astype(np.float64), v, a), real, wq, ws, 0, view)
        if x.q is None or np.any(x.grid[2] != 0) or any(n > 1 for n in x.grid[1].shape[1:]):
            return result
        per_in, per_out = wq.shape[1], wq.shape[0] // groups
        s = np.broadcast_to(x.grid[1].ravel(), (x.value.shape[1],))
        columns, units = [], []
        for m in range(wq.shape[0]):
            first = m // per_out * per_in
            found = self._column(s[first : first + per_in].reshape(view) * ws[m], wq[m])
            if found is None:
                return result
            columns.append(found[0])
            units.append(found[1])
        acc = scatter(x.q.astype(np.int64), np.stack(columns), a)
        return self._scaled(acc, np.array(units, object).reshape(view), zeros(x.rank), x.rank)

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

    def run_reducemean(self, a: dict[str, Any], x: Tensor, axes: Tensor | None = None) -> Tensor:
        return self._without(a, self.run_globalaveragepool({}, x))

    def run_reducemax(self, a: dict[str, Any], x: Tensor, axes: Tensor | None = None) -> Tensor:
        return self._without(a, self.run_globalmaxpool({}, x))

    def run_reducesum(self, a: dict[str, Any], x: Tensor, axes: Tensor | None = None) -> Tensor:
        """Of a whole image, as the other reductions."""
        spatial = tuple(range(2, x.value.ndim))
        x = self._centred(x)
        if x.q is None or np.any(x.grid[2] != 0) or any(n > 1 for n in x.grid[1].shape[1:]):
            return self._without(a, Tensor(x.value.astype(np.float64).sum(spatial, keepdims=True).astype(f32)))
        return self._without(a, self._scaled(x.q.astype(np.int64).sum(spatial, keepdims=True), *x.grid[1:], x.rank))

    def _without(self, a: dict[str, Any], x: Tensor) -> Tensor:
        """Reduced axes dropped, unless they are kept."""
        return x if a.get("keepdims", 1) else self._moved(x, lambda v: v.reshape(v.shape[:2]))

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

    def run_gather(self, a: dict[str, Any], x: Tensor, index: Tensor) -> Tensor:
        return self._moved(x, lambda v: np.take(v, index.value, axis=a["axis"]))

    def run_resize(self, a: dict[str, Any], x: Tensor, region: None, scales: Tensor) -> Tensor:
        """Whole factors only, where all nearest neighbours agree."""

        def move(v: Array) -> Array:
            for axis, n in enumerate(scales.value.astype(int).tolist()):
                v = np.repeat(v, n, axis=axis)
            return v

        return self._moved(x, move)

    def run_pad(self, a: dict[str, Any], x: Tensor, pads: Tensor, fill: Tensor | None = None) -> Tensor:
        flat = pads.value.tolist()
        pairs = list(zip(flat[: len(flat) // 2], flat[len(flat) // 2 :], strict=True))
        constant_value = 0.0 if fill is None else float(fill.value)
        value = np.pad(x.value, pairs, constant_values=f32(constant_value))
        if x.q is None or x.loose or not np.all(x.grid[1] != 0):
            return Tensor(value)
        q, scale, bias = x.grid
        padded = [axis for axis, pair in enumerate(pairs[1:]) if any(pair)]
        if any(n > 1 and (k > 0 or k in padded) for part in (scale, bias) for k, n in enumerate(part.shape)):
            return Tensor(value)
        exact = np.asarray((Fraction(constant_value) - bias) / scale, object)
        if any(v.denominator != 1 or abs(v) >= 2**31 for v in exact.ravel()):
            return Tensor(value)
        inside = np.pad(np.ones(q.shape, bool), pairs)
        around = np.broadcast_to(exact.astype(np.int64), value.shape) if exact.size > 1 else int(exact.flat[0])
        return Tensor(value, np.where(inside, np.pad(q.astype(np.int64), pairs), around), scale, bias)

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


def _by_output(weights: Array, groups: int) -> Array:
    """Weights ``(C, O/groups, ...)`` of a transposed convolution as ``(O, C/groups, ...)``."""
    return np.concatenate([part.swapaxes(0, 1) for part in np.split(weights, groups)])
