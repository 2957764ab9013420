"""Ticks on an axis."""

import pytest

from hotlap.report.scale import nice_ticks


@pytest.mark.parametrize("span", [1e-9, 0.0127, 1.0, 37.0, 5e8])
def test_ticks_are_round_few_and_within(span: float) -> None:
    ticks = nice_ticks(span)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] <= span * (1 + 1e-6)
