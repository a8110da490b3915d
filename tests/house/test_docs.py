"""The documentation says what is so: the tutorial runs, the pages build, the README's commands exist."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.models import quantized_mlp

from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.finn_steps import build_dataflow_step_lookup
from headrace.build.schema import field_texts
from headrace.build.steps import STEPS
from headrace.build.vocabulary import VerificationStepType
from headrace.cli import Example, app
from headrace.errors import UnsupportedError
from headrace.explore import read_sweep
from headrace.explore.exploration import points_of
from headrace.explore.sweep import MEASURES
from headrace.ingest import from_proto
from headrace.ingest.rules import DOMAINS, ONNX, QONNX, operators
from headrace.ir.integer import Activation, Lookup
from headrace.layers.base import Layer, _rules, load_layers
from headrace.passes.to_integer import to_integer
from headrace.schedule.folding_keys import FINN_KINDS
from headrace.schedule.streams import layers
from headrace_sim.cache import DEFAULT_MAX_BYTES
from headrace_sim.pytest_plugin import RtlSim

ROOT = Path(__file__).resolve().parents[2]
RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")


def test_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, object] = {"__name__": "tutorial"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"tutorial.md, block {number}", "exec"), names)
    assert (tmp_path / "out" / "report" / "index.html").is_file()


def test_ci_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rtl_sim: RtlSim) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(quantized_mlp((8, 6, 4), 3, 0), "model.onnx")
    first, second = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"x": np.zeros((3, 8), np.float32)}
    exec(compile(first, "ci.md", "exec"), names)
    exec(compile(second, "ci.md", "exec"), names)
    names["test_accelerator"](rtl_sim)


PAGES = ("analysis", "build", "finn", "hls4ml", "import", "performance", "quantization", "runtime")


@pytest.mark.parametrize("page", PAGES)
def test_snippets_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of a page, from top to bottom, in a folder with a small model."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantized_mlp((12, 8, 5), 3, seed=1), "model.onnx")
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 2
    names: dict[str, object] = {"__name__": page}
    with patch.dict(build_dataflow_step_lookup):  # which a snippet puts a step into
        for number, block in enumerate(blocks):
            exec(compile(block, f"{page}.md, block {number}", "exec"), names)


WORKED = """
import sys
from jinja2 import ChoiceLoader, FileSystemLoader
from headrace.codegen import render

sys.path.insert(0, {tests!r})
environment = render._environment("rtl")
environment.loader = ChoiceLoader([environment.loader, FileSystemLoader("templates")])
"""
"""Before a worked example: its template lies beside it, not among those of the package."""


@pytest.mark.sim
@pytest.mark.parametrize(("page", "least"), [("add-an-operator", 4), ("add-a-layer", 5)])
def test_worked_examples_run(page: str, least: int, tmp_path: Path) -> None:
    """What the page adds, it adds to a process of its own."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= least
    (tmp_path / "templates").mkdir()
    for template in re.findall(r"```systemverilog\n(.*?)```", text, re.DOTALL):
        (name,) = re.findall(r"`hls_templates/rtl/(\w+\.sv\.j2)`", text)
        (tmp_path / "templates" / name).write_text(template, encoding="utf-8")
    script = tmp_path / f"{page}.py"
    script.write_text("\n".join([WORKED.format(tests=str(ROOT / "tests")), *blocks]), encoding="utf-8")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_operator_and_layer_has_its_semantics() -> None:
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    performance = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    load_layers()
    ours = [layer for layer in _subclasses(Layer) if layer.__module__.startswith("headrace.")]
    kinds = {layer.kind for layer in ours if "kind" in vars(layer)}
    assert kinds >= {"MVAU", "VVAU", "SWG", "FIFO", "LabelSelect"}
    assert {kind for kind in kinds if f"`{kind}`" not in _first_cells(text, "## Layers")} == set()
    assert {kind for kind in kinds if f"`{kind}`" not in _first_cells(performance, "## Cycles")} == set()
    named = set(re.findall(r"`(\w+)`", text))
    assert {name for domain in DOMAINS.values() for name in operators(domain)} - named == set()
    graph = _first_cells(text, "## Operators of the integer graph")
    lowered = {operator.__name__ for operator in _rules if operator.__module__.startswith("headrace.")}
    assert {name for name in lowered if f"`{name}`" not in graph} == set()


def _subclasses(of: type[Layer]) -> Iterator[type[Layer]]:
    for found in of.__subclasses__():
        yield found
        yield from _subclasses(found)


def _first_cells(text: str, heading: str) -> str:
    """The first column of the table under *heading*."""
    section = text.split(heading)[1].split("\n## ")[0]
    return " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))


def test_build_page_names_every_setting_and_step() -> None:
    text = (ROOT / "docs" / "build.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    expected = {name: meaning.replace("``", "`") for name, meaning in field_texts().items()}
    assert {name: rows.get(name) for name in expected} == expected
    assert {step.__name__: rows[step.__name__] for step in STEPS} == {
        step.__name__: _first_line(step) for step in STEPS
    }
    assert all(f"`{kind}`" in text for kind in VerificationStepType)


def test_finn_page_names_every_step() -> None:
    text = (ROOT / "docs" / "finn.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(step_\w+)` \| (.*) \|$", text, re.MULTILINE))
    assert rows == {step.__name__: _first_line(step) for step in build_dataflow_step_lookup.values()}


def _first_line(function: Callable[..., object]) -> str:
    return (inspect.getdoc(function) or "").splitlines()[0]


def test_explore_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for bits, names in ((2, ("w2", "w2a2")), (4, ("w4", "w4a4"))):
        for name in names:
            onnx.save(quantized_mlp((16, 8, 4), bits, 0), f"{name}.onnx")
    text = (ROOT / "docs" / "explore.md").read_text(encoding="utf-8")
    script, code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(code, "explore.md", "exec"), found)
    assert found["found"].front
    example, widths, styles = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    Path("sweep.yaml").write_text(example)
    assert len(points_of(read_sweep(Path("sweep.yaml")), tmp_path / "made")) == 6
    Path("train.py").write_text(script)
    np.savez("x.npz", x=np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32))
    np.save("y.npy", np.arange(5))
    Path("sweep.yaml").write_text(widths)
    made = points_of(read_sweep(Path("sweep.yaml")), tmp_path / "made")
    assert [point.error for point in made] == [""] * 12
    assert len({point.proto for point in made}) == 6
    assert made[-1].labels == {"weight_bits": "4", "activation_bits": "4", "target_fps": "1M"}
    Path("sweep.yaml").write_text(styles)
    assert len(list(read_sweep(Path("sweep.yaml")).combinations())) == 36
    assert all(f"`{name}`" in text or f"`_{name.rsplit('_', 1)[-1]}`" in text for name in MEASURES)


def test_pages_build_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", tmp_path / "doctrees"]
    done = subprocess.run([*command, ROOT / "docs", tmp_path / "html"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "target_fps" in (tmp_path / "html" / "reference.html").read_text(encoding="utf-8")


def test_readme_names_what_exists() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (ROOT / link).exists(), link
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^    make (\w+)$", readme, re.MULTILINE)
    assert targets == ["demo", "test"]
    assert all(f"\n{target}: " in makefile for target in targets)


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    groups = re.findall(r"```\{toctree\}.*?\n\n(.*?)```", index, re.DOTALL)
    toctree = [page for group in groups for page in group.split()]
    assert sorted(toctree) == sorted(page.stem for page in (ROOT / "docs").glob("*.md") if page.stem != "index")


def test_operator_lists_are_complete() -> None:
    hardware, host, refused = _operator_sections()
    domains = re.split(r"^### Domain `([\w.]+)`$", hardware, flags=re.MULTILINE)
    named = {ONNX: _first_column(domains[0])} | {
        domain: _first_column(text) for domain, text in zip(domains[1::2], domains[2::2], strict=True)
    }
    assert {domain: sorted(names) for domain, names in named.items()} == {
        domain: operators(domain) for domain in DOMAINS.values()
    }
    without_rule = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain} - set(operators(ONNX))
    assert set(re.findall(r"`([A-Z]\w+)`", host)) <= without_rule
    assert "Softmax" in host
    assert _first_column(refused)[:6] == list(RANDOM)


@pytest.mark.parametrize("operator", RANDOM)
def test_random_operators_are_refused(operator: str) -> None:
    sources = ["x"] if operator in ("RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial") else []
    shape = {} if sources else {"shape": [1, 3]}
    with pytest.raises(UnsupportedError, match="random numbers"):
        from_proto(_model([helper.make_node(operator, sources, ["y"], **shape)], "y"))


def test_benchmarks_page_names_every_script() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    scripts = sorted((ROOT / "benchmarks").glob("*.py"))
    assert [path.name for path in scripts if path.name not in text] == []
    heads = {
        path: path.read_text(encoding="utf-8").split('"""')[1] for path in scripts if "__main__" in path.read_text()
    }
    assert [path.name for path, head in heads.items() if f"python benchmarks/{path.name}" not in head] == []


def test_examples_page_names_every_example() -> None:
    text = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/__init__.py")}
    assert {name for name in folders if f"`{name}`" not in text} == set()
    demos = re.findall(r"headrace demo --example (\w+)", text)
    assert {*demos, "mnist_mlp"} == {example.value for example in Example}
    assert all((ROOT / "examples" / name / "README.md").is_file() for name in folders - {"demonstration"})


def test_functions_become_activations() -> None:
    """What the page calls a function leaves nothing to the host between two quantizers."""
    hardware, _, _ = _operator_sections()
    functions = _first_column(hardware.split("### Functions")[1].split("###")[0])
    unary = [f for f in functions if f not in ("BatchNormalization", "PRelu", "Pow", "Swish", "Log")]
    assert len(unary) >= 25
    for operator in unary:
        nodes = [
            helper.make_node("Quant", ["x", "scale", "zero", "bits"], ["q"], domain=QONNX, signed=0),
            helper.make_node(operator, ["q"], ["f"]),
            helper.make_node("Quant", ["f", "scale", "zero", "bits"], ["y"], domain=QONNX, signed=1),
        ]
        integer = to_integer(from_proto(_model(nodes, "y")))
        assert not integer.blockers, operator
        assert any(isinstance(integer.graph.op(n), Activation | Lookup) for n in integer.graph), operator


def test_folding_example_is_accepted() -> None:
    text = (ROOT / "docs" / "folding.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    config = BuildConfig.checked(folding=json.loads(example))
    hardware = Design(from_proto(quantized_mlp((784, 64, 64, 10), 2, 0)), config).hardware
    found = {name: layer.folding for name, layer in layers(hardware.graph).items()}
    assert found["fc0"] == {"PE": 16, "SIMD": 49}
    assert found["fc1"] == {"PE": 8, "SIMD": 8}
    assert found["fc2"] == {"PE": 2, "SIMD": 8}
    assert found["act0"] == {"PE": 2}
    assert any("mem_mode has no effect" in note for note in hardware.notes)
    for theirs, ours in FINN_KINDS.items():
        assert theirs == ours or f"`{theirs}`" in text


def test_command_line_page_names_every_command_and_option() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.callback.__name__
        section = text.split(f"## headrace {name}\n")[1].split("\n## ")[0]
        options = re.findall(r"\"(--[\w-]+)\"", _declarations(command.callback))
        assert all(option in section for option in options), (name, options)
    assert "HEADRACE_CACHE" in text
    assert f"{DEFAULT_MAX_BYTES >> 30} GiB" in text


def _declarations(callback: Callable[..., object]) -> str:
    """The annotations of a command's own parameters, without those that every command has."""
    hints = {
        name: hint
        for name, hint in get_type_hints(callback, include_extras=True).items()
        if name not in ("debug", "verbose", "quiet", "as_json")
    }
    found = [d for hint in hints.values() for x in getattr(hint, "__metadata__", ()) for d in x.param_decls or ()]
    return " ".join(f'"{name}"' for name in found)


def _operator_sections() -> tuple[str, str, str]:
    text = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    _, hardware, host, refused = re.split(r"^## (?:Hardware|Host|Refused)$", text, flags=re.MULTILINE)
    return hardware, host, refused


def _first_column(text: str) -> list[str]:
    """Names of operators in the first column of tables."""
    rows = [row for row in text.splitlines() if row.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([A-Z]\w+)`", row.split("|")[1])]


def _model(nodes: list[onnx.NodeProto], output: str) -> onnx.ModelProto:
    ends = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 3])] for name in ("x", output)]
    numbers = {"scale": 0.25, "zero": 0.0, "bits": 4.0}
    constants = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in numbers.items()]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(QONNX, 1)]
    return helper.make_model(helper.make_graph(nodes, "g", *ends, constants), opset_imports=opsets, ir_version=10)
