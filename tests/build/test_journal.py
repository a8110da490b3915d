"""Progress: lines where nobody looks, bars with the time left on a terminal."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from headrace.build import journal as module
from headrace.build.journal import Journal
from headrace.build.listeners import Clock, EventListener, PlainListener, TerminalListener, span


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
        for done, total in ((10, 40), (20, 41), (30, 42)):
            journal.progress("frames", done, total)
        listener._bars.refresh()
        assert listener._bars.tasks[-1].speed is not None  # a total that changes leaves the pace known
    text = shown.getvalue()
    assert "run: frames" in text
    assert "0:00:00" in text
    assert module.line(journal.records[0], "  ") in text
    work(journal)
    assert "headrace: warning: careful" in shown.getvalue()


class Later:
    """A clock that is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("headrace.build.listeners.time.monotonic", lambda: self.now)


def test_lines_say_the_time_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Later(monkeypatch)
    journal = Journal(PlainListener())
    with journal.step("simulate"):
        clock.now += 3
        journal.progress("cycles", 10, 100)  # too early for a line
        clock.now += 7
        journal.progress("cycles", 10, 100)
        clock.now += 6
        journal.progress("cycles", 99, 100)
        clock.now += 6
        journal.progress("cycles", 120, 100)
    assert capsys.readouterr().err.splitlines()[:3] == [
        "  cycles (10 of 100, about 90 s left)",
        "  cycles (99 of 100)",  # as good as over
        "  cycles (120 of 100)",
    ]


def test_events_are_lines_of_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Later(monkeypatch)
    journal = Journal(EventListener())
    journal.overall(0, 2)
    with journal.step("simulate") as note:
        clock.now += 10
        journal.progress("\x1b[31mcycles", 20, 100)
        journal.progress("at once", 21, 100)
        clock.now += 10
        journal.progress("unknown")
        note("fine")
        journal.warn("careful")
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events] == ["overall", "begin", "progress", "progress", "warning", "end"]
    assert events[2] == {
        "event": "progress",
        "step": "simulate",
        "text": "\\x1b[31mcycles",
        "done": 20,
        "total": 100,
        "seconds_left": 40.0,
    }
    assert events[3]["seconds_left"] is None
    assert events[5]["note"] == "fine"


def test_times_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [span(seconds) for seconds in (0.4, 99, 100, 5900, 7200)] == ["0 s", "99 s", "2 min", "98 min", "2 h"]
    clock = Later(monkeypatch)
    ran = Clock()
    clock.now += 8
    assert [ran.left(*share) for share in ((1, 4), (4, 4), (5, 4))] == [24.0, 0.0, None]
    assert ran.left(0, 4) is None
    clock.now += 2
    assert ran.left(1, 4) == 6.0  # the time before the first part was done does not count


def test_an_interrupted_step_has_not_failed() -> None:
    journal = Journal()
    with pytest.raises(KeyboardInterrupt), journal.step("long"):
        raise KeyboardInterrupt
    assert journal.records[0].note == "interrupted"


def test_times_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    work(Journal(PlainListener()))
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert len({line.index("0.00") for line in lines}) == 1
