"""Damaged and malicious model files: valid ones with bytes or fields changed, each determined by a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

NAMES = (
    "",
    "../../../../etc/passwd",
    "/dev/null",
    "C:\\nul",
    "a\x00b",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned #",
    "x' || touch pwned || '",
    "endmodule\nmodule evil",
    '"); $system("touch pwned"); //',
    '`include "/etc/passwd"',
    "*/ #include </etc/passwd> /*",
    "{{ 7*7 }}{% for x in y %}",
    "{{ cycler.__init__.__globals__.os.popen('touch pwned') }}",
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "[exec touch pwned] {$env(HOME)}",
    '\\", "evil": {"a": 1}, "',
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnp.exe",
    "\u0430dder",
    "\U0001f680\u0301",
    "%s%n{0.__class__}",
    "n" * 20_000,
    "module",
    "x",
)
"""Text that means something to a file system, shell, template, language or terminal, and text that is no name."""

INTEGERS = (0, -1, 1, 2, -2, 3, 7, 127, 128, -128, 255, 2**15, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, -(2**63))
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e-45, 3e-39, 3.4e38, 2.0**-126, 1e10)

Mutation = Callable[[np.random.Generator, onnx.ModelProto], None]


def mutated(seed: int, models: Sequence[bytes]) -> bytes:
    """A mutation of one of *models*: of its bytes for every third seed, of its fields otherwise."""
    rng = np.random.default_rng(seed)
    data = models[int(rng.integers(len(models)))]
    if seed % 3 == 0:
        return _bytes_changed(rng, data, models)
    model = onnx.ModelProto.FromString(data)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3, 8]))):
        if model.graph.node:
            _pick(rng, MUTATIONS)(rng, model)
    return bytes(model.SerializeToString(deterministic=True))


def _pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


# -- bytes ------------------------------------------------------------------------------------------------------------


def _bytes_changed(rng: np.random.Generator, data: bytes, models: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    kind = int(rng.integers(6))
    place = int(rng.integers(len(changed)))
    if kind == 0:
        del changed[place:]
    elif kind == 1:
        del changed[place : place + int(rng.integers(1, 60))]
    elif kind == 2:
        other = _pick(rng, models)
        start = int(rng.integers(len(other)))
        changed[place : place + int(rng.integers(60))] = other[start : start + int(rng.integers(1, 200))]
    elif kind == 3:
        changed[place:place] = changed[place : place + int(rng.integers(1, 200))]
    else:
        for _ in range(1 if kind == 4 else int(rng.integers(2, 12))):
            place = int(rng.integers(len(changed)))
            changed[place] = int(rng.integers(256)) if rng.random() < 0.5 else changed[place] ^ (1 << rng.integers(8))
    return bytes(changed)


# -- fields -----------------------------------------------------------------------------------------------------------


def _tensors(model: onnx.ModelProto) -> list[TensorProto]:
    inside = [a.t for n in model.graph.node for a in n.attribute if a.type == AttributeProto.TENSOR]
    return [*model.graph.initializer, *inside]


def _attributes(model: onnx.ModelProto) -> list[AttributeProto]:
    return [a for n in model.graph.node for a in n.attribute]


def _all_names(model: onnx.ModelProto) -> list[str]:
    return [name for n in model.graph.node for name in (*n.input, *n.output)] + [
        t.name for t in model.graph.initializer
    ]


def _rename_node(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    _pick(rng, model.graph.node).name = _pick(rng, NAMES)


def _rename_all(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    """Every tensor and node under a hostile name; the graph stays the same."""
    known: dict[str, str] = {"": ""}
    for k, name in enumerate(_all_names(model) + [v.name for v in (*model.graph.input, *model.graph.output)]):
        known.setdefault(name, f"{NAMES[(k + 1) % len(NAMES)]}{k if k >= len(NAMES) else ''}" or "e")
    for n in model.graph.node:
        n.name = _pick(rng, NAMES)
        n.input[:] = [known[name] for name in n.input]
        n.output[:] = [known[name] for name in n.output]
    for named in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        named.name = known[named.name]
    model.graph.name = _pick(rng, NAMES)


def _rewire(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    n = _pick(rng, model.graph.node)
    ends = n.input if rng.random() < 0.7 else n.output
    if ends:
        ends[int(rng.integers(len(ends)))] = _pick(rng, [*_all_names(model), "", "nowhere"])


def _arity(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    n = _pick(rng, model.graph.node)
    ends = n.input if rng.random() < 0.7 else n.output
    if rng.random() < 0.5 and ends:
        del ends[int(rng.integers(len(ends))) :]
    else:
        ends.append(_pick(rng, _all_names(model)))


def _operator(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    n = _pick(rng, model.graph.node)
    if rng.random() < 0.5:
        other = _pick(rng, model.graph.node)
        n.op_type, n.domain = other.op_type, other.domain
    else:
        n.op_type, n.domain = _pick(rng, _OPERATORS.split()), ""


def _node(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    place = int(rng.integers(len(model.graph.node)))
    kind = rng.random()
    if kind < 0.4:
        del model.graph.node[place]
    elif kind < 0.7:
        model.graph.node.append(model.graph.node[place])
    else:
        nodes = list(model.graph.node)
        del model.graph.node[:]
        model.graph.node.extend(nodes[k] for k in rng.permutation(len(nodes)))


def _drop_attribute(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    n = _pick(rng, model.graph.node)
    if n.attribute:
        del n.attribute[int(rng.integers(len(n.attribute)))]


def _change_attribute(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    if not (found := _attributes(model)):
        return
    a = _pick(rng, found)
    kind = rng.random()
    if kind < 0.15:
        a.type = int(rng.integers(16)) % 15
    elif kind < 0.25:
        a.name = _pick(rng, NAMES)
    elif a.type == AttributeProto.INT:
        a.i = _pick(rng, INTEGERS)
    elif a.type == AttributeProto.FLOAT:
        a.f = _pick(rng, NUMBERS)
    elif a.type == AttributeProto.STRING:
        a.s = _pick(rng, (b"", b"\xff\xfe", b"ROUND", b"NHWC", _pick(rng, NAMES).encode()))
    elif a.type == AttributeProto.INTS:
        _change_list(rng, a.ints, INTEGERS)
    elif a.type == AttributeProto.FLOATS:
        _change_list(rng, a.floats, NUMBERS)


def _add_attribute(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    if found := _attributes(model):
        _pick(rng, model.graph.node).attribute.append(_pick(rng, found))


def _change_list(rng: np.random.Generator, values: Any, options: Sequence[Any]) -> None:
    kind = rng.random()
    if kind < 0.3 or not values:
        values.append(_pick(rng, options))
    elif kind < 0.5:
        del values[int(rng.integers(len(values))) :]
    else:
        values[int(rng.integers(len(values)))] = _pick(rng, options)


def _dims(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    if not (found := _tensors(model)):
        return
    tensor = _pick(rng, found)
    if rng.random() < 0.3 and tensor.dims:  # a shape that still fits the data
        size = int(np.prod([abs(n) % 2**20 for n in tensor.dims]))
        tensor.dims[:] = _pick(rng, ([size], [1, size], [size, 1], [1, 1, size, 1], [1] * 70 + [size]))
    else:
        _change_list(rng, tensor.dims, INTEGERS)


def _values(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    found = [t for t in _tensors(model) if t.raw_data or t.float_data or t.int32_data or t.int64_data]
    if not found:
        return
    tensor = _pick(rng, found)
    try:
        array = np.array(onnx.numpy_helper.to_array(tensor))
    except Exception:
        return
    if array.size == 0 or array.dtype.kind not in "fiu":
        return
    options = NUMBERS if array.dtype.kind == "f" else INTEGERS
    with np.errstate(all="ignore"):
        value = np.asarray(_pick(rng, options)).astype(array.dtype)
    if rng.random() < 0.5:
        array[...] = value
    else:
        array.reshape(-1)[int(rng.integers(array.size))] = value
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _type(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    if rng.random() < 0.6 and (found := _tensors(model)):
        _pick(rng, found).data_type = int(rng.integers(30))
    else:
        ends = [*model.graph.input, *model.graph.output]
        if ends:
            _pick(rng, ends).type.tensor_type.elem_type = int(rng.integers(30))


def _data(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    if not (found := _tensors(model)):
        return
    tensor = _pick(rng, found)
    kind = rng.random()
    if kind < 0.4:
        tensor.raw_data = tensor.raw_data[: int(rng.integers(1 + len(tensor.raw_data)))]
    elif kind < 0.6:
        tensor.raw_data += b"\x01" * int(rng.integers(1, 40))
    elif kind < 0.8:
        tensor.ClearField("raw_data")
    else:
        tensor.data_location = TensorProto.EXTERNAL
        for key, options in (("location", PLACES), ("offset", INTEGERS), ("length", INTEGERS)):
            if rng.random() < 0.7:
                tensor.external_data.add(key=key, value=str(_pick(rng, options)))


def _shape(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    ends = [*model.graph.input, *model.graph.output]
    if not ends:
        return
    dims = _pick(rng, ends).type.tensor_type.shape.dim
    if dims and rng.random() < 0.7:
        _pick(rng, dims).dim_value = _pick(rng, INTEGERS)
    elif dims and rng.random() < 0.5:
        del dims[int(rng.integers(len(dims))) :]
    else:
        dims.add().dim_value = _pick(rng, INTEGERS)


def _ends(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    ends = model.graph.input if rng.random() < 0.5 else model.graph.output
    if rng.random() < 0.4 and ends:
        del ends[int(rng.integers(len(ends)))]
    elif ends:
        ends.append(_pick(rng, ends))
        if rng.random() < 0.7:
            ends[-1].name = _pick(rng, [*_all_names(model), *NAMES])


def _initializer(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    found = model.graph.initializer
    if found and rng.random() < 0.5:
        del found[int(rng.integers(len(found)))]
    elif found:
        found.append(_pick(rng, found))
        found[-1].name = _pick(rng, [*_all_names(model), *NAMES])


def _opset(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    if not model.opset_import or rng.random() < 0.2:
        del model.opset_import[:]
    else:
        _pick(rng, model.opset_import).version = _pick(rng, (*INTEGERS, 9, 10, 11, 13, 18, 21))


def _random_field(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    """Any field of any message inside, cleared."""
    message = _pick(rng, list(_messages(model)))
    if present := message.ListFields():
        message.ClearField(_pick(rng, present)[0].name)


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _messages(inner)


MUTATIONS: tuple[Mutation, ...] = (
    *(_rename_node, _rename_all, _rewire, _arity, _operator, _node, _drop_attribute, _change_attribute),
    *(_change_attribute, _add_attribute, _dims, _values, _values, _type, _data, _shape, _ends, _initializer, _opset),
    _random_field,
)

PLACES = ("", "../secret", "/etc/passwd", "/dev/zero", "sub/../../secret", "model.onnx", ".", "a\x00b", "~/x")

_OPERATORS = """
ConstantOfShape Expand Tile Range Resize Pad OneHot EyeLike Loop If Scan Constant Upsample Gather Reshape Conv MatMul
Gemm BatchNormalization MaxPool AveragePool GlobalAveragePool Transpose Concat Split Slice Relu Sigmoid Softmax Add Mul
Div Sub Pow Clip ArgMax TopK Flatten Squeeze Unsqueeze Identity Dropout Cast QuantizeLinear DequantizeLinear QLinearConv
QLinearMatMul ConvTranspose DepthToSpace ReduceMean ReduceSum Where Erf LayerNormalization LSTM Einsum NonZero Unique
StringSplit SequenceConstruct Optional
"""
