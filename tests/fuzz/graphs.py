"""Random graphs as converters write them: movement, pools, joins and ends; see :mod:`fuzz.converters`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from fuzz.converters import Converter
from fuzz.files import FRAMES, OPSETS, File
from numpy.typing import NDArray
from onnx import TensorProto

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A model, a batch, what ONNX Runtime makes of it, and for which outputs that is exact."""

    model: onnx.ModelProto
    feeds: dict[str, Array]
    expected: dict[str, Array]
    exact: frozenset[str]


def random_file(seed: int) -> Case:
    """The model of a seed."""
    rng = np.random.default_rng([7, seed])
    file = File(rng, int(rng.choice(OPSETS)), bool(rng.random() < 0.3))
    return _Graph(file).build()


class _Graph(Converter):
    """How the pieces are put together."""

    # -- movement -------------------------------------------------------------------------------------------

    def move(self, name: str) -> str:
        moves = [self.there_and_back, self.reshaped, self.squeezed, self.sliced, self.split, self.gathered]
        moves += [
            self.twice,
            self.copied,
            self.padded,
            self.upsampled,
            self.blocks,
            self.tiled,
            self.expanded,
            self.shared,
        ]
        return str(self.pick(moves)(name))

    def there_and_back(self, name: str) -> str:
        """Channels last and back, with something in between now and then."""
        rank = self.f.values[name].ndim
        if rank < 3:
            return str(self.node("Identity", [name]))
        to, back = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
        y = self.node("Transpose", [name], perm=to)
        if self.chance(0.5):
            y = self.quantize(self.function(y), channels=False)
        if self.chance(0.3):
            y = self.dense(y)
        return str(self.node("Transpose", [y], perm=back)) if self.chance(0.8) else str(y)

    def reshaped(self, name: str) -> str:
        """Flattened in one of the many ways to write that."""
        way = self.pick(["Flatten", "minus", "zero", "shape", "size"])
        if way == "Flatten":
            return str(self.node("Flatten", [name], **({"axis": self.f.axis(name, 1)} if self.f.opset >= 11 else {})))
        if way in ("minus", "zero"):
            target = self.ints(*((-1, int(np.prod(self.shape(name)))) if way == "minus" else (0, -1)))
        else:
            full = self.node("Shape", [name])
            batch = self.node("Gather", [full, self.const(0, np.int64)])
            if self.f.opset < 13:
                batch = self.node("Unsqueeze", [batch], axes=[0])
            else:
                batch = self.node("Unsqueeze", [batch, self.ints(0)])
            rest = self.ints(-1 if way == "shape" else int(np.prod(self.shape(name))))
            target = self.node("Concat", [batch, rest], axis=0)
        return str(self.node("Reshape", [name, target]))

    def squeezed(self, name: str) -> str:
        """An axis of one put in, and taken out again."""
        rank = self.f.values[name].ndim
        axis = self.number(1, rank)
        written = axis - rank - 1 if self.f.opset >= 11 and self.chance(0.4) else axis
        by_input = self.f.opset >= 13
        y = self.node("Unsqueeze", [name, *([self.ints(written)] if by_input else [])], **_axes(by_input, written))
        if self.chance(0.3):
            y = self.function(y)
        return str(self.node("Squeeze", [y, *([self.ints(written)] if by_input else [])], **_axes(by_input, written)))

    def sliced(self, name: str) -> str:
        axis = self.number(1, len(self.shape(name)))
        n = self.f.values[name].shape[axis]
        first, last = self.number(0, n - 1), n if self.chance(0.5) else 2**31 - 1
        if self.f.opset < 10:
            return str(self.node("Slice", [name], axes=[axis], starts=[first], ends=[last]))
        if self.chance(0.2):  # mirrored
            ends = [self.ints(-1), self.ints(-(2**31)), self.ints(self.f.axis(name, axis)), self.ints(-1)]
            return str(self.node("Slice", [name, *ends]))
        ends = [
            self.ints(first - n if self.chance(0.3) else first),
            self.ints(last),
            self.ints(self.f.axis(name, axis)),
        ]
        return str(self.node("Slice", [name, *ends, *([self.ints(self.number(1, 2))] if self.chance(0.5) else [])]))

    def split(self, name: str) -> str:
        axis = self.number(1, len(self.shape(name)))
        n = self.f.values[name].shape[axis]
        if n < 2:
            return str(self.node("Identity", [name]))
        cut, written = self.number(1, n - 1), self.f.axis(name, axis) if self.f.opset >= 11 else axis
        if self.f.opset < 13:
            parts = self.node("Split", [name], 2, axis=written, split=[cut, n - cut])
        elif self.f.opset >= 18 and self.chance(0.5):
            parts = self.node("Split", [name], 2, axis=written, num_outputs=2)
        else:
            parts = self.node("Split", [name, self.ints(cut, n - cut)], 2, axis=written)
        if self.chance(0.5):
            return str(self.node("Concat", parts[::-1], axis=written))
        return str(parts[self.number(0, 1)])

    def gathered(self, name: str) -> str:
        axis = self.number(1, len(self.shape(name)))
        n = self.f.values[name].shape[axis]
        index = [self.number(-n if self.f.opset >= 11 else 0, n - 1) for _ in range(self.number(1, n + 1))]
        return str(self.node("Gather", [name, self.ints(*index)], axis=self.f.axis(name, axis)))

    def twice(self, name: str) -> str:
        return str(self.node("Concat", [name, name], axis=self.f.axis(name, 1) if self.f.opset >= 11 else 1))

    def copied(self, name: str) -> str:
        kind = self.pick(["Identity", "Dropout", "Cast"])
        if kind == "Cast":
            return str(self.node("Cast", [name], to=TensorProto.FLOAT))
        return str(self.node(kind, [name]))

    def padded(self, name: str) -> str:
        rank = self.f.values[name].ndim
        pads = self.f.rng.integers(0, 2, (2, rank))
        pads[:, 0] = 0
        if rank > 2:
            pads[:, 1] = 0
        if self.f.opset < 11:
            return str(self.node("Pad", [name], pads=pads.ravel().tolist(), mode="constant"))
        if self.f.opset >= 18 and self.chance(0.4):
            axis = self.f.axis(name, rank - 1)
            return str(self.node("Pad", [name, self.ints(1, 2), "", self.ints(axis)]))
        return str(self.node("Pad", [name, self.ints(*pads.ravel().tolist())]))

    def upsampled(self, name: str) -> str:
        rank = self.f.values[name].ndim
        if rank < 3:
            return self.copied(name)
        scales = [1.0, 1.0, *(float(self.number(1, 2)) for _ in range(rank - 2))]
        if self.f.opset < 11:
            return str(
                self.node("Upsample" if self.f.opset < 10 else "Resize", [name, self.const(scales)], mode="nearest")
            )
        form = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        if self.chance(0.5):
            sizes = [int(n * s) for n, s in zip(self.f.values[name].shape, scales, strict=True)]
            if self.f.fixed_batch:
                empty = self.const(np.zeros(0))
                return str(
                    self.node("Resize", [name, "" if self.f.opset >= 13 else empty, *self._sizes(sizes)], **form)
                )
        return str(
            self.node(
                "Resize", [name, "" if self.f.opset >= 13 else self.const(np.zeros(0)), self.const(scales)], **form
            )
        )

    def _sizes(self, sizes: list[int]) -> list[str]:
        return ["" if self.f.opset >= 13 else self.const(np.zeros(0)), self.ints(*sizes)]

    def blocks(self, name: str) -> str:
        if self.f.values[name].ndim != 4 or self.shape(name)[0] % 4:
            return self.copied(name)
        return str(
            self.node(
                "DepthToSpace",
                [name],
                blocksize=2,
                **({"mode": self.pick(["DCR", "CRD"])} if self.f.opset >= 11 else {}),
            )
        )

    def tiled(self, name: str) -> str:
        rank = self.f.values[name].ndim
        repeats = [1, *(self.number(1, 2) for _ in range(rank - 1))]
        return str(self.node("Tile", [name, self.ints(*repeats)]))

    # -- pools ----------------------------------------------------------------------------------------------

    def pool(self, name: str) -> str:
        rank, size = self.f.values[name].ndim, self.shape(name)[1:]
        if rank not in (3, 4) or self.chance(0.3):
            return self.reduced(name)
        kind = self.pick(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
        if kind.startswith("Global"):
            return str(self.node(kind, [name]))
        kernel = [self.number(1, min(3, n)) for n in size]
        attributes: dict[str, Any] = {"kernel_shape": kernel}
        if self.chance(0.7):
            attributes["strides"] = [self.number(1, 3) for _ in size]
        if self.chance(0.5):
            attributes["pads"] = [self.number(0, k - 1) for k in kernel * 2]
        elif self.chance(0.2):
            # onnxruntime refuses SAME where windows lie apart: to it, that is padding below zero
            apart = any(s > k for s, k in zip(attributes.get("strides", ()), kernel, strict=False))
            attributes["auto_pad"] = "VALID" if apart else self.pick(["SAME_UPPER", "VALID"])
        if kind == "AveragePool" and self.chance(0.5):
            attributes["count_include_pad"] = 1
        return str(self.node(kind, [name], **attributes))

    def reduced(self, name: str) -> str:
        rank = self.f.values[name].ndim
        if rank < 3:
            return self.copied(name)
        axes = sorted(self.f.rng.choice(np.arange(1, rank), self.number(1, rank - 1), replace=False).tolist())
        if len(axes) == rank - 1:
            axes = axes[1:]
        written = [self.f.axis(name, a) if self.f.opset >= 11 else a for a in axes]
        op, keep = self.pick(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"]), int(self.chance(0.5))
        if self.f.opset >= 18 or (op == "ReduceSum" and self.f.opset >= 13):
            return str(self.node(op, [name, self.ints(*written)], keepdims=keep))
        return str(self.node(op, [name], axes=written, keepdims=keep))

    def expanded(self, name: str) -> str:
        """An image made of its channels' largest values."""
        if self.f.values[name].ndim != 4:
            return self.copied(name)
        return str(self.node("Expand", [self.node("GlobalMaxPool", [name]), self.ints(1, 1, 2, 3)]))

    def shared(self, name: str) -> str:
        """One layer used twice."""
        width = self.shape(name)[-1]
        w = self.weights((width, width), 1)
        first = self.node("MatMul", [self.quantize(name), w])
        return str(self.node("MatMul", [self.quantize(self.function(first)), w]))

    # -- joins and ends -------------------------------------------------------------------------------------

    def join(self, name: str) -> str:
        left = self.quantize(name) if self.chance(0.7) else name
        right = self.quantize(self.function(name) if self.chance(0.7) else name)
        op = self.pick(["Add", "Add", "Sub", "Mul", "Max", "Sum", "Mean", "Concat", "gate"])
        if op == "Concat":
            return str(self.node(op, [left, right], axis=self.f.axis(name, 1) if self.f.opset >= 11 else 1))
        if op == "gate" and self.f.values[name].ndim == 4:
            gate = self.node("HardSigmoid", [self.node("GlobalAveragePool", [right])])
            return str(self.node("Mul", [left, self.quantize(gate, channels=False)]))
        parts = [left, right, left] if op in ("Sum", "Mean", "Max") and self.chance(0.4) else [left, right]
        return str(self.node("Add" if op == "gate" else op, parts))

    def end(self, name: str) -> str:
        kind = self.pick(["", "", "", "quant", "ArgMax", "TopK", "Softmax", "function"])
        if kind == "quant":
            return self.quantize(name)
        if kind == "function":
            return self.function(name)
        if kind == "ArgMax":
            return str(self.node(kind, [name], axis=self.f.axis(name, 1) if self.f.opset >= 11 else 1))
        if kind == "TopK" and self.f.opset >= 11:
            return str(self.node(kind, [name, self.ints(1)], 2, axis=-1)[1])
        if kind == "Softmax" and self.f.values[name].ndim == 2:
            return str(self.node(kind, [name], axis=1))
        return name

    def build(self) -> Case:
        shape = self.pick([(self.number(1, 12),), (self.number(1, 4), self.number(3, 9)), None, None, None])
        shape = shape or (self.number(1, 4), self.number(3, 6), self.number(3, 6))
        name = self.f.input(shape)
        if self.chance(0.2):
            name = self.arithmetic(name)
        name = self.quantize(name)
        if self.chance(0.15):
            name = str(self.node("Add", [name, self.quantize(self.f.input(shape))]))
        steps = [self.layer, self.layer, self.layer, self.move, self.move, self.join, self.pool]
        results = []
        for _ in range(self.number(1, 5)):
            if self.f.values[name].size > FRAMES * 600:
                break
            name = str(self.pick(steps)(name))
            if self.chance(0.1):
                results.append(self.end(name))
        name = self.quantize(name) if self.chance(0.3) else name
        results.append(self.end(name))
        results = [r for r in dict.fromkeys(results) if r not in self.f.feeds] or [self.quantize(name)]
        exact = frozenset(r for r in results if r not in self.f.inexact)
        return Case(self.f.model(results), self.f.feeds, {r: self.f.values[r] for r in results}, exact)

    def layer(self, name: str) -> str:
        name = self.quantize(name) if self.chance(0.6) else name
        name = self.product(name)
        for _ in range(self.number(0, 2)):
            name = self.function(name)
        return self.quantize(name) if self.chance(0.7) else name


def _axes(by_input: bool, *axes: int) -> dict[str, Any]:
    return {} if by_input else {"axes": list(axes)}
