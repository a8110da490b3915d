"""Import rules of quantizers: QONNX, FINN-ONNX and QDQ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from headrace.ingest.operands import Node, Operand, frame_axis
from headrace.ingest.rules import MICROSOFT, QONNX, imports
from headrace.ir import Shape, Value
from headrace.ir.grid import Constant, Grid, compact
from headrace.ir.op import Array
from headrace.ir.ops import Add, BipolarQuant, IntQuant, Mul, MultiThreshold, Quantizer, RawCodes, Trunc
from headrace.ir.real import Real
from headrace.numerics.common_grid import common_grid
from headrace.numerics.rounding import rounding_function

WIDEST = 32
"""Widest quantizer accepted, in bits."""

WIDEST_OFFSET = 2**16
"""Largest multiple of their common grid that the output scale or bias of thresholds may be."""


def _shape(node: Node, x: Operand) -> Shape:
    """What parameters broadcast against: a frame, or the whole of a constant."""
    return tuple(x.value.shape) if isinstance(x, Constant) else node.shape(x)


def _apply(node: Node, quantizer: Quantizer, x: Operand) -> Operand:
    """Quantize a tensor (an operator) or a constant (now; the grid is kept)."""
    if isinstance(x, Value):
        return node.add(quantizer, x)
    if not np.all(np.isfinite(x.value)):
        raise node.error("the constant that it quantizes holds values that are not finite numbers")
    result = quantizer.evaluate(Real(x.value.astype(np.float32)[None]))[0]
    assert result.grid is not None
    grid = Grid(result.grid.q[0], result.grid.scale, result.grid.bias)
    return Constant(result.value[0], grid)


def _scale(node: Node, x: Operand, position: int = 1) -> Array:
    """A positive constant scale; zero only where the constant that it quantizes is all zero."""
    scale = node.frame_parameter(node.constant(position, "scale"), _shape(node, x), "its scale")
    scale = scale.astype(np.float32)
    if not np.all(np.isfinite(scale)) or np.any(scale < 0):
        raise node.error("its scale must be finite and positive")
    if not np.all(scale):
        pruned = isinstance(x, Constant) and not np.any(np.where(scale == 0, x.value, 0))
        if not pruned:
            raise node.error("its scale holds 0; a scale must be positive (0 only where all quantized weights are 0)")
    return scale


def _bits(node: Node, position: int, what: str = "bit width") -> int:
    bits = np.asarray(node.constant(position, what)).reshape(-1)
    if bits.size != 1:
        raise node.unsupported(f"a {what} per channel ({bits.size} values); one for the whole tensor is supported")
    width = float(bits[0])
    if not (1 <= width <= WIDEST and width == int(width)):
        raise node.error(f"its {what} is {width:g}; whole numbers from 1 to {WIDEST} are accepted")
    return int(width)


def _zero_point(node: Node, x: Operand, position: int = 2) -> Array:
    zero = node.frame_parameter(node.constant(position, "zero point"), _shape(node, x), "its zero point")
    zero = zero.astype(np.float32)
    if not (np.array_equal(zero, np.rint(zero)) and np.all(np.abs(zero) <= 2.0**WIDEST)):
        raise node.error(f"its zero point must be a whole number of at most {WIDEST} bits")
    return zero


def _bounds(node: Node, signed: bool, narrow: bool, bits: int) -> tuple[int, int]:
    """Smallest and largest code, as QONNX defines them."""
    if narrow and bits == 1:
        raise node.error("a narrow range needs at least 2 bits")
    if signed:
        return -(2 ** (bits - 1)) + int(narrow), 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - int(narrow)


def _rounding(node: Node, default: str) -> str:
    mode = node.text("rounding_mode", default).upper()
    try:
        rounding_function(mode)
    except Exception as error:
        raise node.error(str(error)) from error
    return mode


@imports("Quant", "IntQuant", domain=QONNX, constants=True, ignores=("narrow", "rounding_mode"))  # unread at 1 bit
def quant(node: Node) -> Sequence[Operand]:
    """QONNX Quant; signed with one bit means bipolar, as in qonnx itself."""
    x = node.operand(0)
    scale, zero, bits = _scale(node, x), _zero_point(node, x), _bits(node, 3)
    signed = bool(node.integer("signed", 1))
    rounding = _rounding(node, "ROUND")
    if signed and bits == 1:
        if np.any(zero):
            raise node.unsupported("a signed 1-bit quantizer with a zero point")
        return [_apply(node, BipolarQuant(scale), x)]
    lo, hi = _bounds(node, signed, bool(node.integer("narrow", 0)), bits)
    return [_apply(node, IntQuant(scale, zero, lo, hi, rounding), x)]


@imports("BipolarQuant", domain=QONNX, constants=True)
def bipolar_quant(node: Node) -> Sequence[Operand]:
    """Sign, with zero as +1."""
    x = node.operand(0)
    return [_apply(node, BipolarQuant(_scale(node, x)), x)]


@imports("Trunc", domain=QONNX, constants=True, ignores=("narrow", "signed"))  # unread in its first version
def trunc(node: Node) -> Sequence[Operand]:
    """QONNX Trunc in both versions: five inputs, or six with an output scale."""
    x = node.operand(0)
    scale = _scale(node, x)
    if np.any(_zero_point(node, x)):
        raise node.unsupported("Trunc with a zero point")
    if len(node.inputs) >= 6:
        out_scale = _scale(node, x, 4)
        ratio = np.unique(np.rint(np.log2(out_scale / scale)))
        if ratio.size != 1:
            raise node.unsupported("Trunc with a different shift per channel")
        narrow, signed = bool(node.integer("narrow", 0)), bool(node.integer("signed", 1))
        lo, hi = _bounds(node, signed, narrow, _bits(node, 5, "output bit width"))
        return [_apply(node, Trunc(scale, int(ratio[0]), out_scale, _rounding(node, "FLOOR"), lo, hi), x)]
    shift = _bits(node, 3, "input bit width") - _bits(node, 4, "output bit width")
    return [_apply(node, Trunc(scale, shift, scale, _rounding(node, "FLOOR")), x)]


@imports("MultiThreshold", domain=QONNX, ignores=("out_dtype",))
def multi_threshold(node: Node) -> Sequence[Operand]:
    """FINN's thresholds: out_scale * count + out_bias."""
    x = node.value(0)
    shape = node.shape(x)
    thresholds = node.constant(1, "thresholds").astype(np.float64)
    if np.any(np.isnan(thresholds)):
        raise node.error("its thresholds hold NaN")
    layout = node.text("data_layout", "") or {2: "NWC"}.get(len(shape), "NC")
    axis = frame_axis(node, layout.index("C") if "C" in layout else 1, len(shape))
    if thresholds.ndim != 2 or thresholds.shape[0] not in (1, shape[axis]):
        raise node.error(
            f"its thresholds have shape {list(thresholds.shape)}, but its input has {shape[axis]} channels"
        )
    ends = np.array([node.number("out_scale", 1.0), node.number("out_bias", 0.0)])
    if not ends[0]:
        raise node.error("its out_scale is 0")
    thresholds = np.sort(thresholds, axis=1)
    grid = common_grid(ends, WIDEST_OFFSET)
    if grid is None:
        sign = 1 if ends[0] > 0 else -1
        return [node.add(MultiThreshold(thresholds, abs(ends[0]), sign, 0, axis, len(shape), ends[1]), x)]
    unit, (multiple, offset) = grid[0], grid[1].tolist()
    return [node.add(MultiThreshold(thresholds, unit, multiple, offset, axis, len(shape)), x)]


# -- QDQ ------------------------------------------------------------------------------------------------------------

INTEGERS: dict[int, tuple[int, int]] = {
    onnx.TensorProto.UINT8: (0, 255),
    onnx.TensorProto.INT8: (-128, 127),
    onnx.TensorProto.UINT16: (0, 65535),
    onnx.TensorProto.INT16: (-32768, 32767),
    onnx.TensorProto.INT32: (-(2**31), 2**31 - 1),
    onnx.TensorProto.UINT4: (0, 15),
    onnx.TensorProto.INT4: (-8, 7),
}
if hasattr(onnx.TensorProto, "INT2"):  # since onnx 1.20
    INTEGERS |= {onnx.TensorProto.UINT2: (0, 3), onnx.TensorProto.INT2: (-2, 1)}


def _along_axis(node: Node, array: Array, x: Operand, default_axis: int, what: str) -> Array:
    """A per-axis parameter of QuantizeLinear or DequantizeLinear in the shape that broadcasts against *x*."""
    flat = np.asarray(array)
    shape = _shape(node, x)
    if flat.size == 1:
        return flat.reshape((1,) * len(shape))
    axis = node.integer("axis", default_axis)
    if isinstance(x, Constant):
        if not -len(shape) <= axis < len(shape):
            raise node.error(f"axis {axis} is out of range for a tensor of rank {len(shape)}")
        axis %= len(shape)
    else:
        axis = frame_axis(node, axis, len(shape))
    if flat.ndim != 1 or flat.size != shape[axis]:
        raise node.error(
            f"its {what} has {flat.size} entries, but axis {node.integer('axis', default_axis)} of its input has "
            f"size {shape[axis]}"
        )
    view = [1] * len(shape)
    view[axis] = -1
    return flat.reshape(view)


def _qdq_parameters(node: Node, x: Operand) -> tuple[Array, Array, int]:
    """Scale, zero point and ONNX element type of the integer side."""
    if node.integer("block_size", 0):
        raise node.unsupported("block quantization")
    scale = _along_axis(node, node.constant(1, "scale"), x, 1, "scale").astype(np.float32)
    if not np.all(np.isfinite(scale)) or np.any(scale <= 0):
        raise node.error("its scale must be finite and positive")
    kind = node.integer("output_dtype", onnx.TensorProto.UNDEFINED)
    if not node.has(2):
        return scale, np.zeros((1,) * scale.ndim, np.float32), kind
    zero = node.constant(2, "zero point")
    own = onnx.helper.np_dtype_to_tensor_dtype(zero.dtype)
    if node.proto.op_type == "QuantizeLinear" and kind not in (onnx.TensorProto.UNDEFINED, own):
        raise node.error("its output_dtype contradicts the type of its zero point")
    return scale, _along_axis(node, zero.astype(np.float32), x, 1, "zero point"), own


@imports("QuantizeLinear", domain=MICROSOFT, constants=True, ignores=("axis",))
@imports("QuantizeLinear", constants=True, ignores=("axis", "saturate"))  # per tensor; of float8 types
def quantize_linear(node: Node) -> Sequence[Operand]:
    """Real to integer codes; the codes are what the next operator reads."""
    x = node.operand(0)
    scale, zero, kind = _qdq_parameters(node, x)
    if node.integer("precision", 0) not in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.FLOAT):
        raise node.unsupported("a precision other than float32")
    kind = kind or onnx.TensorProto.UINT8
    if kind not in INTEGERS:
        raise node.unsupported("quantization to a type that is not an integer")
    lo, hi = INTEGERS[kind]
    return [_apply(node, RawCodes(scale, zero, lo, hi), x)]


@imports("DequantizeLinear", domain=MICROSOFT, constants=True, ignores=("axis",))
@imports("DequantizeLinear", constants=True, ignores=("axis",))
def dequantize_linear(node: Node) -> Sequence[Operand]:
    """``(code - zero_point) * scale``."""
    x = node.operand(0)
    scale, zero, _ = _qdq_parameters(node, x)
    if isinstance(x, Constant):
        q = x.value.astype(np.int64) - zero.astype(np.int64)
        value = q.astype(np.float32) * scale
        doubles = compact(scale.astype(np.float64))
        return [Constant(value, Grid(q, doubles, np.zeros((1,) * q.ndim)))]
    if np.any(zero):
        x = node.add(Add(-zero.astype(np.float64)), x, suffix="zero")
    return [node.add(Mul(scale.astype(np.float64)), x)]
