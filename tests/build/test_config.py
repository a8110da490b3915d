"""Settings of a build are checked before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.build.config import BuildConfig, read_config
from headrace.errors import FoldingError, HeadraceError, InputError


def test_defaults() -> None:
    config = BuildConfig.checked()
    assert (config.target_fps, config.clock_mhz, config.folding) == (None, 200.0, None)


def test_messages_name_the_folding_file_that_was_given(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text("{}")
    assert BuildConfig.checked(folding=path).model_copy(update={"name": "x"}).folding_source == str(path)
    assert BuildConfig.checked(folding={}).folding_source == "the folding dictionary"
    assert "folding_file" not in BuildConfig.checked(folding=path).model_dump_json()


def test_folding_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "folding.json"
    path.write_text('{"MVAU_0": {"PE": 2}}')
    assert BuildConfig.checked(folding=path).folding == BuildConfig.checked(folding={"MVAU_0": {"PE": 2}}).folding


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"target_fsp": 3}, "unknown setting 'target_fsp' (did you mean 'target_fps'?)"),
        ({"target_fps": 0}, "setting 'target_fps'"),
        ({"target_fps": -1.0}, "setting 'target_fps'"),
        ({"target_fps": float("nan")}, "setting 'target_fps'"),
        ({"target_fps": "fast"}, "setting 'target_fps'"),
        ({"clock_mhz": float("inf")}, "setting 'clock_mhz'"),
        ({"clock_mhz": 0}, "setting 'clock_mhz'"),
        ({"clock_mhz": 1e-320}, "setting 'clock_mhz': must be from"),
        ({"clock_mhz": 1e300}, "setting 'clock_mhz': must be from"),
        (
            {"synth_clk_period_ns": 1e-320},
            "setting 'synth_clk_period_ns': input should be greater than or equal to 0.001",
        ),
        ({"seed": -1}, "setting 'seed': input should be greater than or equal to 0, got -1"),
        ({"output_dir": 3}, "setting 'output_dir': input should be the path of a file, got 3"),
        ({"output_dir": ""}, "setting 'output_dir': the path is empty, got ''"),
        ({"verify_input_npy": ""}, "setting 'verify_input_npy': the path is empty, got ''"),
        ({"verify_frames": 0}, "setting 'verify_frames'"),
        ({"verify_frames": 1.5}, "setting 'verify_frames'"),
        ({"folding": {"MVAU_0": 3}}, "setting 'folding.MVAU_0'"),
    ],
)
def test_bad_setting(settings: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as caught:
        BuildConfig.checked(**settings)  # type: ignore[arg-type]
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_a_setting_that_stands_twice(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"target_fps": 1, "target_fps": 2}')
    with pytest.raises(InputError, match='has the key "target_fps" twice in one object'):
        read_config(path)


def test_bad_folding_file(tmp_path: Path) -> None:
    for content in (None, "not json", "[1]", '{"MVAU_0": 3}'):
        path = tmp_path / f"{content}.json"[:20]
        if content is not None:
            path.write_text(content)
        with pytest.raises(FoldingError) as caught:
            BuildConfig.checked(folding=path)
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, HeadraceError)
