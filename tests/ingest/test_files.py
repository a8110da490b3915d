"""Files: missing, corrupt, with weights beside them, and never reading outside the model's folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from ingest.onnx_files import model, node
from onnx import TensorProto, helper, numpy_helper

from headrace.errors import HeadraceError, ModelError
from headrace.ingest import from_proto, load_onnx

W = np.arange(6, dtype=np.float32).reshape(3, 2)
X = np.float32([[1, 2, 3]])


def external(location: str, **entries: str) -> onnx.ModelProto:
    """A model whose weights lie in a file of their own."""
    proto = model([node("MatMul", ["x", "w"])], {"x": ["N", 3]})
    proto.graph.initializer.append(_external_tensor(location, entries))
    return proto


def _external_tensor(location: str, entries: dict[str, str]) -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, 2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def save(proto: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(proto.SerializeToString())
    return path


def test_a_model_from_a_file(tmp_path: Path) -> None:
    proto = model([node("MatMul", ["x", "w"])], {"x": ["N", 3]}, {"w": W})
    path = save(proto, tmp_path / "net.onnx")
    for name in (path, str(path)):
        source = load_onnx(name)
        assert source.file == str(path)
        assert source.run({"x": X})["y"].tolist() == (X @ W).tolist()


@pytest.mark.parametrize("folder", ["", "sub", "sub/deeper"])
def test_weights_beside_the_model(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / folder / "w.bin").write_bytes(b"\0" * 8 + W.tobytes())
    location = f"{folder}/w.bin" if folder else "w.bin"
    path = save(external(location, offset="8", length="24"), tmp_path / "net.onnx")
    assert load_onnx(path).run({"x": X})["y"].tolist() == (X @ W).tolist()


def test_weights_beside_a_model_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    save(external("w.bin"), tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    assert load_onnx("net.onnx").run({"x": X})["y"].tolist() == (X @ W).tolist()


@pytest.mark.parametrize("location", ["../w.bin", "sub/../../w.bin", "ABSOLUTE", "", ".", "link/w.bin", "file_link"])
def test_weights_outside_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    (folder / "link").symlink_to(tmp_path)
    (folder / "file_link").symlink_to(tmp_path / "w.bin")
    where = str(tmp_path / "w.bin") if location == "ABSOLUTE" else location
    path = save(external(where), folder / "net.onnx")
    with pytest.raises(ModelError, match=r"net\.onnx: external data .*'w'"):
        load_onnx(path)


def test_weights_of_constant_nodes_outside_the_folder(tmp_path: Path) -> None:
    """A tensor in an attribute is fetched like an initializer, so it is checked like one; in subgraphs, too."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(W.tobytes())
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    constant = helper.make_node("Constant", [], ["c"], "c")
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(_external_tensor("../w.bin", {}))
    outer = helper.make_node("If", ["x"], ["d"], "d")
    outer.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g.node.append(constant)
    for nodes in ([constant], [outer]):
        proto = external("w.bin")
        proto.graph.node.extend(nodes)
        with pytest.raises(ModelError, match="lies outside the model's folder"):
            load_onnx(save(proto, folder / "net.onnx"))


def test_weights_of_constant_nodes_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    constant = helper.make_node("Constant", [], ["w"], "c")
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(_external_tensor("w.bin", {}))
    proto = model([constant, node("MatMul", ["x", "w"])], {"x": ["N", 3]})
    assert load_onnx(save(proto, tmp_path / "net.onnx")).run({"x": X})["y"].tolist() == (X @ W).tolist()


@pytest.mark.parametrize(
    ("content", "entries"),
    [
        (None, {}),
        (b"1234", {}),
        (W.tobytes(), {"offset": "16", "length": "24"}),
        (W.tobytes(), {"offset": "-8"}),
        (W.tobytes(), {"offset": "999999"}),
        (W.tobytes(), {"length": "3"}),
        (W.tobytes(), {"offset": "x"}),
    ],
)
def test_weights_that_are_not_all_there(tmp_path: Path, content: bytes | None, entries: dict[str, str]) -> None:
    if content is not None:
        (tmp_path / "w.bin").write_bytes(content)
    path = save(external("w.bin", **entries), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match=r"net\.onnx: (external data|initializer 'w' cannot be read)"):
        load_onnx(path)


@pytest.mark.parametrize("offset", ["-8", "999999"])
def test_weights_outside_of_their_file(tmp_path: Path, offset: str) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    path = save(external("w.bin", offset=offset), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match=rf"\(from {offset} on, but 'w\.bin' has {W.nbytes} bytes\)"):
        load_onnx(path)


def test_external_weights_without_a_file() -> None:
    with pytest.raises(ModelError, match="the data of tensor 'w' lies in a file of its own; give the path"):
        from_proto(external("w.bin"))


@pytest.mark.parametrize("name", ["missing.onnx", "folder"])
def test_no_such_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelError, match=r"(no such file|is a folder, .*); expected an ONNX model"):
        load_onnx(tmp_path / name)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a model", b"\x00" * 100, b"\xff" * 100, b"PK\x03\x04" + b"x" * 50, b"<html></html>"],
    ids=repr,
)
def test_not_a_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"net\.onnx: not (an ONNX model|a readable ONNX file)"):
        load_onnx(path)


def _small() -> onnx.ModelProto:
    nodes = [
        node("Quant", ["x", "s", "z", "b"], ["q"], signed=1, narrow=0, rounding_mode="ROUND"),
        node("MatMul", ["q", "w"], ["m"]),
        node("Relu", ["m"], ["r"]),
        node("Reshape", ["r", "t"]),
    ]
    constants = {"s": 0.5, "z": 0.0, "b": 4.0, "w": W, "t": np.array([-1, 2, 1])}
    return model(nodes, {"x": ["N", 3]}, constants)


def test_truncated_files(tmp_path: Path) -> None:
    """Cut anywhere, a file is refused in a sentence, or what is left of it happens to be a model."""
    data = _small().SerializeToString()
    path = tmp_path / "net.onnx"
    refused = 0
    for length in range(0, len(data), 3):
        path.write_bytes(data[:length])
        try:
            load_onnx(path)
        except HeadraceError:
            refused += 1
    assert refused > len(data) // 6


def test_damaged_files(tmp_path: Path) -> None:
    """Whatever bytes change, nothing but a sentence comes out."""
    data = bytearray(_small().SerializeToString())
    path = tmp_path / "net.onnx"
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(600):
        damaged = bytearray(data)
        for position in rng.integers(0, len(data), int(rng.integers(1, 4))):
            damaged[position] = int(rng.integers(256))
        path.write_bytes(bytes(damaged))
        try:
            load_onnx(path)
        except HeadraceError:
            refused += 1
    assert refused > 100


@pytest.mark.filterwarnings("ignore:The onnxtxt format")
def test_text_models_are_read_by_their_extension(tmp_path: Path) -> None:
    proto = model([node("MatMul", ["x", "w"])], {"x": ["N", 3]}, {"w": W})
    onnx.save(proto, str(tmp_path / "net.onnxtxt"))
    assert load_onnx(tmp_path / "net.onnxtxt").run({"x": X})["y"].tolist() == (X @ W).tolist()
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match=r"bad\.json: not a readable ONNX file"):
        load_onnx(tmp_path / "bad.json")


def test_half_precision_and_small_integer_weights(tmp_path: Path) -> None:
    for array in (W.astype(np.float16), W.astype(np.float64)):
        proto = model([node("MatMul", ["x", "w"])], {"x": ["N", 3]})
        proto.graph.initializer.append(numpy_helper.from_array(array, "w"))
        assert load_onnx(save(proto, tmp_path / "net.onnx")).run({"x": X})["y"].tolist() == (X @ W).tolist()
