"""Files other than models, damaged and malicious: settings, foldings, arrays, graphs, sweeps, what a build keeps."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.mutations import NAMES

import headrace
from headrace.build.arrays import read_array, read_arrays
from headrace.build.config import read_config, read_finn_config
from headrace.build.project import write_project
from headrace.build.report import renewed_report
from headrace.errors import HeadraceError
from headrace.explore.point import Result
from headrace.explore.sweep import read_sweep
from headrace.ir import Graph
from headrace.schedule import read_folding
from headrace.synth.results import read_synthesis
from headrace_sim import SimError, read_vectors
from headrace_sim.manifest import load as load_manifest

DEEP = "[" * 200_000
LEAVES = (None, True, -1, 0, 2**63, 1e308, float("nan"), "", "x" * 5000, [], {}, [[]], {"a": 1}, *NAMES[:22])


def changed(rng: np.random.Generator, value: Any) -> Any:
    """*value* of JSON with one part replaced, left out, or put in twice."""
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = keys[int(rng.integers(len(keys)))]
        copy = value.copy()
        kind = rng.random()
        if kind < 0.15:
            del copy[key]
        elif kind < 0.25 and isinstance(copy, dict):
            copy[NAMES[int(rng.integers(1, 22))]] = copy[key]
        else:
            copy[key] = changed(rng, copy[key])
        return copy
    return LEAVES[int(rng.integers(len(LEAVES)))]


def bytes_changed(rng: np.random.Generator, data: bytes) -> bytes:
    copy = bytearray(data)
    if rng.random() < 0.3:
        return bytes(copy[: int(rng.integers(len(copy)))])
    for _ in range(int(rng.integers(1, 6))):
        copy[int(rng.integers(len(copy)))] = int(rng.integers(256))
    return bytes(copy)


def accepted(read: Callable[[], object]) -> bool:
    """Whether *read* returns; what it refuses must be one sentence."""
    try:
        read()
    except (HeadraceError, SimError) as error:
        text = str(error)
    else:
        return True
    assert text.strip()
    assert len(text) < 20_000
    assert "\n" not in text
    return False


# -- JSON -------------------------------------------------------------------------------------------------------------

TEXTS = ("", "nul", "[1]", "3", '"x"', DEEP, '{"a":' * 100_000, "9" * 6000, "\x00", '{"seed": ' + "9" * 6000 + "}")
READERS: dict[str, Callable[[Path], object]] = {
    "settings": read_config,
    "FINN's settings": read_finn_config,
    "folding": read_folding,
    "manifest": load_manifest,
    "sweep": read_sweep,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:12]))
def test_what_is_no_object(reader: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    assert not accepted(lambda: READERS[reader](path))


@pytest.fixture(scope="module")
def built(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "out"
    headrace.build(tiny_model, folder)
    return folder


def test_changed_settings(built: Path, tmp_path: Path) -> None:
    good = json.loads((built / "build.json").read_text(encoding="utf-8"))
    path = tmp_path / "build.json"
    taken = 0
    for seed in range(300):
        path.write_text(json.dumps(changed(np.random.default_rng(seed), good)), encoding="utf-8")
        taken += accepted(lambda: (read_config(path), read_finn_config(path)))
    assert taken < 300


@pytest.mark.parametrize("name", ["build.json", "folding.json", "design.json", "report/report.json"])
def test_changed_files_of_a_build(name: str, built: Path, tmp_path: Path) -> None:
    """A build opens, or says which of its files does not fit."""
    folder = tmp_path / "out"
    shutil.copytree(built, folder)
    path = folder / name
    good = json.loads(path.read_text(encoding="utf-8"))
    texts = [json.dumps(changed(np.random.default_rng(seed), good)) for seed in range(25)]
    for text in [*texts, DEEP, "", "[]"]:
        path.write_text(text, encoding="utf-8")

        def use() -> None:
            design = headrace.load(folder)
            renewed_report(design, folder)
            load_manifest(folder)

        accepted(use)


def test_changed_checkpoints(built: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(built, folder)
    path = max((folder / "intermediate_models").glob("*.json"), key=lambda p: p.stat().st_mtime_ns)
    step, good = path.stem, json.loads(path.read_text(encoding="utf-8"))
    steps = [p.stem for p in (folder / "intermediate_models").glob("*.json")]
    assert step in steps
    from headrace.build.checkpoint import restore
    from headrace.build.config import BuildConfig
    from headrace.build.journal import Journal

    for seed in range(40):
        path.write_text(json.dumps(changed(np.random.default_rng(seed), good)), encoding="utf-8")
        accepted(lambda: restore(folder, step, BuildConfig(), Journal(), folder))


def test_changed_results() -> None:
    """A kept result is one of the right types, or none."""
    good = json.loads(Result("k", "m", {"seed": "1"}, {"lut": 3, "fps": 2.5}, True, "fc0").to_json())
    taken = 0
    for seed in range(200):
        try:
            found = Result.from_json(json.dumps(changed(np.random.default_rng(seed), good)))
        except ValueError:
            continue
        taken += 1
        assert all(isinstance(v, int | float) for v in found.measures.values())
        assert isinstance(found.error + found.bottleneck + found.model + found.key, str)
    assert 0 < taken < 200
    with pytest.raises(ValueError, match="recursion"):
        Result.from_json(DEEP)


def test_changed_syntheses(tmp_path: Path) -> None:
    unit = {"name": "a", "kind": "MVAU", "used": {"lut": 3}, "fmax_mhz": None, "error": "", "seconds": 1.0}
    good = {"family": "xc7", "tool": "yosys", "digest": "0", "whole": True, "units": [unit]}
    from headrace.synth.results import FILE

    path = tmp_path / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(good), encoding="utf-8")
    assert accepted(lambda: read_synthesis(tmp_path))
    for seed in range(200):
        path.write_text(json.dumps(changed(np.random.default_rng(seed), good)), encoding="utf-8")
        accepted(lambda: (found := read_synthesis(tmp_path)) and found.json())
    path.write_text(DEEP, encoding="utf-8")
    assert not accepted(lambda: read_synthesis(tmp_path))


# -- YAML -------------------------------------------------------------------------------------------------------------

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 12)
)
SWEEPS = {
    "aliases": f"{LAUGHS}settings: {{seed: *a11}}\n",
    "cycle": "settings: &a {seed: [*a]}\n",
    "deep": "settings: " + "[" * 5000,
    "date": "settings: {seed: 2001-99-99}\n",
    "object": "settings: !!python/object/apply:os.system ['touch pwned']\n",
    "product": "settings: {seed: %s, target_fps: %s, mvau_wwidth_max: %s}\n" % ((list(range(1, 100)),) * 3),
    "keys": "{? [a, b] : c}\n",
    "null": "models: {a: \"x\\0y\"}\nsettings: {seed: [1]}\nfamily: 'x\n\n'",
}


@pytest.mark.parametrize("case", SWEEPS)
def test_sweeps(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEPS[case], encoding="utf-8")
    assert not accepted(lambda: list(read_sweep(path).combinations()))
    assert [p.name for p in tmp_path.iterdir()] == ["sweep.yaml"]


# -- arrays and graphs ------------------------------------------------------------------------------------------------


def header(shape: str, kind: str = "<f4") -> bytes:
    """A file of one array that says it is of *shape*, and holds four bytes."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"\0" * 4


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return buffer.getvalue()


def pickled() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def good_arrays() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{"input:x": np.arange(12).reshape(3, 4), "expected:y": np.zeros((3, 1), np.int8)})
    return buffer.getvalue()


SHAPES = (
    "(1099511627776,)",
    "(4611686018427387904,)",
    "(2, -3)",
    "(99999999,)",
    "(1,) * 3",
    "'x'",
    "(" * 300,
    "(2**40,)",
)
ARRAYS = {
    **{f"shape {k}": header(shape) for k, shape in enumerate(SHAPES)},
    "objects": header("(1,)", "|O"),
    "unknown type": header("(1,)", "<q9"),
    "pickled": pickled(),
    "empty": b"",
    "start": b"\x93NUMPY",
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays(case: str, tmp_path: Path) -> None:
    single, several = tmp_path / "x.npy", tmp_path / "x.npz"
    single.write_bytes(ARRAYS[case])
    several.write_bytes(archive(**{"input:x.npy": ARRAYS[case], "expected:y.npy": ARRAYS[case]}))
    assert not accepted(lambda: read_array(single))
    assert not accepted(lambda: {n: a.shape for n, a in read_arrays(several).items()}["x"])
    assert not accepted(lambda: read_vectors(several))


def test_packed_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros, far more than their file has bytes."""
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros(2**20))
    assert accepted(lambda: read_arrays(path))
    monkeypatch.setattr("headrace.build.arrays.UNPACKED", 2**20)
    assert not accepted(lambda: read_arrays(path))


def test_damaged_arrays(tmp_path: Path) -> None:
    path, good = tmp_path / "x.npz", good_arrays()
    for seed in range(300):
        path.write_bytes(bytes_changed(np.random.default_rng(seed), good))
        accepted(lambda: read_arrays(path))
        accepted(lambda: read_vectors(path))


def test_damaged_graphs(tmp_path: Path, tiny_model: Path) -> None:
    path = tmp_path / "g.graph"
    design = headrace.load(tiny_model)
    design.integer.graph.save(path)
    good = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    text = json.loads(members["graph.json"])

    def written(**more: bytes) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
            for name, data in {**members, **more}.items():
                file.writestr(name, data)

    for seed in range(150):
        rng = np.random.default_rng(seed)
        path.write_bytes(bytes_changed(rng, good))
        accepted(lambda: Graph.load(path))
        written(**{"graph.json": json.dumps(changed(rng, text)).encode()})
        accepted(lambda: Graph.load(path))
    for data in ARRAYS.values():
        written(**{"arrays/0.npy": data})
        assert not accepted(lambda: Graph.load(path))
    written(**{"graph.json": DEEP.encode()})
    assert not accepted(lambda: Graph.load(path))
    written(**{"../../evil": b"x", "/etc/evil": b"x"})
    assert accepted(lambda: Graph.load(path))
    assert [p.name for p in tmp_path.iterdir()] == ["g.graph"]


# -- projects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in NAMES[1:24] if "\0" not in n], ids=lambda name: repr(name[:20]))
def test_names_of_projects(name: str, tmp_path: Path) -> None:
    """A project of any name is written into its own folder, or not at all."""
    parent = tmp_path / "a" / "b"
    parent.mkdir(parents=True)
    folder = parent / Path(name.replace("/", "_"))
    if accepted(lambda: write_project(folder)):
        assert folder.name.isascii()
    assert {p.name for p in tmp_path.iterdir()} == {"a"}
    assert {p.name for p in parent.iterdir()} <= {folder.name}
