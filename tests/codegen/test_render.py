"""What may stand in generated text, and how it is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.codegen import render
from headrace.layers import RtlModule


@pytest.mark.parametrize(
    ("value", "width", "text"), [(10, 4, "4'ha"), (-1, 4, "4'hf"), (-8, 4, "4'h8"), (0, 1, "1'h0"), (2**70, 71, None)]
)
def test_hexlit(value: int, width: int, text: str | None) -> None:
    assert render.hexlit(value, width) == (text or f"{width}'h{value:x}")


@pytest.mark.parametrize(
    ("value", "width", "signed", "text"), [(5, 3, False, "3'd5"), (-5, 4, True, "-4'sd5"), (7, 4, True, "4'sd7")]
)
def test_declit(value: int, width: int, signed: bool, text: str) -> None:
    assert render.declit(value, width, signed) == text


@pytest.mark.parametrize(
    "call",
    [
        lambda: render.hexlit(16, 4),
        lambda: render.hexlit(-9, 4),
        lambda: render.declit(8, 3),
        lambda: render.declit(-1, 3),
        lambda: render.declit(8, 4, True),
        lambda: render.bits(0),
        lambda: render.ident("a b"),
        lambda: render.ident("module"),
        lambda: render.quoted('a"b'),
        lambda: render.quoted("a\\b"),
        lambda: render.quoted("%d"),
    ],
)
def test_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"fit|vector|identifier|literal"):
        call()


def test_comments_are_one_safe_line() -> None:
    assert render.comment("a\nb`c\\d\u2028é */ x") == "a_b_c_d__ * / x"
    assert len(render.comment("n" * 100_000)) == render.LONGEST_COMMENT
    for text in (
        "synthesis translate_off",
        " Verilator lint_off WIDTH",
        "pragma protect begin",
        "-- synopsys translate_off",
    ):
        assert render.comment(text) == f"'{text}'"
    assert render.comment("synthesised, x synthesis translate_off") == "synthesised, x synthesis translate_off"


def test_plain_text_is_refused() -> None:
    """Text that went through no filter cannot reach generated code, whatever the template says."""
    environment = render._environment("rtl")
    template = environment.from_string("{{ x }}")
    assert template.render(x=3) == "3"
    for value in ("text", 1.5, True, None):
        with pytest.raises(TypeError, match="filter"):
            template.render(x=value)


def test_module_and_memories() -> None:
    context = {"depth": 0, "bits_in_word": 3}
    text, files = render.render_module(RtlModule("fifo.sv.j2", context, {"init": "0\n"}), "f0", "a/b\nendmodule")
    assert "module f0 (" in text
    assert "// a/b_endmodule\n" in text
    assert files == {"f0_init.hex": "0\n"}


def test_every_library_module_renders_and_is_named_after_its_file() -> None:
    for name in render.library_modules():
        module, text = render.render_library(f"{name}.sv.j2")
        assert module == name
        assert f"\nmodule {name} #(" in text
