"""Sweeps: points, results that are kept, workers that are killed, the front, the page."""

from __future__ import annotations

import csv
import html
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import quantized_mlp

from headrace import __version__
from headrace.errors import HeadraceError, InputError, ToolError
from headrace.explore import (
    DaskRunner,
    Exploration,
    LocalRunner,
    Point,
    Result,
    Sweep,
    evaluate,
    explore,
    pareto_front,
    read_sweep,
)
from headrace.explore import processes as processes_module
from headrace.explore import runners as runners_module
from headrace.explore.exploration import build_command, points_of
from headrace.explore.numbers import from_number, number
from headrace.explore.page import Axis, Plot
from headrace.explore.table import print_exploration


@pytest.fixture
def models(tmp_path: Path) -> dict[str, Path]:
    found = {f"w{bits}": tmp_path / f"w{bits}.onnx" for bits in (2, 4)}
    for bits, path in zip((2, 4), found.values(), strict=True):
        onnx.save(quantized_mlp((16, 8, 4), bits, 0), path)
    return found


class Here:
    """Evaluates in this process, and counts."""

    def __init__(self, fail: Sequence[str] = ()) -> None:
        self.fail, self.seen = fail, list[str]()

    def run(self, points: Sequence[Point]) -> Iterator[Result]:
        for point in points:
            self.seen.append(point.title)
            failed = any(text in point.title for text in self.fail)
            yield Result(point.key, point.model, point.labels, error="lost") if failed else evaluate(point)


def sweep_of(models: dict[str, Path], **more: Any) -> Sweep:
    settings = {"target_fps": [1e6, 1e7]}
    return Sweep.checked({"models": models, "settings": settings, **more}, "sweep")


def test_a_sweep(models: dict[str, Path], tmp_path: Path) -> None:
    found = explore(sweep_of(models), tmp_path / "out", Here())
    assert [(r.model, r.labels["target_fps"]) for r in found.results] == [
        ("w2", "1M"), ("w2", "10M"), ("w4", "1M"), ("w4", "10M")
    ]  # fmt: skip
    assert not found.failed
    slow, fast = (found.results[k].measures for k in (0, 1))
    assert fast["fps"] > slow["fps"] >= 1e6
    assert fast["lut"] > slow["lut"]
    assert {0, 1} <= set(found.front)
    data = json.loads((tmp_path / "out" / "explore.json").read_text())
    assert data["front"] == [found.results[k].key for k in found.front]
    rows = list(csv.DictReader((tmp_path / "out" / "explore.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == ["w2", "w2", "w4", "w4"]
    assert [float(row["lut"]) for row in rows] == [r.measures["lut"] for r in found.results]
    assert [row["pareto"] == "true" for row in rows] == [k in found.front for k in range(4)]
    assert "<circle" in (tmp_path / "out" / "index.html").read_text()


def test_the_best_can_be_built(models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the command on the page, to the design that was evaluated."""
    settings = {"clock_mhz": 100, "target_fps": [1e6, None], "MVAU.style": "table"}
    found = explore(sweep_of(models, settings=settings), tmp_path / "out", Here())
    page = html.unescape((tmp_path / "out" / "index.html").read_text())
    monkeypatch.chdir(tmp_path)
    for index in found.front:
        result = found.results[index]
        command = build_command(result, tmp_path / "out")
        assert f"<pre>{command}</pre>" in page
        program, *arguments = shlex.split(command)
        assert program == "headrace"
        subprocess.run(
            [sys.executable, "-c", "from headrace.cli import main; main()", *arguments, "--stop-step", "estimate"],
            check=True,
        )
        rates = json.loads(Path("build/report/estimate_network_performance.json").read_text())
        assert rates["estimated_throughput_fps"] == result.measures["fps"]
        assert json.loads(Path("build/build.json").read_text())["folding"] == {"Defaults": {"style": {"MVAU": "table"}}}


def test_finished_points_are_not_done_again(models: dict[str, Path], tmp_path: Path) -> None:
    first, second, third = Here(fail=["w4"]), Here(), Here()
    found = explore(sweep_of(models), tmp_path / "out", first)
    assert len(found.failed) == 2
    assert "lost" in (tmp_path / "out" / "index.html").read_text()
    again = explore(sweep_of(models), tmp_path / "out", second)
    assert [title.split()[0] for title in second.seen] == ["w4", "w4"]
    assert again.reused == 2
    assert not again.failed
    explore(sweep_of(models, settings={"target_fps": [1e6, 2e6]}), tmp_path / "out", third)
    assert third.seen == ["w2 target_fps=2M", "w4 target_fps=2M"]
    onnx.save(quantized_mlp((16, 8, 4), 2, seed=1), models["w2"])
    assert len(list(points_of(sweep_of(models), tmp_path / "made"))) == 4
    fourth = Here()
    explore(sweep_of(models), tmp_path / "out", fourth)
    assert [title.split()[0] for title in fourth.seen] == ["w2", "w2"]  # another model of the same name


def test_a_broken_result_is_done_again(models: dict[str, Path], tmp_path: Path) -> None:
    explore(sweep_of(models), tmp_path / "out", Here())
    files = sorted((tmp_path / "out" / "points").iterdir())
    files[0].write_text("{")
    files[1].write_text('{"unknown": 1}')
    runner = Here()
    explore(sweep_of(models), tmp_path / "out", runner)
    assert len(runner.seen) == 2


@pytest.mark.sim
def test_everything_about_a_point(models: dict[str, Path], tmp_path: Path, rtl_sim) -> None:
    inputs = np.random.default_rng(0).standard_normal((20, 16)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=inputs)
    np.save(tmp_path / "labels.npy", np.arange(20) % 4)
    data = {"inputs": tmp_path / "x.npz", "labels": tmp_path / "labels.npy"}
    wanted = {"evaluate": ["estimate", "rtl"], "data": data, "objectives": {"accuracy": "max", "lut": "min"}}
    (point, *_) = points_of(sweep_of(models, **wanted), tmp_path)
    result = evaluate(point)
    if "was not found" in result.error:
        pytest.skip(result.error)
    assert not result.error
    assert result.exact is True
    assert result.measures["measured_interval"] == result.measures["interval"]
    assert 0 <= result.measures["accuracy"] <= 1


def test_failures_are_results(models: dict[str, Path], tmp_path: Path) -> None:
    found = explore(sweep_of(models, settings={"target_fps": [1e6, 2e9]}), tmp_path / "out", Here())
    assert [bool(result.error) for result in found.results] == [False, True, False, True]
    assert "more than one frame per cycle" in found.results[1].error
    assert set(found.front) <= {0, 2}


# -- processes ------------------------------------------------------------------------------------------------------


def test_local_processes(models: dict[str, Path], tmp_path: Path) -> None:
    sweep = sweep_of(models)
    found = explore(sweep, tmp_path / "out", LocalRunner(jobs=2))
    assert not found.failed
    expected = explore(sweep, tmp_path / "here", Here())
    assert [r.measures for r in found.results] == [r.measures for r in expected.results]


def test_a_killed_process_is_tried_again(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    real = processes_module._start

    def start(job: Any, attempt: int) -> Any:
        task = real(job, attempt)
        started.append(attempt)
        if (job.subject.model == "w2" and attempt == 1) or job.subject.model == "w4":
            os.kill(task.process.pid, signal.SIGKILL)
        return task

    monkeypatch.setattr(processes_module, "_start", start)
    settings = {"target_fps": [1e6]}
    found = explore(sweep_of(models, settings=settings), tmp_path / "out", LocalRunner(jobs=1))
    assert not found.results[0].error
    assert "was killed 3 times, last by SIGKILL" in found.results[1].error
    assert sorted(started) == [1, 1, 2, 2, 3]


def test_a_point_that_hangs_is_ended(models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that does not hear that it is asked to end."""
    real = processes_module._start
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(300)"
    ended: list[Any] = []

    def start(job: Any, attempt: int) -> Any:
        if job.subject.model != "w2":
            return real(job, attempt)
        task = real(replace(job, command=(sys.executable, "-c", deaf)), attempt)
        while not job.log.read_text():
            time.sleep(0.01)
        task.started -= 3600
        ended.append(task.process)
        return task

    monkeypatch.setattr(processes_module, "_start", start)
    monkeypatch.setattr(processes_module, "GRACE", 0.1)
    settings = {"target_fps": [1e6]}
    found = explore(sweep_of(models, settings=settings), tmp_path / "out", LocalRunner(jobs=2, timeout=1800))
    assert found.results[0].error == "the process that evaluated it was ended, as it took longer than 1,800 s"
    assert not found.results[1].error
    assert [process.returncode for process in ended] == [-signal.SIGKILL]


def test_fewer_than_no_processes() -> None:
    with pytest.raises(InputError, match=r"timeout=0: expected seconds for a point"):
        LocalRunner(timeout=0)
    with pytest.raises(InputError, match=r"jobs=-1: expected a number of processes, or 0 for one a processor"):
        LocalRunner(jobs=-1)


def test_a_process_that_ends_badly(models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners_module, "write_point", lambda point, folder: None)
    found = explore(sweep_of(models), tmp_path / "out", LocalRunner(jobs=2))
    assert all("ended with status 1: FileNotFoundError" in result.error for result in found.results)


def test_a_dask_worker_is_killed(models: dict[str, Path], tmp_path: Path) -> None:
    """Points that a lost worker had are given to another; the sweep is complete."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        victim = next(iter(cluster.workers.values())).process.pid
        killer = threading.Timer(0.2, lambda: os.kill(victim, signal.SIGKILL))
        killer.start()
        rates = {"target_fps": [1e6, 2e6, 3e6, 4e6, 5e6, 6e6]}
        found = explore(sweep_of(models, settings=rates), tmp_path / "out", DaskRunner(cluster.scheduler_address))
        killer.join()
    assert len(found.results) == 12
    assert not found.failed
    expected = explore(sweep_of(models, settings=rates), tmp_path / "here", Here())
    assert [r.measures for r in found.results] == [r.measures for r in expected.results]


def test_a_scheduler_is_lost(models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results so far are kept, and the next run goes on with the others."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    as_completed = distributed.as_completed

    def lost(futures: list[Any], **options: Any) -> Iterator[Any]:
        yield next(iter(as_completed(futures, **options)))
        raise distributed.client.FutureCancelledError("a", "scheduler-connection-lost")

    rates = {"target_fps": [1e6, 2e6]}
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None, silence_logs=50
    ) as cluster:
        runner = DaskRunner(cluster.scheduler_address)
        with monkeypatch.context() as patch:
            patch.setattr(distributed, "as_completed", lost)
            with pytest.raises(ToolError, match="was lost; the results so far are kept: the same command"):
                explore(sweep_of(models, settings=rates), tmp_path / "out", runner)
        found = explore(sweep_of(models, settings=rates), tmp_path / "out", runner)
    assert found.reused == 1
    assert not found.failed
    assert len(found.results) == 4


def test_a_worker_of_another_version(models: dict[str, Path], tmp_path: Path) -> None:
    """It would compute other figures under the same names."""

    class Elsewhere:
        def run(self, points: Sequence[Point]) -> Iterator[Result]:
            for point in points:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("headrace.explore.point.__version__", "9.9")
                    yield evaluate(point)

    found = explore(sweep_of(models), tmp_path / "out", Elsewhere())
    assert [r.error.partition(";")[0] for r in found.results] == [
        f"its worker has Headrace 9.9, and {__version__} asks"
    ] * 4
    assert not explore(sweep_of(models), tmp_path / "out", Here()).failed


def test_a_result_of_another_point(models: dict[str, Path], tmp_path: Path) -> None:
    """Under the name of a point, it is not taken for its own."""
    explore(sweep_of(models), tmp_path / "out", Here())
    one, other, *_ = sorted((tmp_path / "out" / "points").iterdir())
    one.write_text(other.read_text())
    runner = Here()
    assert explore(sweep_of(models), tmp_path / "out", runner).reused == 3
    assert len(runner.seen) == 1
    assert json.loads(one.read_text())["key"] == one.stem


def test_no_scheduler(models: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127.0.0.1:1"):
        explore(sweep_of(models), tmp_path / "out", DaskRunner("tcp://127.0.0.1:1", timeout=1.0))
    for address in ("", "foo", "foo://127.0.0.1:1", "tcp://127.0.0.1", "tcp://127.0.0.1:99999", "127.0.0.1:0"):
        with pytest.raises(InputError, match=f"'{address}' is no address of a Dask scheduler"):
            explore(sweep_of(models), tmp_path / "out", DaskRunner(address))


# -- the file -------------------------------------------------------------------------------------------------------


def test_a_sweep_file(models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "fold.json").write_text('{"fc0": {"PE": 2}}')
    (tmp_path / "sweep.yaml").write_text(
        "models: {a: w2.onnx, b: w4.onnx}\n"
        "settings:\n  target_fps: [1.0e+6, null]\n  clock_mhz: 100\n  folding: [fold.json, null]\n"
        "evaluate: [estimate]\nobjectives: {interval: min, lut: min}\n"
    )
    sweep = read_sweep(tmp_path / "sweep.yaml")
    points = points_of(sweep, tmp_path)
    assert len(points) == 8
    assert points[0].settings == {"target_fps": 1e6, "clock_mhz": 100, "folding": {"fc0": {"PE": 2}}}
    assert points[0].labels == {"target_fps": "1M", "folding": "fold"}
    assert len({point.key for point in points}) == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modles: {}", r"unknown name 'modles' \(did you mean 'models'\?\); known: models, settings"),
        ("settings: {target_fp: 3}", r"'target_fp' is no setting of a build .* \(did you mean 'target_fps'\?\)"),
        ("objectives: {luts: min}", r"'luts' is no objective \(did you mean 'lut'"),
        ("objectives: {lut: smallest}", r"'objectives.lut': input should be 'min' or 'max'"),
        ("evaluate: [simulate]", r"'evaluate.0': input should be 'estimate', 'rtl' or 'synthesis'"),
        ("family: virtex", "'virtex' is no device family"),
        ("frames: 0", "'frames': input should be greater than or equal to 1"),
        ("data: {inputs: x.npz}", r"'data.labels': field required"),
        ("[1, 2]", "expected names and values"),
        ("a: [", "is not YAML"),
        ("{}", "names no models"),
        ("models: {a: none.onnx}", "none.onnx: no such file"),
        ("models: {a: w2.onnx}\nsettings: {target_fps: [0]}", "greater than 0"),
        ("models: {a: w2.onnx}\nsettings: {folding: [none.json]}", "none.json"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
        ("settings: {target_fps: []}", "setting 'target_fps' has no value to try"),
        ("settings: {seed: [-1]}\nmodels: {a: w2.onnx}", "'seed': input should be greater than or equal to 0, got -1"),
        ("frames: 2\nframes: 3", "the name 'frames' stands twice"),
        ("settings: {seed: 1, seed: 2}", "the name 'seed' stands twice"),
        ("models: {1: w2.onnx}", "'models': the name 1 is no text; write it in quotes"),
        ("models: {a: null}", "'models.a': input should be the path of a file, got None"),
        ("models: [w2.onnx]", "'models': input should be names with values"),
        ("evaluate: 3", "'evaluate': input should be a list, got 3"),
    ],
)
def test_sweeps_that_are_refused(models: dict[str, Path], tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "sweep.yaml").write_text(text)
    with pytest.raises(HeadraceError, match=message):
        explore(read_sweep(tmp_path / "sweep.yaml"), tmp_path / "out", Here())
    assert not (tmp_path / "out").exists()


def test_numbers_as_people_write_them(models: dict[str, Path], tmp_path: Path) -> None:
    """Those with an exponent alone are text in YAML 1.1, and numbers in JSON and in YAML 1.2."""
    (tmp_path / "sweep.yaml").write_text(
        "models: {a: w2.onnx, 1e: w4.onnx}\nsettings: {target_fps: [1e6, 2E+5, 1.5e6, .5e3, 1000], seed: 3}\n"
        "evaluate: estimate\n"
    )
    sweep = read_sweep(tmp_path / "sweep.yaml")
    assert sweep.settings == {"target_fps": [1e6, 2e5, 1.5e6, 500.0, 1000], "seed": [3]}
    assert sweep.evaluate == ("estimate",)
    assert [*sweep.models] == ["a", "1e"]


def test_a_sweep_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.yaml: cannot be read \(No such file or directory\)$"):
        read_sweep(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(3), "expected one array of whole numbers"),
        (np.zeros(3, int), "has 3 labels for 20 frames of 'x'"),
    ],
)
def test_data_that_do_not_fit(models: dict[str, Path], tmp_path: Path, labels: np.ndarray, message: str) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((20, 16), np.float32))
    np.save(tmp_path / "labels.npy", labels)
    data = {"inputs": tmp_path / "x.npz", "labels": tmp_path / "labels.npy"}
    with pytest.raises(InputError, match=message):
        points_of(sweep_of(models, data=data), tmp_path)


# -- front and page -------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5) | st.none()), max_size=12))
def test_the_front_is_what_nothing_beats(values: list[tuple[int, int | None]]) -> None:
    points = [{"a": a, "b": b} for a, b in values]
    front = pareto_front(points, {"a": "min", "b": "max"})
    for index, (a, b) in enumerate(values):
        beaten = b is None or any(d is not None and c <= a and d >= b and (c, d) != (a, b) for c, d in values)
        assert (index in front) == (not beaten)


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=5))
def test_axes_hold_their_values(values: list[float]) -> None:
    axis = Axis.of("x", values, 50, 600)
    assert all(50 <= axis.place(value) <= 650 for value in values)
    assert all(50 <= tick.at <= 650 for tick in axis.ticks)
    assert 1 <= len(axis.ticks) <= 20


def test_no_figure_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = ("fps", "lut", "interval", "latency", "ff", "dsp", "bram18", "measured_interval", "synthesised_lut")
    limits = Sweep(models={"m": tmp_path}, settings={"resource_limits": [None, {"lut": 3000}]}).labels()
    labels = [{"target_fps": "100k", "clock_mhz": "200", **limit} for limit in limits]
    results = [Result(str(k), "model", label, dict.fromkeys(names, 1.234e6)) for k, label in enumerate(labels)]
    print_exploration(Exploration(results, {"fps": "max"}), tmp_path)
    printed = capsys.readouterr().out
    assert printed.count("1.23M") == 2 * len(names)
    assert "…" not in printed
    assert " none " in printed
    assert " lut=3k " in printed


def test_numbers_for_people() -> None:
    assert [number(v) for v in (0, 7, 999, 1000, 12_345, 2e6, 3.5e9, 0.25)] == [
        "0", "7", "999", "1k", "12.3k", "2M", "3.5G", "0.25"
    ]  # fmt: skip
    assert [from_number(text) for text in ("0", "7", "1k", "12.3k", "2M", "0.25")] == [0, 7, 1e3, 12.3e3, 2e6, 0.25]


def test_hostile_names_are_text(tmp_path: Path) -> None:
    result = Result("k", "<script>alert(1)</script>", {"folding": "=cmd()"}, {"fps": 1.0, "lut": 2.0}, error="")
    found = Exploration([result], {"fps": "max", "lut": "min"})
    from headrace.explore.page import result_files

    files = result_files(found, Path("out"))
    assert "<script>" not in files["index.html"]
    assert "'=cmd()" in files["explore.csv"]
    assert Plot.of(found) is not None
    assert Plot.of(Exploration([Result("k", "m", {}, error="x")], {"fps": "max"})) is None


def test_many_points_with_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The error is there once, on the terminal and on the page; every point leads to it."""
    results = [Result(str(n), "m", {"target_fps": str(n)}, error="too fast") for n in range(6)]
    found = Exploration([*results, Result("k", "m", {}, {"fps": 1.0}, error="lost")], {"fps": "max"})
    print_exploration(found, Path("out"))
    shown = capsys.readouterr().out
    assert shown.count("too fast") == 1
    named = "; ".join(f"m target_fps={n}" for n in range(4))
    assert f"6 points ({named}; 2 more): too fast\n" in shown
    assert "\nm: lost\n" in shown
    from headrace.explore.page import result_files

    page = result_files(found, Path("out"))["index.html"]
    assert (page.count("too fast"), page.count('href="#failure-1"'), page.count('href="#failure-2"')) == (1, 6, 1)
    assert "m target_fps=5" in page


def test_the_command(models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from headrace.cli import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text("settings: {target_fps: [1000000, 2000000000]}\n")
    command = ["explore", "w2.onnx", "w4.onnx", "--sweep", "s.yaml", "--jobs", "2"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert done.output.count("more than one frame per cycle") == 1  # of two points
    assert "2 points (w2 target_fps=2G; w4 target_fps=2G): " in done.output
    assert (tmp_path / "exploration" / "index.html").is_file()
    (tmp_path / "t.yaml").write_text("settings: {target_fps: [2000000000]}\n")
    with pytest.raises(HeadraceError, match="no point has a result") as refused:
        CliRunner().invoke(app, ["explore", "w2.onnx", "w4.onnx", "--sweep", "t.yaml"], catch_exceptions=False)
    assert str(refused.value).count("more than one frame per cycle") == 1
    (tmp_path / "u.yaml").write_text("settings: {fit_part: [xc7z999]}\n")
    with pytest.raises(HeadraceError, match="xc7z999"):  # before a model is read
        CliRunner().invoke(app, ["explore", "none.onnx", "--sweep", "u.yaml"], catch_exceptions=False)
    with pytest.raises(InputError, match="two models are called 'w2'"):
        Sweep(models=models).with_models([tmp_path / "w2.onnx"])
