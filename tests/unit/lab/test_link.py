"""link: what the lab says of steps over emulated links."""

from hotlap.lab import link
from hotlap.lab.link import LINKS, Answer
from hotlap.lab.scripts.emulated_link import SPEEDS

# No link, and four of them: the slowest doubles the step.
STEPS_S = (0.010, 0.020, 0.011, 0.010, 0.010)
BUSY_S = (0.0, 0.015, 0.002, 0.0002, 0.0002)


def test_every_link_has_a_speed() -> None:
    assert len(LINKS) == 1 + len(SPEEDS)


def test_a_step_over_each_link_stands_beside_one_without() -> None:
    result = link.tell(4, Answer(step_s=tuple((one,) * 5 for one in STEPS_S), busy_s=BUSY_S))
    (table,) = result.tables
    assert [[str(cell) for cell in row] for row in table.rows[:2]] == [
        ["none", "None", "10.0 ms (10.0 ms to 10.0 ms)"],
        ["1 Gbit/s", "15.0 ms", "20.0 ms (20.0 ms to 20.0 ms)"],
    ]
    assert "on a link of 1 Gbit/s for 15.0 ms of a step. It takes 20.0 ms" in result.story[0]
