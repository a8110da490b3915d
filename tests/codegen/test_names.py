"""Names from models become identifiers that every tool accepts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.codegen.keywords import RESERVED
from headrace.codegen.names import MAX_LENGTH, Namespace, identifier, is_identifier


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fc1", "fc1"),
        ("a/b; rm -rf", "a_b_rm_rf"),
        ("../../x", "x"),
        ("module", "module_0"),
        ("class", "class_0"),
        ("", "unnamed"),
        ("/", "unnamed"),
        ("1x1", "n1x1"),
        ("a__b", "a_b"),
        ("_under_", "under"),
        ("größe", "gr_e"),
        ("$display", "display"),
    ],
)
def test_identifier(name: str, expected: str) -> None:
    assert identifier(name) == expected


@given(st.text(max_size=100))
def test_identifiers_are_legal_and_short(name: str) -> None:
    result = identifier(name)
    assert is_identifier(result)
    assert len(result) <= MAX_LENGTH + 2


@given(st.lists(st.text(max_size=60) | st.sampled_from(["a/b", "a_b", "A_B", "a_b_1", "module"]), max_size=12))
def test_namespace_never_repeats(names: list[str]) -> None:
    namespace = Namespace(["a_b_2"])
    given_out = [namespace.new(name) for name in names]
    assert len({n.lower() for n in given_out} | {"a_b_2"}) == len(names) + 1
    assert all(map(is_identifier, given_out))


def test_long_names_keep_their_end() -> None:
    assert identifier("block/" * 20 + "conv2").endswith("block_conv2")


@pytest.mark.parametrize("word", ["module", "wire", "final", "namespace", "bool", "before", "string", "uwire"])
def test_reserved_words(word: str) -> None:
    assert word in RESERVED
    assert not is_identifier(word)


@pytest.mark.parametrize("text", ["", "1a", "a b", "a-b", "a__b", "_a", "a\n", "ä"])
def test_not_identifiers(text: str) -> None:
    assert not is_identifier(text)
