"""Which keyword of a layer goes to which of its quantizers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from headrace.errors import did_you_mean
from headrace.inject.errors import QuantizerTypeError, QuantizerValueError
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


@contextmanager
def keywords_of(layer: str, prefix: str) -> Iterator[None]:
    """While a part of *layer* is built with the keywords that start with *prefix*: errors say so.

    Raises:
        QuantizerTypeError, QuantizerValueError: as the part raises them.
    """
    try:
        yield
    except (QuantizerTypeError, QuantizerValueError) as error:
        raise type(error)(f"{layer}, keywords that start with {prefix!r}: {error}") from error
