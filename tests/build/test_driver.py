"""The driver for a board, with a DMA that is not there: what it sends is what the hardware reads, and back."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from models import quantized_mlp
from module_files import module_of
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import headrace
from headrace.build.verify import random_frames
from headrace.resources import hls_templates
from headrace_sim.manifest import load
from headrace_sim.packing import pack, unpack


def image_model() -> onnx.ModelProto:
    """A quantized image through a 1x1 convolution: its stream has the channels last."""
    rng = np.random.default_rng(0)
    numbers = {"s": 0.25, "z": 0.0, "b": 3.0, "w": rng.integers(-3, 4, (4, 2, 1, 1)) * 0.25}
    constants = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in numbers.items()]
    nodes = [
        helper.make_node("Quant", ["x", "s", "z", "b"], ["q"], "q", domain="qonnx.custom_op.general", signed=1),
        helper.make_node("Quant", ["w", "s", "z", "b"], ["wq"], "wq", domain="qonnx.custom_op.general", signed=1),
        helper.make_node("Conv", ["q", "wq"], ["y"], "conv"),
    ]
    ends = [
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 3, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4, 3, 5])],
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("qonnx.custom_op.general", 1)]
    return helper.make_model(helper.make_graph(nodes, "image", *ends, constants), opset_imports=opsets, ir_version=9)


def bipolar_model() -> onnx.ModelProto:
    model = quantized_mlp((12, 8, 5), 3, seed=1)
    constants = numpy_helper.from_array(np.float32(0.5), "bipolar_scale")
    model.graph.initializer.append(constants)
    first = model.graph.node[0]
    binary = helper.make_node("BipolarQuant", ["x", "bipolar_scale"], [first.output[0]], "bip", domain=first.domain)
    first.CopyFrom(binary)
    return model


class FakeDma:
    """Both channels of a DMA in front of the arithmetic of a design; the words are those of the simulator.

    Memory holds words in whole beats, and before the first frame how many there are.
    """

    def __init__(self, folder: Path) -> None:
        self.design, self.manifest = headrace.load(folder), load(folder)
        self.sendchannel = SimpleNamespace(transfer=self.send, wait=lambda: None)
        self.recvchannel = SimpleNamespace(transfer=self.receive, wait=lambda: None)
        self.beats = [s["beat_bytes"] for side in ("inputs", "outputs") for s in self.table(folder)[side]]
        self.place: NDArray[np.uint8] | None = None

    @staticmethod
    def table(folder: Path) -> Any:
        return json.loads((folder / "driver" / "io.json").read_text())

    def receive(self, buffer: NDArray[np.uint8]) -> None:
        self.place = buffer

    def send(self, data: NDArray[np.uint8]) -> None:
        assert self.place is not None, "nobody is ready to receive"
        (source,), (target,) = self.manifest.inputs, self.manifest.outputs
        head = max(4, self.beats[0])
        rows = data[head:].reshape(-1, -(-source.word_bytes // self.beats[0]) * self.beats[0])
        assert not rows[:, source.word_bytes :].any()
        stream = unpack(np.ascontiguousarray(rows[:, : source.word_bytes]), source)
        assert len(stream) == int.from_bytes(data[:4].tobytes(), "little")
        hardware = self.design.hardware
        (port,), (out,) = hardware.inputs, hardware.outputs
        outputs = hardware.run({port.name: port.layout.unpack(stream)})
        words = pack(out.layout.pack(outputs[out.name]).reshape(len(stream), -1), target).reshape(-1, target.word_bytes)
        room = self.place.reshape(len(words), -1)
        room[:, : target.word_bytes] = words


@pytest.mark.parametrize("make", [lambda: quantized_mlp((12, 8, 5), 3, seed=1), bipolar_model, image_model])
def test_what_is_sent_is_what_the_hardware_reads(make: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    steps = [*headrace.build.hw_codegen_dataflow_steps, "step_make_driver", "step_deployment_package"]
    outputs = ["pynq_driver", "deployment_package"]
    design = headrace.build(make(), out, steps=steps, target_fps=1e6, generate_outputs=outputs)
    assert sorted(path.name for path in (out / "deploy" / "driver").iterdir()) == ["driver.py", "io.json"]
    accelerator = module_of(out / "driver" / "driver.py").Accelerator(
        overlay=SimpleNamespace(axi_dma_0=FakeDma(out)), allocate=lambda shape, dtype: np.empty(shape, dtype)
    )
    feeds = random_frames(design.source, 9, seed=3)
    core = {name: design.core_feeds(feeds)[name] for name in (port.name for port in design.hardware.inputs)}
    got = accelerator.execute(core)
    expected = design.hardware.run(core)
    assert got.keys() == expected.keys()
    assert all(np.array_equal(got[name], expected[name]) for name in expected)
    with pytest.raises(ValueError, match="values must be integers"):
        accelerator.execute({name: values - 0.5 * (values > 0) for name, values in core.items()})
    ((name, values),) = core.items()
    with pytest.raises(ValueError, match="no array for input"):
        accelerator.execute({})
    with pytest.raises(ValueError, match="expected frames of shape"):
        accelerator.execute({name: values.reshape(len(values), -1)[:, :-1]})
    with pytest.raises(ValueError, match="values must be"):
        accelerator.execute({name: values + 100})
    table = json.loads((out / "driver" / "io.json").read_text())
    assert [len(table["inputs"]), len(table["outputs"])] == [1, 1]


@pytest.mark.parametrize("path", ["driver/driver.py", "board/host.py"])
def test_files_for_boards_are_of_old_pythons(path: str) -> None:
    """Images of PYNQ have Python 3.8: its grammar, nothing of later ones, no package but numpy and the board's own."""
    tree = ast.parse((hls_templates() / path).read_text(), feature_version=(3, 8))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not [c.lineno for c in calls if isinstance(c.func, ast.Name) and any(k.arg == "strict" for k in c.keywords)]
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {n.module if isinstance(n, ast.ImportFrom) else n.names[0].name for n in imports}
    own = {"numpy", "pynq", "serial", "driver"}
    assert {str(name).partition(".")[0] for name in names} - own <= sys.stdlib_module_names
