"""Layouts: what reshapes and transposes do to the order of a stream."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InputError
from headrace.passes.layout import Layout

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """A layout by axes, or any order at all."""
    shape = draw(shapes)
    if draw(st.booleans()):
        return Layout.by_axes(shape, tuple(draw(st.permutations(range(len(shape))))))
    order = np.array(draw(st.permutations(range(math.prod(shape)))), np.int64)
    return Layout.by_order(shape, (math.prod(shape),), order)


def frames_of(layout: Layout) -> np.ndarray:
    return np.arange(3 * layout.size).reshape(3, *layout.shape)


@given(layouts())
def test_pack_follows_order_and_unpack_inverts_it(layout: Layout) -> None:
    x = frames_of(layout)
    stream = layout.pack(x)
    assert stream.shape == (3, *layout.frame)
    assert (stream.reshape(3, -1) == x.reshape(3, -1)[:, layout.order]).all()
    assert (layout.unpack(stream) == x).all()


@given(layouts(), st.data())
def test_transpose_and_reshape_leave_the_stream_as_it_is(layout: Layout, data: st.DataObject) -> None:
    x = frames_of(layout)
    perm = tuple(data.draw(st.permutations(range(len(layout.shape)))))
    turned = layout.transposed(perm)
    assert (turned.pack(x.transpose(0, *(1 + p for p in perm))) == layout.pack(x)).all()
    for shape in ((layout.size,), (1, *layout.shape), tuple(n for n in layout.shape if n > 1), (layout.size, 1)):
        assert (layout.reshaped(shape).pack(x.reshape(3, *shape)) == layout.pack(x)).all()


@given(layouts(), layouts())
def test_same_order_means_equal_order(a: Layout, b: Layout) -> None:
    if a.shape == b.shape:
        assert a.same_order(b) == bool((a.order == b.order).all())
    for axes in (tuple(range(len(a.shape))), (*range(1, len(a.shape)), 0)):
        assert a.follows(axes) == bool((a.order == Layout.by_axes(a.shape, axes).order).all())


def test_channels_last_stays_symbolic_through_units_and_back() -> None:
    layout = Layout.channels_last((6, 5, 4))
    assert layout.axes is not None
    assert layout.reshaped((6, 1, 5, 4)).axes is not None
    assert layout.transposed((1, 2, 0)).is_row_major
    assert layout.reshaped((6, 20)).transposed((1, 0)).is_row_major
    assert layout.reshaped((120,)).axes is None


def test_permuted_channels() -> None:
    layout = Layout.channels_last((3, 2, 2), np.array([2, 0, 1]))
    x = frames_of(layout)
    assert (layout.pack(x) == np.moveaxis(x, 1, -1)[..., [2, 0, 1]]).all()


def test_frames_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"\[4\] where \[3\]"):
        Layout.row_major((3,)).pack(np.zeros((2, 4), np.int64))
