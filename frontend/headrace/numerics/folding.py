"""How matrices and per-channel parameters are spread over PE processing elements of SIMD inputs each.

A matrix of MH outputs (rows) by MW inputs (columns) is folded into NF = MH / PE by SF = MW / SIMD steps. In step
``nf * SF + sf`` element ``simd`` of processing element ``pe`` sees row ``nf * PE + pe``, column ``sf * SIMD + simd``.
This is FINN's order.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.errors import FoldingError, InputError
from headrace.numerics.bit_packing import Bytes
from headrace.numerics.datatypes import DataType
from headrace.numerics.integers import RealArray, require_divides
from headrace.numerics.packing import pack_bytes, unpack_bytes

S = TypeVar("S", bound=np.generic)


def fold_counts(mh: int, mw: int, pe: int, simd: int) -> tuple[int, int]:
    """(NF, SF) = (MH / PE, MW / SIMD).

    Raises:
        FoldingError: when PE does not divide MH or SIMD does not divide MW; lists what would.
    """
    nf = require_divides(pe, mh, part_name="PE", whole_name="MH", error=FoldingError)
    sf = require_divides(simd, mw, part_name="SIMD", whole_name="MW", error=FoldingError)
    return nf, sf


def interleave_weights(matrix: NDArray[S], pe: int, simd: int) -> NDArray[S]:
    """[MH, MW] to [PE, NF * SF, SIMD]: one memory for each processing element."""
    nf, sf = _matrix_folds(matrix, pe, simd)
    return matrix.reshape(nf, pe, sf, simd).transpose(1, 0, 2, 3).reshape(pe, nf * sf, simd)


def deinterleave_weights(tiles: NDArray[S], mh: int, mw: int) -> NDArray[S]:
    """Inverse of :func:`interleave_weights`: [PE, NF * SF, SIMD] to [MH, MW]."""
    if tiles.ndim != 3 or tiles.size != mh * mw:
        raise InputError(f"weights of shape {tiles.shape} are not [PE, NF*SF, SIMD] of a {mh} x {mw} matrix")
    pe, _, simd = tiles.shape
    nf, sf = fold_counts(mh, mw, pe, simd)
    return tiles.reshape(pe, nf, sf, simd).transpose(1, 0, 2, 3).reshape(mh, mw)


def weight_memory_words(
    matrix: ArrayLike, dtype: DataType, pe: int, simd: int, pad_to_bits: int | None = None
) -> Bytes:
    """The words of one memory that feeds all processing elements.

    Word ``nf * SF + sf`` has at element ``pe * SIMD + simd`` (element 0 lowest) the weight of row ``nf * PE + pe``
    and column ``sf * SIMD + simd``.

    Returns:
        uint8 [NF * SF, ceil(PE * SIMD * bits / 8)].

    Raises:
        FoldingError: when PE or SIMD do not divide.
        DataTypeError: for a weight that is not a value of *dtype*.
    """
    array = np.asarray(matrix)
    nf, sf = _matrix_folds(array, pe, simd)
    by_word = array.reshape(nf, pe, sf, simd).transpose(0, 2, 1, 3).reshape(nf * sf, pe * simd)
    return pack_bytes(by_word, dtype, pad_to_bits)


def weights_from_memory_words(words: ArrayLike, dtype: DataType, pe: int, simd: int, mh: int, mw: int) -> RealArray:
    """Inverse of :func:`weight_memory_words`: the matrix [MH, MW]."""
    nf, sf = fold_counts(mh, mw, pe, simd)
    values = unpack_bytes(words, dtype, pe * simd)
    if values.shape != (nf * sf, pe * simd):
        raise InputError(f"a {mh} x {mw} matrix at PE={pe}, SIMD={simd} takes {nf * sf} words, not {values.shape[:-1]}")
    matrix: RealArray = values.reshape(nf, sf, pe, simd).transpose(0, 2, 1, 3).reshape(mh, mw)
    return matrix


def interleave_channels(per_channel: NDArray[S], pe: int) -> NDArray[S]:
    """[C, ...] to [NF, PE, ...]: what each processing element needs in fold nf, for channel ``nf * PE + pe``.

    Raises:
        FoldingError: when PE does not divide C.
    """
    if per_channel.ndim == 0:
        raise InputError("a scalar has no channels to interleave; an array [C, ...] is accepted")
    channels = per_channel.shape[0]
    nf = require_divides(pe, channels, part_name="PE", whole_name="channels", error=FoldingError)
    return per_channel.reshape(nf, pe, *per_channel.shape[1:])


def deinterleave_channels(folded: NDArray[S]) -> NDArray[S]:
    """Inverse of :func:`interleave_channels`: [NF, PE, ...] to [C, ...]."""
    if folded.ndim < 2:
        raise InputError(f"an array of shape {folded.shape} is not folded; [NF, PE, ...] is accepted")
    return folded.reshape(folded.shape[0] * folded.shape[1], *folded.shape[2:])


def _matrix_folds(matrix: NDArray[np.generic], pe: int, simd: int) -> tuple[int, int]:
    if matrix.ndim != 2:
        raise InputError(f"weights of shape {matrix.shape} are not a matrix [MH, MW]")
    return fold_counts(matrix.shape[0], matrix.shape[1], pe, simd)
