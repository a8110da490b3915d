"""Which keyword of a layer goes to which of its quantizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.errors import did_you_mean
from headrace.inject.errors import QuantizerTypeError
from headrace.inject.vocabulary import VOCABULARY


def split_keywords(layer: str, keywords: Mapping[str, object], prefixes: Sequence[str]) -> dict[str, dict[str, object]]:
    """The keywords of each prefix, prefix removed; an empty prefix takes what the others leave.

    Raises:
        QuantizerTypeError: a keyword with none of the prefixes.
    """
    groups: dict[str, dict[str, object]] = {prefix: {} for prefix in prefixes}
    for keyword, given in keywords.items():
        prefix = next((p for p in sorted(prefixes, key=len, reverse=True) if keyword.startswith(p)), None)
        if prefix is None:
            known = [p + name for p in prefixes for name in VOCABULARY]
            raise QuantizerTypeError(
                f"{layer}: unknown keyword {keyword!r}{did_you_mean(keyword, known)}; "
                f"keywords of quantizers start with {', '.join(prefixes)}"
            )
        groups[prefix][keyword.removeprefix(prefix)] = given
    return groups
