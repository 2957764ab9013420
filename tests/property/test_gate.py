"""How many injected faults the gate catches, and how many harmless changes it lets pass, on a small NumPy training.

Run with `-s` to see the table. Harms are hidden in the arithmetic; what the script states about itself stays true.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hotlap.gate import Evidence, judge
from hotlap.gate.statistical import Gap
from hotlap.record import Verdict
from tests.unit.gate.trainer import HARMS, Training, evidence, train

HARMLESS: dict[str, dict[str, dict[str, object]]] = {
    "exact": {"nothing": {}},
    "rounding": {"nothing": {}, "sums in halves": {"order": "halves"}, "sums in float64": {"order": "double"}},
    "statistical": {
        "nothing": {},
        "sums in halves": {"order": "halves"},
        "bfloat16": {"order": "bf16"},
        "other dropout masks": {"other_masks": True},
    },
}
# Least share of all injected faults that must come out HARMED.
CAUGHT = 0.97
SEEDS = {"exact": (0, 1, 2), "rounding": (0, 1, 2), "statistical": (0,)}


@pytest.fixture(autouse=True, scope="module")
def forget_trainings() -> Iterator[None]:
    yield
    train.cache_clear()


def verdicts(contract: str, lever: dict[str, object]) -> Counter[Verdict]:
    """Verdicts over seeds and optimizers."""
    return Counter(
        judge(contract, evidence(Training(optimizer=name, seed=seed), num_seeds=5 if many else 1, **lever)).verdict
        for name in ("adam", "sgd")
        for seed in SEEDS[contract]
        for many in [contract == "statistical"]
    )


@pytest.mark.parametrize("contract", SEEDS)
def test_planted_harms_are_caught(contract: str) -> None:
    total: Counter[Verdict] = Counter()
    print(f"\n{contract:32} HARMED UNDECIDED UNHARMED")
    for name, lever in HARMS.items():
        found = verdicts(contract, lever)
        print(f"{name:32} {found[Verdict.HARMED]:6} {found[Verdict.UNDECIDED]:9} {found[Verdict.UNHARMED]:8}")
        total += found
    assert total[Verdict.HARMED] >= CAUGHT * total.total()


@pytest.mark.parametrize("contract", SEEDS)
def test_harmless_changes_pass(contract: str) -> None:
    total: Counter[Verdict] = Counter()
    for lever in HARMLESS[contract].values():
        total += verdicts(contract, lever)
    assert total[Verdict.UNHARMED] >= 0.95 * total.total()


def gap_of(base: NDArray[np.float64], lever: NDArray[np.float64]) -> Gap:
    """Of losses seed by seed, where nothing but the spread is allowed."""
    return Gap("loss", base, lever, fall=0.0)


@pytest.mark.parametrize(("num_seeds", "own_share"), [(5, 0.1), (5, 0.5), (3, 0.1)])
def test_a_difference_as_large_as_the_margin_is_called_equal_in_one_case_of_twenty_at_most(
    num_seeds: int, own_share: float
) -> None:
    """The spread over seeds is known from as few of them. `own_share`: of it, what differs within a pair of a seed."""
    rng = np.random.default_rng(0)
    equal = 0
    for _ in range(2000):
        base = rng.normal(0, 1, num_seeds)
        equal += gap_of(base, base + 1.0 + rng.normal(0, own_share, num_seeds)).is_equal()
    assert equal <= 0.06 * 2000


@pytest.mark.parametrize("own_share", [0.05, 0.1, 0.3, 0.5])
def test_a_second_look_at_more_seeds_does_not_make_it_more_cases(own_share: float) -> None:
    rng = np.random.default_rng(0)
    equal = passed = 0
    for _ in range(2000):
        base, own = rng.normal(0, 1, 10), rng.normal(0, own_share, 10)
        equal += any(gap_of(base[:k], base[:k] + 1.0 + own[:k]).is_equal() for k in (5, 10))
        passed += any(gap_of(base[:k], base[:k] + own[:k]).is_equal() for k in (5, 10))
    assert equal <= 0.06 * 2000
    assert passed >= 0.9 * 2000


def test_gaps_that_grow_to_the_size_of_the_loss_are_still_rounding() -> None:
    passed = 0
    for seed in range(10):
        chaotic = Training(optimizer="sgd", rate=0.2, seed=seed)
        passed += judge("rounding", evidence(chaotic, num_seeds=1, order="halves")).verdict is Verdict.UNHARMED
    assert passed >= 9


@settings(max_examples=40)
@given(
    contract=st.sampled_from(sorted(SEEDS)),
    picks=st.lists(st.integers(0, 3), max_size=3),
    levers=st.lists(st.integers(0, 3), max_size=3),
)
def test_only_a_real_comparison_is_ever_called_unharmed(contract: str, picks: list[int], levers: list[int]) -> None:
    full = evidence(Training(), num_seeds=4, order="bf16")
    some = Evidence(
        base=full.base[: len(picks)],
        lever=full.lever[: len(levers)],
        base_seeds=tuple(full.base_seeds[k % 3] for k in picks),
        lever_seeds=tuple(full.lever_seeds[k % 3] for k in levers),
    )
    ruling = judge(contract, some)
    assert ruling.why
    if ruling.verdict is Verdict.UNHARMED:
        assert contract == "statistical"
        assert len({k % 3 for k in picks}) >= 2 and len({k % 3 for k in levers}) >= 2
