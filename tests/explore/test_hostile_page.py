"""The page of an exploration, whatever names of models and settings and whatever kept numbers it shows."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest
from fuzz.mutations import NAMES

from headrace.explore import Exploration, Result
from headrace.explore.page import result_files
from headrace.explore.point import LARGEST

NUMBERS = (0.0, -1.0, 1.0, 1.0000000000000002, 5e-324, 1e-300, 3.0, 1e16, 2.0**63, LARGEST, -LARGEST)


class Page(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text = set[str](), set[str](), ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def files(*results: Result) -> dict[str, str]:
    return result_files(Exploration(results, {"fps": "max", "lut": "min"}), Path("out"))


def point(model: str, setting: str = "", fps: float = 1.0, lut: float = 1.0) -> Result:
    return Result(model, model, {setting: setting}, {"fps": fps, "lut": lut, setting: 1.0}, True, setting)


def test_names_stay_text() -> None:
    plain = files(point("a", "b"), point("b", "a"), Result("c", "c", {}, error="no"))["index.html"]
    tags, attributes = Page(plain).tags, Page(plain).attributes
    for name, other in zip(NAMES, NAMES[1:] + NAMES[:1], strict=True):
        found = files(point(name, other), point(other, name), Result("c", name, {other: name}, error=name or "no"))
        page = Page(found["index.html"])
        assert page.tags == tags
        assert page.attributes == attributes
        assert not set("\x00\x1b\u202e") & set("".join(found.values()))
        assert len(found["index.html"]) < 60_000
        assert not any(line.startswith(tuple("=+-@")) for line in found["explore.csv"].splitlines())


def test_every_number_has_a_place() -> None:
    for low, high in product(NUMBERS, NUMBERS):
        page = files(point("a", fps=low, lut=high), point("b", fps=high, lut=low))["index.html"]
        assert len(page) < 20_000
        assert "nan" not in page
        assert page.count("<circle") == 2


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "1e31", "9" * 400])
def test_kept_numbers_are_numbers(value: str) -> None:
    with pytest.raises(ValueError, match="not a result"):
        Result.from_json(f'{{"key": "k", "model": "m", "labels": {{}}, "measures": {{"lut": {value}}}}}')
