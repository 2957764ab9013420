"""Two processes that train together: each is held to its own baseline, and both to equal parameters."""

from dataclasses import replace

import pytest

from hotlap.gate import Evidence, judge
from hotlap.record import Run, StateDigest, Verdict
from tests.unit.gate.trainer import NUM_STEPS, Training, evidence, train

CONTRACTS = ("exact", "rounding", "statistical")


def together(first: Evidence, second: Evidence, *, apart: bool = False, apart_under_lever: bool = False) -> Evidence:
    """`first` and `second` as what two ranks recorded."""

    def joined(mine: tuple[Run, ...], others: tuple[Run, ...], differ: bool) -> tuple[Run, ...]:
        return tuple(
            replace(a, world_size=2, states=model("same"), peers=(
                replace(b, rank=1, world_size=2, states=model("other" if differ else "same")),
            ))
            for a, b in zip(mine, others, strict=True)
        )  # fmt: skip

    return Evidence(
        base=joined(first.base, second.base, apart),
        lever=joined(first.lever, second.lever, apart_under_lever),
        perturbed=joined(first.perturbed, second.perturbed, apart),
        base_seeds=joined(first.base_seeds, second.base_seeds, apart),
        lever_seeds=joined(first.lever_seeds, second.lever_seeds, apart_under_lever),
    )


def model(parameters: str) -> tuple[StateDigest, ...]:
    return (StateDigest(step=NUM_STEPS - 1, name="Net", digest="same", counts="3", parameters=parameters),)


def of_rank(rank: int, **lever: object) -> Evidence:
    """The ranks have other samples."""
    return evidence(Training(seed=10 * rank), num_seeds=3, **lever)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_lever_that_changes_nothing_on_any_rank_is_unharmed(contract: str) -> None:
    ruling = judge(contract, together(of_rank(0), of_rank(1)))
    assert ruling.verdict is Verdict.UNHARMED, ruling.why
    assert "each of 2 ranks" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_other_samples_on_another_rank_alone_are_harm_and_the_rank_is_told(contract: str) -> None:
    ruling = judge(contract, together(of_rank(0), of_rank(1, stale=2)))
    assert ruling.verdict is Verdict.HARMED
    assert ruling.why.startswith("Rank 1: Step ") and "other samples" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_parameters_that_part_are_harm_unless_they_do_so_in_the_baseline(contract: str) -> None:
    ranks = of_rank(0), of_rank(1)
    ruling = judge(contract, together(*ranks, apart_under_lever=True))
    assert ruling.verdict is Verdict.HARMED
    assert f"parameters of Net are not the same on all ranks after step {NUM_STEPS - 1}" in ruling.why
    assert judge(contract, together(*ranks, apart=True, apart_under_lever=True)).verdict is Verdict.UNHARMED


def test_a_rank_of_which_nothing_is_known_proves_nothing() -> None:
    both = together(of_rank(0), of_rank(1))
    alone = replace(both, lever=tuple(replace(run, peers=()) for run in both.lever))
    ruling = judge("exact", alone)
    assert ruling.verdict is Verdict.UNDECIDED
    assert "nothing is known of rank 1" in ruling.why
    nobody = Evidence(base=(replace(train(Training()), world_size=2),) * 2, lever=alone.lever)
    assert judge("exact", nobody).verdict is Verdict.UNDECIDED
