"""Entries of lists, compared natively: the same objects, at places that both lists have."""

from typing import Any

import pytest

from hotlap.native import extension

native: Any = extension().module

pytestmark = pytest.mark.skipif(native is None, reason=f"no native core: {extension().why_not}")

NOW = [object() for _ in range(5)]


@pytest.mark.parametrize(
    ("then", "numbers", "same"),
    [
        ([*NOW], [], True),
        ([*NOW], [0, 4, 4, 2], True),
        ([*NOW[:4], object()], [0, 3], True),
        ([*NOW[:4], object()], [0, 4], False),
        (NOW[:4], [4], False),
        ([*NOW], [5], False),
        ([*NOW], [-1], False),
        ([*NOW], [1 << 80], False),
        ([*NOW], ["0"], False),
    ],
)
def test_entries_are_the_same_objects(then: list[Any], numbers: list[Any], same: bool) -> None:
    assert native.same_entries(NOW, then, numbers) is same
