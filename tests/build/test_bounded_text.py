"""Texts are read whole, so that they have bounds, whatever file a user or the folder of a build has in their place."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import headrace
from headrace import bounded_text
from headrace.bounded_text import given_text, kept_text
from headrace.build.bitstreams import read_bitstreams
from headrace.build.config import read_config, read_finn_config
from headrace.build.profile import read_profile
from headrace.build.report import renewed_report
from headrace.build.validation import read_validation
from headrace.errors import HeadraceError
from headrace.explore import read_sweep
from headrace.schedule import read_folding
from headrace.synth.results import read_synthesis
from headrace_sim import ManifestError, load

GIVEN: dict[str, Callable[[Path], object]] = {
    "settings": read_config,
    "FINN's settings": read_finn_config,
    "folding": read_folding,
    "sweep": read_sweep,
}


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no endless device")
@pytest.mark.parametrize("reader", GIVEN)
def test_an_endless_file(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_text, "LARGEST", 1000)
    with pytest.raises(HeadraceError, match=r"/dev/zero.*\(it has more than 1,000 bytes\)"):
        GIVEN[reader](Path("/dev/zero"))


def test_a_pipe_and_a_mark_of_byte_order(tmp_path: Path) -> None:
    """As ``--folding <(command)`` gives a file, and as an editor on Windows begins one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=lambda: pipe.write_bytes(b'\xef\xbb\xbf{"fc0": {"PE": 1}}'))
    thread.start()
    assert read_folding(pipe) == {"fc0": {"PE": 1}}
    thread.join()
    with pytest.raises(OSError, match="it is no file"):
        kept_text(pipe)


def test_the_largest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_text, "LARGEST", 5)
    path = tmp_path / "x"
    for size in (5, 6):
        path.write_text("ä" * 2 + "a" * (size - 4), encoding="utf-8")
        if size == 5:
            assert given_text(path) == kept_text(path) == "ääa"
        else:
            with pytest.raises(OSError, match="it has more than 5 bytes"):
                kept_text(path)


KEPT = ("report/report.json", "report/profile.json", "report/validation.json", "report/synthesis.json", "design.json")


@pytest.mark.parametrize("kind", ["pipe", "hole"])
@pytest.mark.parametrize("name", [*KEPT, "bitstream/icebreaker/bitstream.json", "intermediate_models/verify.json"])
def test_what_a_build_kept(name: str, kind: str, tiny_model: Path, tmp_path: Path) -> None:
    """Every reader of the folder ends, whichever file is a pipe, or a hole larger than the disk."""
    out = tmp_path / "out"
    headrace.build(tiny_model, out)
    path = out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(2 * shutil.disk_usage(out).total)
    design = headrace.load(out)
    for read in (
        lambda: renewed_report(design, out),
        lambda: read_profile(out, ""),
        lambda: read_validation(out, ""),
        lambda: read_synthesis(out),
        lambda: read_bitstreams(out, ""),
        lambda: design.built_folder("simulate"),
        lambda: load(out),
        lambda: headrace.build(tiny_model, out, start_step="estimate"),
    ):
        try:
            read()
        except (HeadraceError, ManifestError, OSError) as error:
            assert len(str(error)) < 2000  # noqa: PT017  # some of them refuse it, others do not read it
