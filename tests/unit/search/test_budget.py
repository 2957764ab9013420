"""The seconds of a study: what is left, what may be added, and what must be kept."""

from dataclasses import dataclass

from hotlap.search.study_log import Budget


@dataclass
class Clock:
    """Time that passes when told to."""

    s: float = 100.0

    def __call__(self) -> float:
        return self.s


def test_earlier_parts_of_a_study_and_later_stages_have_their_share() -> None:
    clock = Clock()
    budget = Budget(300.0, spent_s=40.0, now=clock)
    clock.s += 60.0
    assert (budget.spent_s, budget.left_s) == (100.0, 200.0)
    budget.later_s = 120.0
    assert budget.left_s == 80.0


def test_what_comes_first_must_fit_now_and_what_follows_into_the_longer_budget() -> None:
    budget = Budget(100.0, longer_s=160.0, now=Clock())
    assert budget.affords(60.0, 60.0, keep_s=40.0)
    assert not budget.affords(70.0, keep_s=40.0), "the longer budget is not there yet"
    assert not budget.affords(60.0, 70.0, keep_s=40.0)
    assert not Budget(100.0, now=Clock()).affords(60.0, 60.0, keep_s=40.0)


def test_it_is_extended_once_and_only_where_the_user_left_the_choice() -> None:
    budget = Budget(100.0, longer_s=160.0, now=Clock())
    assert budget.extension_s == 60.0
    assert [budget.extend(), budget.extend()] == [True, False]
    assert (budget.total_s, budget.extension_s) == (160.0, 0.0)
    assert not Budget(100.0, now=Clock()).extend()


def test_a_trial_group_is_cut_short_at_some_times_its_estimate_and_shortly_after_the_end() -> None:
    clock = Clock()
    budget = Budget(300.0, now=clock)
    assert budget.limit_s(10.0) == 90.0
    clock.s += 290.0
    assert budget.limit_s(10.0) == 30.0
    clock.s += 100.0
    assert budget.limit_s(10.0) == 20.0, "never so little that nothing is seen"
    assert budget.limit_s(30.0) == 60.0, "nor too little for what it should take"
