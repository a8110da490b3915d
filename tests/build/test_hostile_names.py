"""Names in a model are any text; files, identifiers and pages made from them are legal, unique and stay in place."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest
from fuzz.hostile import EVIL, renamed
from models import quantized_mlp

import headrace

NAMES = ["a/b; rm -rf ~", "module", "../../x", "a.b", "a_b", "a b", "<script>alert(1)</script>", 'ä\n`include "x"']


@pytest.fixture(scope="module")
def hostile() -> onnx.ModelProto:
    """The tiny network with its nodes, and the tensors between them, called whatever a file may call them."""
    model = quantized_mlp((12, 8, 5), 3, seed=1)
    renamed = {"x": "input; $finish", "label": "/etc/passwd"}
    for index, node in enumerate(model.graph.node):
        node.name = NAMES[index % len(NAMES)] + ("" if index < len(NAMES) else str(index))
        for output in node.output:
            renamed.setdefault(output, node.name)
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed[name] for name in node.output]
    for value in (*model.graph.input, *model.graph.output):
        value.name = renamed[value.name]
    return model


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)


def test_build_and_simulate(hostile: onnx.ModelProto, tmp_path: Path) -> None:
    design = headrace.build(hostile, tmp_path / "out", name="../evil; module")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    sources = [p.stem for p in (tmp_path / "out" / "rtl").glob("*.sv")]
    assert all(name.isidentifier() and name.isascii() for name in sources)
    assert len({name.lower() for name in sources}) == len(sources)
    page = _Tags()
    page.feed((tmp_path / "out" / "report" / "index.html").read_text(encoding="utf-8"))
    assert "script" not in page.seen
    feeds = {"input; $finish": np.random.default_rng(0).normal(0, 1, (20, 12)).astype(np.float32)}
    results = [design.run(feeds, mode=mode) for mode in ("float", "integer", "rtl")]
    assert all(list(result) == ["/etc/passwd"] for result in results)
    assert all(np.array_equal(result["/etc/passwd"], results[0]["/etc/passwd"]) for result in results)


@pytest.mark.parametrize(
    "rotation", [9, *(pytest.param(r, marks=pytest.mark.slow) for r in range(len(EVIL)) if r != 9)]
)
def test_injection(rotation: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a name says is done, by any tool from the build to both simulations, and no file is named by one."""
    monkeypatch.chdir(tmp_path)
    outputs = ["estimate_reports", "stitched_ip", "pynq_driver"]
    design = headrace.build(
        renamed(rotation), tmp_path / "out", name=EVIL[rotation], backend="both", generate_outputs=outputs
    )
    (name,) = design.source.inputs
    feeds = {name: np.random.default_rng(0).normal(0, 1, (4, 6)).astype(np.float32)}
    results = [next(iter(design.run(feeds, mode=mode).values())) for mode in ("float", "integer", "rtl", "hls")]
    assert all(np.array_equal(result, results[0]) for result in results)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    for path in (tmp_path / "out").rglob("*"):
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,100}", path.name), path
        assert path.name != "pwned"
    page = _Tags()
    page.feed((tmp_path / "out" / "report" / "index.html").read_text(encoding="utf-8"))
    assert not page.seen & {"script", "img"}
