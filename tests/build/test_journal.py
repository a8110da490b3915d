"""Progress: lines where nobody looks, bars with the time left on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from headrace.build import journal as module
from headrace.build.journal import Journal, PlainListener, TerminalListener


def work(journal: Journal) -> None:
    for number, name in enumerate(("first", "second")):
        journal.overall(number, 2)
        with journal.step(name):
            with journal.step("inner"):
                journal.progress("frames", 3, 4)
            journal.note("one")
            journal.note("two")
    with journal.step("last"):
        journal.warn("careful")


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal(PlainListener())
    work(journal)
    words = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert [line[:2] for line in words] == [
        ["inner", "0.00"],
        ["[1/2]", "first"],
        ["inner", "0.00"],
        ["[2/2]", "second"],
        ["headrace:", "warning:"],
        ["last", "0.00"],
    ]
    assert words[1][-2:] == ["one;", "two"]
    assert [record.name for record in journal.records] == ["inner", "first", "inner", "second", "last"]
    assert journal.text().endswith("warning: careful\n")


def test_verbose_lines(capsys: pytest.CaptureFixture[str]) -> None:
    work(Journal(PlainListener(verbose=True)))
    assert "  frames (3 of 4)" in capsys.readouterr().err.splitlines()


def test_a_failed_step_is_recorded() -> None:
    journal = Journal()
    with pytest.raises(RuntimeError), journal.step("outer"), journal.step("inner"):
        raise RuntimeError
    assert [(record.name, record.note) for record in journal.records] == [("inner", "failed"), ("outer", "failed")]


def test_bars_show_how_far_a_step_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()

    def console(stderr: bool) -> Console:
        assert stderr
        return Console(file=shown, force_terminal=True, width=100, legacy_windows=False)

    monkeypatch.setattr("rich.console.Console", console)
    listener = TerminalListener()
    journal = Journal(listener)
    with journal.step("outer"), journal.step("run"):
        journal.progress("frames", 30, 40)
        listener._bars.refresh()
    text = shown.getvalue()
    assert "run: frames" in text
    assert "0:00:00" in text
    assert module.line(journal.records[0]) in text
    work(journal)
    assert "headrace: warning: careful" in shown.getvalue()
