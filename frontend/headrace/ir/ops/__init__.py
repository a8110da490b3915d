"""Operators of the source graph, one family a file, each with type rule, canonical semantics and lowering."""

from headrace.ir.ops.base import SourceOp
from headrace.ir.ops.convolution import Conv, ConvTranspose
from headrace.ir.ops.elementwise import (
    Add,
    BatchNorm,
    Clip,
    Div,
    Elementwise,
    Limit,
    Mul,
    PRelu,
    Reciprocal,
    ThresholdedRelu,
)
from headrace.ir.ops.functions import Celu, Elu, Function, HardSigmoid, Power
from headrace.ir.ops.host import ToReal
from headrace.ir.ops.joins import AddTensors, Arithmetic, Join
from headrace.ir.ops.matmul import MatMul
from headrace.ir.ops.movement import Concat, Move
from headrace.ir.ops.offset import Offset
from headrace.ir.ops.padding import Pad
from headrace.ir.ops.pooling import AveragePool, MaxPool
from headrace.ir.ops.quantizers import BipolarQuant, Codes, IntQuant, MultiThreshold, Quantizer, RawCodes, Sign, Trunc
from headrace.ir.ops.select import TopK, TopValues

__all__ = [
    "Add",
    "AddTensors",
    "Arithmetic",
    "AveragePool",
    "BatchNorm",
    "BipolarQuant",
    "Celu",
    "Clip",
    "Codes",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Div",
    "Elementwise",
    "Elu",
    "Function",
    "HardSigmoid",
    "IntQuant",
    "Join",
    "Limit",
    "MatMul",
    "MaxPool",
    "Move",
    "Mul",
    "MultiThreshold",
    "Offset",
    "PRelu",
    "Pad",
    "Power",
    "Quantizer",
    "RawCodes",
    "Reciprocal",
    "Sign",
    "SourceOp",
    "ThresholdedRelu",
    "ToReal",
    "TopK",
    "TopValues",
    "Trunc",
]
