"""The search for bit widths: a price makes hardware smaller and digits are still read."""

from __future__ import annotations

from xml.etree import ElementTree

from headrace.build.examples import load_example


def test_a_price_makes_hardware_smaller() -> None:
    search = load_example("bit_width_search", "search")
    free, priced = search.search(0.0, epochs=12, fine_tuning=3), search.search(1e-4, epochs=12, fine_tuning=3)
    assert priced.luts < free.luts
    assert priced.bit_operations < free.bit_operations
    assert max(priced.bits) < max(free.bits)
    assert priced.accuracy > 0.85
    assert len(search.show(priced).split()) == 9
    picture = ElementTree.fromstring(search.picture([free, priced]))
    assert sum(element.tag.endswith("circle") for element in picture) == 2
