"""Where gradients point: a layer that climbs instead of descending is seen, and rounding is not taken for that."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

from hotlap.gate import Evidence, judge
from hotlap.probe.sampling import direction
from hotlap.record import Run, Update, Verdict
from tests.unit.gate.recorded import recorded

NUM_STEPS, FLIPPED_FROM = 120, 60


def angle(a: torch.Tensor, b: torch.Tensor) -> float:
    mine, other = direction(a), direction(b)
    assert mine is not None and other is not None
    return math.pi * (int(mine, 16) ^ int(other, 16)).bit_count() / 64


@pytest.mark.parametrize("shape", [(3,), (50,), (300, 20), (100_000,)])
def test_a_direction_turns_with_the_sign_and_not_with_the_size(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    assert angle(x, 1e-20 * x) == 0.0
    assert angle(x, -3 * x) == math.pi
    assert angle(x, x.bfloat16()) < 0.1


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
def test_the_angle_is_about_that_of_the_tensors(share: float) -> None:
    found = []
    for seed in range(20):
        x, y = torch.randn(2, 5000, generator=torch.Generator().manual_seed(seed))
        found.append(angle(x, share * x + math.sqrt(1 - share**2) * y))
    assert sum(found) / len(found) == pytest.approx(math.acos(share), abs=0.15)


@pytest.mark.parametrize("x", [torch.zeros(5), torch.empty(0), torch.tensor([1.0, math.nan]), torch.tensor([math.inf])])
def test_what_points_nowhere_has_no_direction(x: torch.Tensor) -> None:
    assert direction(x) is None


@cache
def run(*, seed: int = 0, perturbation: int = 0, bf16: bool = False, flipped: bool = False, pulled: float = 0.0) -> Run:
    """A perceptron whose first layer learns so slowly that the loss does not tell which way it goes. `pulled`: part of
    its first gradient that comes from elsewhere."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
    slow, fast = list(model[0].parameters()), list(model[2].parameters())
    optimizer = torch.optim.SGD([{"params": slow, "lr": 1e-7}, {"params": fast, "lr": 0.02}])

    def loss_of() -> torch.Tensor:
        x = torch.randn(16, 10)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss: torch.Tensor = (model(x).float() - x[:, :1].sin()).square().mean()
        return loss

    def flip(step: int) -> None:
        for p in slow:
            assert p.grad is not None
            if flipped and step >= FLIPPED_FROM:
                p.grad.neg_()
            if pulled and not step:
                p.grad += pulled * p.grad.norm() * torch.nn.functional.normalize(torch.ones_like(p).flatten(), dim=0)[0]

    return recorded(
        loss_of,
        [*slow, *fast],
        optimizer,
        num_steps=NUM_STEPS,
        num_samples=16,
        seed=seed,
        perturbation=perturbation,
        on_gradients=flip,
    )


def evidence(*, bf16: bool, flipped: bool) -> Evidence:
    lever = [run(seed=seed, bf16=bf16, flipped=flipped) for seed in range(5)]
    return Evidence(
        base=(run(), run()),
        lever=(lever[0],),
        perturbed=tuple(run(perturbation=k) for k in (1, 2, 3)),
        base_seeds=tuple(run(seed=seed) for seed in range(5)),
        lever_seeds=tuple(lever),
    )


@pytest.mark.parametrize(("contract", "bf16"), [("rounding", False), ("statistical", False), ("statistical", True)])
def test_a_layer_that_climbs_from_some_step_on_is_seen_though_the_loss_is_the_same(contract: str, bf16: bool) -> None:
    ruling = judge(contract, evidence(bf16=bf16, flipped=True))
    assert ruling.verdict is Verdict.HARMED
    assert "degrees away from where it points in the baseline" in ruling.why
    assert judge(contract, evidence(bf16=bf16, flipped=False)).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("pulled", [0.0, 0.15])
@pytest.mark.parametrize("far", [False, True])
def test_a_first_gradient_is_no_further_away_than_bfloat16_explains(pulled: float, far: bool) -> None:
    """As of a mask that leaks: the loss of a net that has not learnt yet hardly tells. `far`: rounding turns its
    gradients by as much, as in a dozen convolutions in front of small batches."""
    lever = [run(seed=seed, bf16=True, pulled=pulled) for seed in range(5)]
    rounded = run(perturbation=-1)
    if far:
        first, second, *others = rounded.updates or ()
        assert second.projections is not None
        moved = tuple(tuple(1.2 * x for x in one or ()) for one in second.projections)
        rounded = replace(rounded, updates=(first, replace(second, projections=moved), *others))
    e = replace(evidence(bf16=False, flipped=False), lever=(lever[0],), lever_seeds=tuple(lever), rounded=(rounded,))
    ruling = judge("statistical", e)
    assert ruling.verdict is (Verdict.HARMED if pulled and not far else Verdict.UNHARMED), ruling.why
    assert ("bfloat16 explains" in ruling.why) is (ruling.verdict is Verdict.HARMED)
    assert judge("statistical", replace(e, rounded=())).verdict is Verdict.UNHARMED, "where that is not known"
    one_without = (run(bf16=True), *lever[1:])
    e = replace(e, lever=one_without[:1], lever_seeds=one_without)
    assert judge("statistical", e).verdict is Verdict.UNHARMED, "as of a unit that flips in one run and not in the next"


@pytest.mark.parametrize(
    ("of_base", "of_lever", "is_harm"),
    [
        ("4 bytes, highest", "4 bytes, highest", True),
        ("4 bytes, highest", "2 bytes, highest", False),
        ("4 bytes, highest", "4 bytes, medium", False),
        ("2 bytes, highest", "2 bytes, highest", False),
        (None, None, False),
    ],
)
def test_a_first_loss_is_another_one_only_where_numbers_are_shorter(
    of_base: str | None, of_lever: str | None, is_harm: bool
) -> None:
    """It is as far away as bfloat16 takes it: as of a mask that leaks a little, where nothing is rounded to that."""
    e = evidence(bf16=False, flipped=False)
    base = tuple(replace(one, precision=of_base) for one in e.base_seeds)
    lever = tuple(replace(run(seed=seed, bf16=True), precision=of_lever) for seed in range(5))
    e = replace(e, base=base[:1] * 2, base_seeds=base, lever=lever[:1], lever_seeds=lever)
    ruling = judge("statistical", e)
    assert ruling.verdict is (Verdict.HARMED if is_harm else Verdict.UNHARMED), ruling.why
    assert ("The first loss is" in ruling.why) is is_harm
    other_draws = tuple(replace(one, content=((float(k), 1.0),) * NUM_STEPS) for k, one in enumerate(lever))
    base = tuple(replace(one, content=((7.0, 1.0),) * NUM_STEPS) for one in base)
    e = replace(e, base=base[:1] * 2, base_seeds=base, lever=other_draws[:1], lever_seeds=other_draws)
    assert "The first loss is" not in judge("statistical", e).why, "of other data it may be any"


def test_gradients_of_other_draws_may_point_anywhere_but_backwards() -> None:
    """Of another seed, as if the lever drew other numbers from the first step on."""
    e = evidence(bf16=False, flipped=False)
    others = tuple(replace(run(seed=10 + seed), seed=seed) for seed in range(5))
    ruling = judge("statistical", replace(e, lever=others[:1], lever_seeds=others))
    assert "degrees" not in ruling.why


@pytest.mark.parametrize("dropout", [False, True])
def test_of_other_draws_that_no_state_shows_the_first_loss_tells_and_gradients_may_point_anywhere(
    dropout: bool,
) -> None:
    """As if samples came in another order, and a dropout fell on other ones."""
    draws = ((dropout, False, True),) * NUM_STEPS
    e = evidence(bf16=False, flipped=False)
    base = tuple(replace(one, draws=draws) for one in e.base_seeds)
    others = tuple(begun_as(one, replace(run(seed=10 + k), draws=draws)) for k, one in enumerate(base))
    same_weights = tuple(
        replace(other, updates=started_as(one, other)) for one, other in zip(base, others, strict=True)
    )
    e = replace(e, base=(base[0], base[0]), perturbed=(), base_seeds=base)
    ruling = judge("statistical", replace(e, lever=same_weights[:1], lever_seeds=same_weights))
    assert ("The first gradient" in ruling.why) is not dropout


def begun_as(one: Run, other: Run) -> Run:
    """`other`, as if it had the seed, the batches and the states of generators of `one`."""
    return replace(other, seed=one.seed, batch_digest=one.batch_digest, rng_digest=one.rng_digest)


def started_as(one: Run, other: Run) -> tuple[Update, ...]:
    """Updates of `other`, as if its weights were at first those of `one`."""
    (mine, *_), (first, *later) = one.updates or (), other.updates or ()
    return replace(first, starts=mine.starts), *later


@pytest.mark.parametrize("times", [1.0, 1.2])
def test_weights_may_be_made_in_another_order_but_not_larger(times: float) -> None:
    """Then the first losses and gradients are others, by as many random numbers."""
    e = evidence(bf16=False, flipped=False)
    base = e.base_seeds
    others = []
    for k, one in enumerate(base):
        first, *later = (other := begun_as(one, run(seed=10 + k))).updates or ()
        larger = tuple(times * size for size in first.starts or () if isinstance(size, float))
        others.append(replace(other, updates=(replace(first, starts=larger), *later)))
    ruling = judge("statistical", replace(e, lever=tuple(others[:1]), lever_seeds=tuple(others)))
    assert "The first" not in ruling.why
    assert ("begins 1." in ruling.why) is (times > 1)


Drops = tuple[tuple[float | None, int, int], ...]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (((0.1, 36, 9_000),), ((0.1, 24, 4_000),), "drop 10% of 4,000 elements in 24 calls; in the baseline of 9,000"),
        (((0.1, 36, 9_000),), ((0.2, 36, 9_000),), "drop 10% of 0 elements in 0 calls"),
        (((0.1, 1, 10),), ((0.1, 1, 10), (0.5, 1, 8)), "drop 50% of 8 elements in 1 call; in the baseline of 0"),
        (((0.1, 36, 9_000),), ((0.1, 12, 9_000),), None),
        (((0.1, 36, 9_000),), ((0.1, 36, 7_000),), None),
        (((0.1, 36, 9_000),), ((0.1, 24, 4_000), (None, 12, 5_000)), None),
        (((0.1, 36, 9_000),), (), None),
        (((0.1, 36, 9_000),), None, None),
    ],
)
def test_one_of_several_dropouts_that_is_lost_is_told_and_one_that_is_written_otherwise_is_not(
    before: Drops, after: Drops | None, why: str | None
) -> None:
    e = evidence(bf16=False, flipped=False)
    base = tuple(replace(one, dropouts=before) for one in e.base_seeds)
    lever = tuple(replace(one, dropouts=after) for one in e.lever_seeds)
    ruling = judge(
        "statistical", replace(e, base=(base[0], base[0]), base_seeds=base, lever=lever[:1], lever_seeds=lever)
    )
    assert (ruling.verdict is Verdict.HARMED) == (why is not None)
    assert why is None or why in ruling.why


def test_layers_that_are_left_out_by_chance_drop_now_more_and_now_less() -> None:
    e = evidence(bf16=False, flipped=False)
    base = tuple(replace(one, dropouts=((0.1, 3 + k, 90 + 30 * k),)) for k, one in enumerate(e.base_seeds))
    lever = tuple(replace(one, dropouts=((0.1, 9 - k, 270 - 30 * k),)) for k, one in enumerate(e.lever_seeds))
    ruling = judge(
        "statistical", replace(e, base=(base[0], base[0]), base_seeds=base, lever=lever[:1], lever_seeds=lever)
    )
    assert ruling.verdict is Verdict.UNHARMED


def with_aside(*, seed: int, detached: bool, weight: float = 0.2) -> Run:
    """A perceptron with a second head, whose loss is not to reach what both heads stand on."""
    torch.manual_seed(seed)
    body, head, aside = nn.Sequential(nn.Linear(10, 32), nn.Tanh()), nn.Linear(32, 1), nn.Linear(32, 10)
    params = [p for part in (body, head, aside) for p in part.parameters()]

    def loss_of() -> torch.Tensor:
        x = torch.randn(16, 10)
        hidden = body(x)
        shown = aside(hidden.detach() if detached else hidden)
        loss: torch.Tensor = (head(hidden) - x[:, :1].sin()).square().mean() + weight * (shown - x).square().mean()
        return loss

    optimizer = torch.optim.AdamW(params, lr=1e-5)
    return recorded(loss_of, params, optimizer, num_steps=NUM_STEPS, num_samples=16, seed=seed)


@pytest.mark.parametrize("detached", [True, False])
def test_a_detach_that_was_lost_shows_in_the_first_gradient_as_the_loss_before_it_is_the_same(detached: bool) -> None:
    bases = tuple(with_aside(seed=seed, detached=True) for seed in range(5))
    levers = tuple(with_aside(seed=seed, detached=detached) for seed in range(5))
    e = Evidence(base=bases[:1] * 2, lever=levers[:1], base_seeds=bases[1:], lever_seeds=levers[1:])
    ruling = judge("statistical", e)
    assert ruling.verdict is (Verdict.UNHARMED if detached else Verdict.HARMED)
    assert ("first gradient" in ruling.why) is not detached
    assert not ruling.by_chance


@pytest.mark.parametrize("weight", [0.2, 1.0])
def test_a_first_loss_that_is_the_same_in_one_pair_may_be_so_by_luck(weight: float) -> None:
    """bfloat16 leaves it to the last digits now and then, and turns gradients; it makes no others of them."""
    bases = tuple(with_aside(seed=seed, detached=True, weight=weight) for seed in range(2))
    lever = with_aside(seed=0, detached=False, weight=weight)
    ruling = judge("rounding", Evidence(base=bases[:1] * 2, lever=(lever,), perturbed=bases[:1]))
    assert ruling.verdict is Verdict.HARMED and "The first gradient of Sequential.0" in ruling.why
    assert ruling.by_chance is (weight == 0.2)
