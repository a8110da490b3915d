"""The pytest plugin: comparison with vectors, artifacts of a failure, coverage."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from headrace_sim import (
    ArrayError,
    Coverage,
    DeadlockError,
    Manifest,
    SimulationError,
    Vectors,
    read_vectors,
    simulate,
    write_vectors,
)
from headrace_sim.cache import default_folder
from sim import designs

pytest_plugins = ["pytester"]
CACHE = default_folder()
X = np.array([[-4, 0, 1, 3], [2, -1, 0, 0]])


@pytest.fixture
def deadlocked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rtl_sim) -> Manifest:
    """A design in which no word moves, compiled."""
    monkeypatch.setenv("HEADRACE_CACHE", str(CACHE))  # pytester moves HOME away
    manifest = designs.broken(tmp_path / "design", "deadlock")
    with pytest.raises(DeadlockError):
        rtl_sim(manifest, {"x": np.zeros((2, 6), int)}, timeout_cycles=200)
    return manifest


@pytest.fixture
def regression(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rtl_sim) -> pytest.Pytester:
    """A project with a design, its vectors (the second file has a wrong value) and a test for each."""
    monkeypatch.setenv("HEADRACE_CACHE", str(CACHE))  # pytester moves HOME away
    manifest = designs.pass_through(tmp_path / "design", "plain")
    rtl_sim(manifest, {"x": X})  # skips where there is no Verilator
    wrong = X.copy()
    wrong[1, 2] = 7
    write_vectors(tmp_path / "right.npz", Vectors({"x": X}, {"y": X}))
    write_vectors(tmp_path / "wrong.npz", Vectors({"x": X}, {"y": wrong}))
    pytester.makepyfile(
        f"""
        import pytest
        from headrace_sim import read_vectors
        @pytest.mark.parametrize("name", ["right", "wrong"])
        def test_design(rtl_sim, name):
            vectors = read_vectors(f"{tmp_path}/{{name}}.npz")
            rtl_sim({str(manifest.root)!r}, vectors.inputs, expected=vectors.expected)
        """
    )
    return pytester


@pytest.mark.sim
def test_a_difference_fails_and_is_kept(regression: pytest.Pytester) -> None:
    result = regression.runpytest_inprocess("--rtl-artifacts=kept", "--rtl-stalls=0.2", "--junit-xml=junit.xml")
    result.assert_outcomes(passed=1, failed=1)
    message = "stream y: frame 1, element 2: expected 7, got 0 (1 of 8 elements differ)"
    result.stdout.fnmatch_lines([f"*{message.replace('[', '[[]')}"])
    (folder,) = (regression.path / "kept").iterdir()
    assert {path.name for path in folder.iterdir()} == {"report.txt", "vectors.npz", "waves.vcd"}
    assert message in (folder / "report.txt").read_text()
    assert "stall_in=0.2" in (folder / "report.txt").read_text()
    assert (folder / "waves.vcd").stat().st_size > 0
    report = (folder / "report.txt").read_text()
    assert report.startswith("test_a_difference_fails_and_is_kept.py::test_design[wrong]\n")
    signal, time = re.search(r"waves\.vcd: plain\.(\w+), taken in cycle \d+, at (\d+) ps", report).groups()
    assert signals_at(folder / "waves.vcd", int(time), signal, signal.replace("tdata", "tvalid"), "ap_clk") == [
        X[1, 2] % 8,
        1,
        1,
    ]
    kept = read_vectors(folder / "vectors.npz")
    assert np.array_equal(kept.inputs["x"], X)
    assert message in (regression.path / "junit.xml").read_text()


@pytest.mark.sim
def test_a_difference_in_cocotb_is_all_that_is_shown(regression: pytest.Pytester) -> None:
    result = regression.runpytest_inprocess("--rtl-simulator=verilator", "-k", "wrong")
    result.assert_outcomes(failed=1)
    assert "Running command" not in result.stdout.str()


def signals_at(waves: Path, time: int, *signals: str) -> list[int]:
    """What a waveform in the format VCD says of the first signals of these names at a time."""
    codes, values = {}, {}
    for line in waves.read_text().splitlines():
        words = line.split()
        if words[:1] == ["$var"]:
            codes.setdefault(words[4], words[3])
        elif line.startswith("#") and int(line[1:]) > time:
            break
        elif line[:1] == "b":
            values[words[1]] = int(words[0][1:], 2)
        elif line[:1] in ("0", "1"):
            values[line[1:]] = int(line[0])
    return [values[codes[signal]] for signal in signals]


@pytest.mark.sim
def test_a_failure_shows_the_line_of_the_test_alone(
    pytester: pytest.Pytester, deadlocked: Manifest, tmp_path: Path
) -> None:
    designs.pass_through(tmp_path / "refused", "refused")
    (source,) = (tmp_path / "refused").glob("**/*.sv")
    source.write_text(source.read_text().replace("endmodule", "no syntax\nendmodule"))
    pytester.makepyfile(
        f"""
        import numpy as np
        def test_deadlock(rtl_sim):
            x = np.zeros((2, 6), int)
            rtl_sim({str(deadlocked.root)!r}, {{"x": x}}, expected={{"y": x + 1}}, timeout_cycles=200)
        def test_refused(rtl_sim):
            rtl_sim({str(tmp_path / "refused")!r}, {{"x": np.zeros((1, 4), int)}})
        """
    )
    result = pytester.runpytest_inprocess("--rtl-artifacts=kept")
    result.assert_outcomes(failed=2)
    text = result.stdout.str()
    assert "def simulate(" not in text
    assert "def run_tool(" not in text
    result.stdout.fnmatch_lines(["*DeadlockError: design *no word moved*", "*report, vectors and waveform: kept*"])
    result.stdout.fnmatch_lines(["*BuildError: *", "*syntax error*", "*report, vectors: kept*test_refused"])
    assert "syntax error" in next((pytester.path / "kept").glob("*refused/report.txt")).read_text()


@pytest.mark.usefixtures("forgotten_tools")
@pytest.mark.parametrize("options", [(), ("--require-sim",)])
def test_a_missing_simulator_is_said_once(pytester: pytest.Pytester, tmp_path: Path, options: tuple[str, ...]) -> None:
    manifest = designs.pass_through(tmp_path / "design", "plain")
    pytester.makepyfile(
        f"""
        import numpy as np
        def test_design(rtl_sim, monkeypatch):
            monkeypatch.setenv("PATH", {str(tmp_path)!r})
            rtl_sim({str(manifest.root)!r}, {{"x": np.zeros((1, 4), int)}}, cache={str(tmp_path / "cache")!r})
        """
    )
    result = pytester.runpytest_inprocess("-rs", *options)
    result.assert_outcomes(**{"failed" if options else "skipped": 1})
    assert "During handling" not in result.stdout.str()
    result.stdout.fnmatch_lines(["*--require-sim: no C++ compiler*" if options else "SKIPPED*no C++ compiler*"])


@pytest.mark.sim
def test_a_deadlock_is_kept(pytester: pytest.Pytester, deadlocked: Manifest) -> None:
    pytester.makepyfile(
        f"""
        import numpy as np
        def test_design(rtl_sim):
            rtl_sim({str(deadlocked.root)!r}, {{"x": np.zeros((2, 6), int)}}, timeout_cycles=200)
        """
    )
    pytester.runpytest_inprocess("--rtl-artifacts=kept").assert_outcomes(failed=1)
    (folder,) = (pytester.path / "kept").iterdir()
    assert "no word moved for 200 cycles" in (folder / "report.txt").read_text()


@pytest.mark.sim
def test_coverage(regression: pytest.Pytester) -> None:
    result = regression.runpytest_inprocess("--rtl-coverage=cov", "-k", "right")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["RTL coverage: toggle */* (*%); cov"])
    text = (regression.path / "cov" / "coverage_main.info").read_text()
    assert "plain.sv" in text
    assert text.endswith("end_of_record\n")


@pytest.mark.sim
def test_coverage_counts_what_ran(tmp_path: Path, rtl_sim) -> None:
    def covered(folder: str, **options: float) -> Coverage:
        manifest = designs.register_slice(tmp_path / folder, bits=3, epw=1, frame=4)
        coverage = rtl_sim(manifest, {"x": np.tile(X, (50, 1))}, coverage=True, **options).coverage
        assert coverage is not None
        assert {Path(point.file) for point in coverage.hits} == set(manifest.source_paths)
        return coverage

    free, stalled = covered("a"), covered("b", stall_out=0.5)
    points = {point.what: count for point, count in free.hits.items()}
    assert points["m_axis_0_tready:1->0"] == 0  # nothing stalls
    assert {point.what: count for point, count in stalled.hits.items()}["m_axis_0_tready:1->0"] > 0
    assert [point.what for point in free.missed() if point.what.startswith("m_axis_0_tready")] == [
        "m_axis_0_tready:1->0"
    ]
    assert free.share("line")[0] > 0
    both = Coverage.merged([free, free])
    assert both.share("toggle") == free.share("toggle")
    assert sum(both.hits.values()) == 2 * sum(free.hits.values())


def test_coverage_is_of_one_engine(tmp_path: Path) -> None:
    manifest = designs.pass_through(tmp_path / "design", "plain")
    with pytest.raises(SimulationError, match="coverage needs engine 'cpp'; 'cocotb' does not measure it"):
        simulate(manifest, {"x": X}, engine="cocotb", coverage=True)


@pytest.mark.parametrize("low", [-(2**63), -129, -1, 0])
@pytest.mark.parametrize("high", [0, 1, 255, 256, 2**31, 2**63 - 1])
def test_vectors_are_kept_exactly(tmp_path: Path, low: int, high: int) -> None:
    array = np.array([[low, high]])
    write_vectors(tmp_path / "v", Vectors({"in put/x": array}, {"y": array[:, ::-1]}))
    vectors = read_vectors(tmp_path / "v")
    assert vectors.frames == 1
    assert np.array_equal(vectors.inputs["in put/x"].astype(object), array.astype(object))
    assert np.array_equal(vectors.expected["y"].astype(object), array[:, ::-1].astype(object))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((1, 1), int)}, "array 'x' is neither 'input:<tensor>' nor 'expected:<tensor>'"),
        ({"input:x": np.zeros((1, 1))}, r"array 'input:x' is float64 of shape \(1, 1\); integers"),
        ({"input:x": np.zeros(3, int)}, r"int64 of shape \(3,\)"),
        ({"input:x": np.zeros((1, 1), int)}, "at least one 'input:' and one 'expected:' array"),
    ],
)
def test_files_that_are_no_vectors(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(ArrayError, match=message):
        read_vectors(tmp_path / "v.npz")


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04broken"])
def test_broken_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "v.npz").write_bytes(content)
    with pytest.raises(ArrayError, match="not a file of vectors"):
        read_vectors(tmp_path / "v.npz")
    with pytest.raises(ArrayError, match="not a file of vectors"):
        read_vectors(tmp_path / "none.npz")
