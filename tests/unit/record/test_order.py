"""hotlap.record.order: who takes a turn after whom."""

from collections import Counter
from itertools import chain, islice, pairwise

import pytest

from hotlap.record.order import rounds, whole_rounds

NUMBERS = (3, 4, 5, 6, 7, 8)


def of_one_design(num_arms: int, seed: int = 0) -> list[tuple[int, ...]]:
    return list(islice(rounds(num_arms, seed), num_arms if num_arms % 2 == 0 else 2 * num_arms))


@pytest.mark.parametrize("num_arms", [1, 2, *NUMBERS])
def test_each_round_names_every_arm_once(num_arms: int) -> None:
    for round_ in islice(rounds(num_arms, 3), 50):
        assert sorted(round_) == list(range(num_arms))


@pytest.mark.parametrize("num_arms", [2, *NUMBERS])
@pytest.mark.parametrize("seed", range(5))
def test_each_arm_stands_at_each_place_equally_often(num_arms: int, seed: int) -> None:
    made = islice(rounds(num_arms, seed), whole_rounds(7, num_arms))
    for places in zip(*made, strict=True):
        assert set(Counter(places).values()) == {whole_rounds(7, num_arms) // num_arms}


@pytest.mark.parametrize("num_arms", NUMBERS)
def test_within_rounds_each_arm_follows_each_other_one_equally_often(num_arms: int) -> None:
    followed = Counter(chain.from_iterable(map(pairwise, of_one_design(num_arms))))
    assert len(followed) == num_arms * (num_arms - 1)
    assert len(set(followed.values())) == 1


@pytest.mark.parametrize("num_arms", NUMBERS)
def test_from_three_arms_on_none_takes_two_turns_in_a_row(num_arms: int) -> None:
    turns = list(chain.from_iterable(islice(rounds(num_arms, 1), 200)))
    assert all(one != other for one, other in pairwise(turns))


def test_of_two_arms_both_take_two_turns_in_a_row_equally_often() -> None:
    turns = list(chain.from_iterable(islice(rounds(2, 1), 4000)))
    doubled = Counter(one for one, other in pairwise(turns) if one == other)
    assert doubled[0] == pytest.approx(doubled[1], rel=0.1)


def test_a_seed_is_one_order_and_another_seed_another() -> None:
    assert list(islice(rounds(4, 1), 40)) == list(islice(rounds(4, 1), 40))
    assert list(islice(rounds(4, 1), 40)) != list(islice(rounds(4, 2), 40))
