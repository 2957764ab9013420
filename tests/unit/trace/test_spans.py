"""Sets of moments, against the same on a grid of small whole numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.trace import spans
from hotlap.trace.spans import Spans

_END = 40
Pairs = list[tuple[int, int]]
some = st.lists(st.tuples(st.integers(0, _END - 1), st.integers(0, 9)).map(lambda one: (one[0], one[0] + one[1])))


def made(pairs: Pairs) -> Spans:
    ends = np.array(pairs, dtype=float).reshape(-1, 2)
    return spans.union(ends[:, 0], ends[:, 1])


def cells(pairs: Pairs) -> set[int]:
    return {cell for start, end in pairs for cell in range(start, end)}


@given(some)
def test_a_union_is_sorted_and_does_not_touch_itself(pairs: Pairs) -> None:
    found = made(pairs)
    assert spans.length(found) == len(cells(pairs))
    assert np.all(found[1:, 0] > found[:-1, 1])


@given(some, some)
def test_differences_and_common_moments(ours: Pairs, others: Pairs) -> None:
    a, b = made(ours), made(others)
    assert spans.length(spans.without(a, b)) == len(cells(ours) - cells(others))
    assert spans.length(spans.common(a, b)) == len(cells(ours) & cells(others))
    assert spans.length(spans.either(a, b)) == len(cells(ours) | cells(others))


@given(some, st.integers(0, _END), st.integers(0, _END))
def test_how_much_lies_between_two_moments(pairs: Pairs, start: int, end: int) -> None:
    (found,) = spans.within(made(pairs), np.array([float(start)]), np.array([float(end)]))
    assert found == pytest.approx(len(cells(pairs) & set(range(start, end))), abs=1e-9)
