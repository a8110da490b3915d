"""Select: permutations, parts, maxima of few and of many elements, constants."""

import numpy as np

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.select import Select

INT3 = IntRange(-4, 3)
UINT4 = IntRange(0, 15)
BIPOLAR = IntRange(-1, 1, bipolar=True)
RNG = np.random.default_rng(0)


def blocks(pixels: list[list[int]], channels: int) -> np.ndarray:
    """Pixels of *channels* elements from pixels; -1 is a constant one."""
    first = np.array(pixels)[:, None, :]
    return np.where(first < 0, -1, first * channels + np.arange(channels)[:, None]).reshape(-1, first.shape[-1])


CASES = {
    "pairs": Select(StreamType((3, 4, 8), INT3), blocks([[0, 1], [2, 3]], 2)),
    "permuted": Select(StreamType((5, 6), UINT4), RNG.permutation(6)[:, None]),
    "part": Select(StreamType((5, 8), BIPOLAR), np.array([[7], [2], [3]])),
    "repeated": Select(StreamType((2, 3, 6), INT3), blocks([[0], [0], [1], [1]], 3)),
    "overlapping": Select(StreamType((4, 10), INT3), blocks([[k, k + 1, k + 2] for k in range(3)], 2)),
    "uneven": Select(StreamType((4, 6), UINT4), np.array([[0, 0, 0], [0, 1, 1], [1, 4, 5]])),
    "four": Select(StreamType((4, 4), INT3), np.array([[0, 1, 2, 3], [3, 2, 1, 1]])),
    "many": Select(StreamType((6, 36), INT3), blocks([list(range(18))], 2)),
    "many_bipolar": Select(StreamType((9, 5), BIPOLAR), np.array([[0, 1, 2, 3, 4], [4, 4, 4, 4, 4]])),
    "filled": Select(StreamType((4, 6), INT3), blocks([[-1], [0], [-1], [2], [-1]], 2), fill=-7),
    "filled_positive": Select(StreamType((4, 2), IntRange(3, 5)), np.array([[-1, 1], [0, -1]]), fill=1),
    "filled_bipolar": Select(StreamType((4, 2), BIPOLAR), np.array([[-1], [0], [1]]), fill=0),
    "filled_copy": Select(StreamType((4, 2), BIPOLAR), np.array([[-1], [0], [1]]), fill=-1),
    "one_word": Select(StreamType((12,), UINT4), RNG.integers(0, 12, (5, 7))),
}
