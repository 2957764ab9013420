"""link: what the lab says of steps over emulated links."""

import pytest

from hotlap.lab import link
from hotlap.lab.link import LINKS, Answer
from hotlap.lab.result import Quantity
from hotlap.lab.scripts.emulated_link import SPEEDS

# No link, and four of them: the slowest doubles the step.
STEPS_S = (0.010, 0.020, 0.011, 0.010, 0.010)
BUSY_S = (0.0, 0.015, 0.002, 0.0002, 0.0002)


def answer() -> Answer:
    return Answer(step_s=(tuple((one,) * 5 for one in STEPS_S),), busy_s=(BUSY_S,))


def test_every_link_has_a_speed() -> None:
    assert len(LINKS) == 1 + len(SPEEDS)


def test_the_cost_of_a_link_is_a_ratio_with_an_interval_from_three_pairs_of_processes_on() -> None:
    (table,) = link.tell((4,), [answer()] * 3).tables
    slow = next(row for row in table.rows if row[1] == "1 Gbit/s")
    ratio = slow[-1]
    assert isinstance(ratio, Quantity)
    assert ratio.value == pytest.approx(0.5)
    assert ratio.low is not None and ratio.high is not None
    assert ratio.low < 0.5 < ratio.high
    assert [row[-1] for row in table.rows if row[1] == "none"] == [None]


def test_one_pair_of_processes_has_times_alone() -> None:
    result = link.tell((4,), [answer()])
    assert [row[-1] for row in result.tables[0].rows] == [None] * len(LINKS)
    assert result.story == (
        "4 MiB of gradients are on a link of 1 Gbit/s for 15.0 ms of a step that takes 10.0 ms without one: compared "
        "too seldom for a ratio.",
    )
