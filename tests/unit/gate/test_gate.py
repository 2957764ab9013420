"""The gate on one small training: what it must refuse, what it must let pass, and what it says about it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from hotlap.gate import Evidence, Ruling, judge
from hotlap.record import COPY, FILE, NonFinite, Number, Run, StateDigest, Status, Update, Verdict, as_float
from tests.sample_runs import optimizer
from tests.unit.gate.trainer import NUM_STEPS, Training, evidence, train

CONTRACTS = ("exact", "rounding", "statistical")
PLAIN = Training()
PLAIN_LOSSES = train(PLAIN).loss


def same(num_seeds: int = 3) -> Evidence:
    """A lever that changes nothing."""
    return evidence(PLAIN, num_seeds=num_seeds)


def with_lever_run(change: dict[str, object], start: Evidence | None = None) -> Evidence:
    """`change` applied to each run with the lever."""
    start = start or same()
    return replace(
        start,
        lever=tuple(replace(run, **change) for run in start.lever),  # type: ignore[arg-type]
        lever_seeds=tuple(replace(run, **change) for run in start.lever_seeds),  # type: ignore[arg-type]
    )


def everywhere(change: dict[str, object]) -> Evidence:
    """`change` applied to all runs."""

    def changed(runs: tuple[Run, ...]) -> tuple[Run, ...]:
        return tuple(replace(run, **change) for run in runs)  # type: ignore[arg-type]

    e = same()
    return Evidence(
        base=changed(e.base),
        lever=changed(e.lever),
        perturbed=changed(e.perturbed),
        base_seeds=changed(e.base_seeds),
        lever_seeds=changed(e.lever_seeds),
    )


def cut(run: Run, keep: slice) -> Run:
    """Only some of the steps, with their numbers."""
    first = range(len(run.step_index))[keep].start
    assert run.batch_digest and run.rng_digest and run.settings_digest and run.learning_rates
    return replace(
        run,
        step_index=run.step_index[keep],
        loss=run.loss[keep],
        num_samples=run.num_samples[keep],
        num_updates=run.num_updates[keep],
        learning_rates=run.learning_rates[keep],
        batch_digest=run.batch_digest[keep],
        rng_digest=run.rng_digest[keep],
        settings_digest=run.settings_digest[keep],
        epoch_starts=tuple(i - first for i in run.epoch_starts if first <= i < range(len(run.loss))[keep].stop),
    )


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_lever_that_changes_nothing_is_unharmed(contract: str) -> None:
    ruling = judge(contract, same())
    assert ruling.verdict is Verdict.UNHARMED
    assert f"{NUM_STEPS} steps, an epoch's end among them" in ruling.why


def test_an_unknown_contract_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="recipe"):
        judge("recipe", same())


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("bad", [NonFinite.NAN, NonFinite.POSITIVE])
def test_one_loss_that_is_not_finite_is_harm(contract: str, bad: NonFinite) -> None:
    losses = train(PLAIN).loss
    ruling = judge(contract, with_lever_run({"loss": (*losses[:-1], bad)}))
    assert ruling.verdict is Verdict.HARMED
    assert f"step {NUM_STEPS - 1} is {bad}" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_losses_that_are_nan_on_both_sides_leave_nothing_to_compare(contract: str) -> None:
    nan: tuple[Number, ...] = (NonFinite.NAN,) * NUM_STEPS
    ruling = judge(contract, everywhere({"loss": nan}))
    assert ruling.verdict is Verdict.UNDECIDED
    assert "nothing to compare" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"loss": (None,) * NUM_STEPS}, "no loss"),
        ({"loss": ()}, "no loss"),
        ({"status": Status.CRASHED, "error": "IndexError in step 3"}, "crashed: IndexError in step 3"),
        ({"status": Status.HUNG}, "hung"),
        ({"not_installed": ("no fused kernel for Adagrad",)}, "no fused kernel"),
        ({"unreached": ("/x/train.py",)}, "did not run the edit of /x/train.py"),
        ({"updates": None}, "not recorded"),
        ({"learning_rates": None}, "not recorded"),
        ({"settings_digest": None}, "not recorded"),
        ({"num_updates": ()}, "not recorded"),
        ({"step_index": (), "loss": ()}, "made no step"),
        ({"seed": 99}, "seed"),
    ],
)
def test_missing_evidence_is_never_harmless(contract: str, change: dict[str, object], said: str) -> None:
    ruling = judge(contract, with_lever_run(change))
    assert ruling.verdict is Verdict.UNDECIDED
    assert said in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_no_run_at_all_is_never_harmless(contract: str) -> None:
    empty = Evidence(base=(), lever=())
    assert judge(contract, empty).verdict is Verdict.UNDECIDED
    assert judge(contract, replace(same(), lever=())).verdict is Verdict.UNDECIDED
    assert judge(contract, replace(same(), base=())).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("contract", ["exact", "rounding"])
def test_batches_must_be_recorded_where_they_must_be_equal(contract: str) -> None:
    assert judge(contract, everywhere({"batch_digest": None})).verdict is Verdict.UNDECIDED
    none: dict[str, object] = {"batch_digest": (None,) * NUM_STEPS}
    ruling = judge(contract, with_lever_run(none))
    assert ruling.verdict is Verdict.UNDECIDED
    assert "of one side only" in ruling.why


@pytest.mark.parametrize("contract", ["exact", "rounding"])
def test_a_training_in_which_no_batch_is_seen_is_judged_by_the_rest(contract: str) -> None:
    """It has neither a loader nor a module."""
    unseen = everywhere({"batch_digest": (None,) * NUM_STEPS})
    assert judge(contract, unseen).verdict is Verdict.UNHARMED
    wrong = train(replace(PLAIN, rate_times=1.1))
    assert judge(contract, replace(unseen, lever=(replace(wrong, batch_digest=(None,) * NUM_STEPS),))).verdict is (
        Verdict.HARMED
    )


WHOLE, LAST = (32, 640, 32), (22, 440, 22)


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (((64, 1280, 64),) * NUM_STEPS, "Step 0 has other samples than the baseline: 64 instead of 32."),
        ((WHOLE,) * NUM_STEPS, "Step 99 has other samples than the baseline: 32 instead of 22."),
        ((*((32, 704, 32),) * 99, LAST, *(WHOLE,) * 20), None),
        ((*((640, 640, 640),) * 99, (440, 440, 440), *((640, 640, 640),) * 20), None),
        ((*((64, 1000, 32),) * 99, (44, 800, 22), *((64, 1000, 32),) * 20), None),
        ((None,) * NUM_STEPS, None),
    ],
    ids=["twice", "no last batch", "padded", "by places of a sequence", "by two models in a row", "not seen"],
)
def test_models_must_be_given_as_many_samples_whoever_draws_them(
    contract: str, given: tuple[object, ...], said: str | None
) -> None:
    e = everywhere(
        {"given": (*(WHOLE,) * 99, LAST, *(WHOLE,) * 20), "num_samples": (None,) * NUM_STEPS, "epoch_starts": ()}
    )
    ruling = judge(contract, with_lever_run({"given": given}, e))
    assert ruling.verdict is (Verdict.UNHARMED if said is None else Verdict.HARMED)
    assert (said or "") in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_batch_may_be_drawn_ahead_of_its_step(contract: str) -> None:
    e = everywhere({"given": (WHOLE,) * NUM_STEPS})
    first, *others = train(PLAIN).num_samples
    ahead: dict[str, object] = {"num_samples": (64, *others[:-1], None)}
    assert first == 32
    assert judge(contract, with_lever_run(ahead, e)).verdict is Verdict.UNHARMED
    assert judge(contract, with_lever_run(ahead)).verdict is Verdict.HARMED


def test_random_states_must_be_recorded_to_be_called_equal() -> None:
    assert judge("exact", everywhere({"rng_digest": None})).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_fewer_than_twenty_common_steps_decide_nothing(contract: str) -> None:
    short = evidence(PLAIN, num_seeds=3)
    few = replace(
        short,
        lever=tuple(cut(run, slice(0, 19)) for run in short.lever),
        lever_seeds=tuple(cut(run, slice(0, 19)) for run in short.lever_seeds),
    )
    ruling = judge(contract, few)
    assert ruling.verdict is Verdict.UNDECIDED
    assert "19 steps" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_runs_are_aligned_by_the_step_of_the_training_not_by_position(contract: str) -> None:
    e = same()
    late = replace(
        e,
        lever=tuple(cut(run, slice(15, 100)) for run in e.lever),
        lever_seeds=tuple(cut(run, slice(15, 100)) for run in e.lever_seeds),
    )
    assert judge(contract, late).verdict is Verdict.UNHARMED
    shifted = with_lever_run({"step_index": tuple(range(5, NUM_STEPS + 5))})
    assert judge(contract, shifted).verdict is Verdict.HARMED


def test_a_window_without_an_epochs_end_says_so() -> None:
    e = same()
    within = replace(e, base=tuple(cut(r, slice(0, 20)) for r in e.base), lever=(cut(e.lever[0], slice(0, 20)),))
    ruling = judge("exact", replace(within, perturbed=()))
    assert ruling.verdict is Verdict.UNHARMED
    assert "no epoch's end" in ruling.why


RATES = train(PLAIN).learning_rates or ()


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_updates": (1,) * 50 + (0,) + (1,) * (NUM_STEPS - 51)}, "Step 50 has other updates"),
        ({"learning_rates": (*RATES[:40], (0.5,), *RATES[41:])}, "Step 40 has other learning rates"),
        ({"settings_digest": ("other",) * NUM_STEPS}, "Step 0 has other optimizer settings"),
        ({"num_samples": (*(train(PLAIN).num_samples[:-1]), 7)}, f"Step {NUM_STEPS - 1} has other samples"),
        ({"epoch_starts": (0, 60)}, "starts of a loader"),
        ({"skipped_updates": 2}, "2 updates were skipped"),
        (
            {"forgetful_updates": (0,) * 9 + (1,) + (0,) * (NUM_STEPS - 10)},
            "Step 9 has other updates without what the optimizer had kept",
        ),
        (
            {"num_added": (1,) * 9 + (2,) * (NUM_STEPS - 9)},
            "step 9 are by gradients that were not cleared as in the baseline: 2 backward passes in place of 1",
        ),
        (
            {"loss": (*train(PLAIN).loss[:30], None, *train(PLAIN).loss[31:])},
            "Step 30 has other losses than the baseline: none instead of one",
        ),
    ],
)
def test_other_bookkeeping_is_harm_under_every_contract(contract: str, change: dict[str, object], said: str) -> None:
    ruling = judge(
        contract,
        with_lever_run(change, everywhere(ONE_PASS | {"forgetful_updates": (0,) * NUM_STEPS})),
    )
    assert ruling.verdict is Verdict.HARMED
    assert said in ruling.why


ONE_PASS: dict[str, object] = dict.fromkeys(("num_backwards", "num_added"), (1,) * NUM_STEPS)
SPLIT = {"num_backwards": (1, 4) * (NUM_STEPS // 2), "num_added": (1, 4) * (NUM_STEPS // 2)}


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_backward_pass_that_is_split_or_parts_that_are_merged_are_no_gradients_that_were_not_cleared(
    contract: str,
) -> None:
    for base, lever in ((ONE_PASS, SPLIT), (SPLIT, ONE_PASS)):
        assert judge(contract, with_lever_run(dict(lever), everywhere(dict(base)))).verdict is Verdict.UNHARMED


DROPOUT = ((True, False, False),) * NUM_STEPS


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    ("from_step_40", "said"),
    [
        ((False, False, False), "passes with gradients draw no random numbers at step 40; in the baseline they do."),
        ((True, True, False), "passes without gradients draw random numbers at step 40; in the baseline they do not"),
        ((False, False, True), None),
        ((None, None, False), None),
        ((True, False, True), None),
    ],
    ids=["lost", "left on", "moved", "other passes", "more elsewhere"],
)
def test_passes_that_draw_no_numbers_any_more_or_some_at_last_are_harm(
    contract: str, from_step_40: tuple[bool | None, ...], said: str | None
) -> None:
    change: dict[str, object] = {"draws": (*DROPOUT[:40], *(from_step_40,) * (NUM_STEPS - 40))}
    ruling = judge(contract, with_lever_run(change, everywhere({"draws": DROPOUT})))
    assert ruling.verdict is (Verdict.UNHARMED if said is None else Verdict.HARMED)
    assert (said or "") in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_model_may_draw_what_a_loader_has_drawn_though_that_draws_an_order_still(contract: str) -> None:
    e = everywhere({"draws": ((False, False, True),) * NUM_STEPS})
    moved = ((True, False, True), *((True, False, False),) * (NUM_STEPS - 1))
    assert judge(contract, with_lever_run({"draws": moved}, e)).verdict is Verdict.UNHARMED
    added = ((True, False, True),) * NUM_STEPS
    assert judge(contract, with_lever_run({"draws": added}, e)).verdict is Verdict.HARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_passes_that_draw_at_some_steps_in_the_baseline_may_do_so_at_others(contract: str) -> None:
    baseline = everywhere({"draws": (*DROPOUT[:-1], (False, False, False))})
    ruling = judge(contract, with_lever_run({"draws": ((False, False, False), *DROPOUT[1:])}, baseline))
    assert ruling.verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_learning_rates_that_react_to_chance_are_no_harm_of_the_levers(contract: str) -> None:
    e = same()
    twitchy = tuple((rate[0] * 0.5,) for rate in RATES)
    changed = replace(e, base_seeds=(replace(e.base_seeds[0], learning_rates=twitchy), *e.base_seeds[1:]))
    assert judge(contract, changed).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_rate_kept_as_float32_is_the_same_rate(contract: str) -> None:
    single = tuple((rate[0] * (1 + 6e-8),) for rate in RATES)
    assert judge(contract, with_lever_run({"learning_rates": single})).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_training_that_ends_early_is_harm(contract: str) -> None:
    e = same()
    ended = replace(
        e,
        lever=tuple(replace(cut(run, slice(0, 80)), status=Status.ENDED) for run in e.lever),
        lever_seeds=tuple(replace(cut(run, slice(0, 80)), status=Status.ENDED) for run in e.lever_seeds),
    )
    ruling = judge(contract, ended)
    assert ruling.verdict is Verdict.HARMED
    assert "came to step 79; in the baseline to step 119" in ruling.why


@pytest.mark.parametrize(
    ("lever", "verdict"),
    [((80, 92, 86, 98, 84), Verdict.UNHARMED), ((81, 91, 83, 96, 87), Verdict.UNHARMED), ((50,) * 5, Verdict.HARMED)],
)
def test_ends_that_vary_with_the_seed_are_compared_as_numbers(lever: Sequence[int], verdict: Verdict) -> None:
    """No seed of the baseline has the others' ends, so another one by itself is no harm."""

    def ended(runs: Sequence[Run], ends: Sequence[int]) -> tuple[Run, ...]:
        return tuple(replace(cut(run, slice(0, end)), status=Status.ENDED) for run, end in zip(runs, ends, strict=True))

    e = evidence(PLAIN, num_seeds=5, other_masks=True)
    base, others = ended((e.base[0], *e.base_seeds), (80, 92, 86, 98, 84)), ended((e.lever[0], *e.lever_seeds), lever)
    ruling = judge(
        "statistical", Evidence(base=base[:1], lever=others[:1], base_seeds=base[1:], lever_seeds=others[1:])
    )
    assert ruling.verdict is verdict
    assert ("the last step of the training" in ruling.why) is (verdict is Verdict.HARMED)


def touched(share: float) -> tuple[Update, ...]:
    """The baseline's updates, with only `share` of the last parameter's elements changed."""
    return tuple(replace(u, changed=(*u.changed[:-1], u.changed[-1] * share)) for u in train(PLAIN).updates or ())


def test_elements_that_stay_although_they_change_in_the_baseline_are_harm() -> None:
    ruling = judge("exact", with_lever_run({"updates": touched(0.9)}))
    assert ruling.verdict is Verdict.HARMED
    assert "10.0% of the elements of parameter 3 stay" in ruling.why


def test_elements_that_never_change_in_the_baseline_may_stay() -> None:
    assert judge("exact", everywhere({"updates": touched(0.1)})).verdict is Verdict.UNHARMED


def test_a_frozen_parameter_that_moves_is_harm() -> None:
    still = tuple(replace(u, norms=(0.0, *u.norms[1:])) for u in train(PLAIN).updates or ())
    e = same()
    ruling = judge("exact", replace(e, base=tuple(replace(run, updates=still) for run in e.base)))
    assert ruling.verdict is Verdict.HARMED
    assert "in the baseline it never is" in ruling.why


def test_exact_names_the_first_bit_that_differs() -> None:
    losses = train(PLAIN).loss
    first = losses[70]
    assert isinstance(first, float)
    other = (*losses[:70], math.nextafter(first, 9), *losses[71:])
    ruling = judge("exact", with_lever_run({"loss": other}))
    assert ruling.verdict is Verdict.HARMED
    assert "Step 70 has another loss" in ruling.why


def test_exact_refuses_a_random_stream_that_moved() -> None:
    states = train(PLAIN).rng_digest or ()
    ruling = judge("exact", with_lever_run({"rng_digest": (*states[:90], "moved", *states[91:])}))
    assert ruling.verdict is Verdict.HARMED
    assert "Step 90 has another random state" in ruling.why


@pytest.mark.parametrize("contract", ["exact", "rounding"])
def test_one_baseline_run_does_not_tell_whether_a_script_repeats_itself(contract: str) -> None:
    e = evidence(PLAIN, num_seeds=2, order="halves")
    alone = replace(e, base=e.base[:1], perturbed=())
    assert judge(contract, alone).verdict is Verdict.UNDECIDED
    assert judge(contract, replace(alone, lever=e.base[:1])).verdict is Verdict.UNHARMED


def test_exact_falls_to_seeds_where_the_script_draws_other_numbers_each_time() -> None:
    moody = train(replace(PLAIN, other_masks=True))
    e = evidence(PLAIN, num_seeds=5)
    ruling = judge("exact", replace(e, base=(e.base[0], moody)))
    assert ruling.verdict is Verdict.UNHARMED
    assert "differ first in the random state (step 0)" in ruling.why
    assert "5 seeds" in ruling.why
    bare = replace(e, base=(e.base[0], moody), base_seeds=(), lever_seeds=())
    assert judge("exact", bare).verdict is Verdict.UNDECIDED


def test_exact_falls_to_rounding_where_only_the_losses_are_not_repeatable() -> None:
    e = evidence(PLAIN, num_seeds=2, order="halves")
    restless = replace(e, base=(e.base[0], train(replace(PLAIN, order="double"))), perturbed=())
    ruling = judge("exact", restless)
    assert ruling.verdict is Verdict.UNHARMED
    assert "in the loss" in ruling.why
    moved = replace(e.lever[0], rng_digest=("moved",) * NUM_STEPS)
    assert judge("exact", replace(restless, lever=(moved,))).verdict is Verdict.HARMED
    wrong = train(replace(PLAIN, rate_times=1.1))
    assert judge("exact", replace(restless, lever=(wrong,))).verdict is Verdict.HARMED


def test_another_order_of_summation_is_rounding_and_not_exact() -> None:
    e = evidence(PLAIN, num_seeds=2, order="halves")
    assert judge("rounding", e).verdict is Verdict.UNHARMED
    assert judge("exact", e).verdict is Verdict.HARMED


def test_bfloat16_is_not_rounding() -> None:
    assert judge("rounding", evidence(PLAIN, num_seeds=2, order="bf16")).verdict is Verdict.HARMED


def test_differences_are_not_called_rounding_where_rounding_was_not_measured() -> None:
    e = evidence(PLAIN, num_seeds=2, rate_times=1.1)
    ruling = judge("rounding", replace(e, perturbed=()))
    assert ruling.verdict is not Verdict.UNHARMED


def test_two_seeds_do_not_make_a_statistical_verdict() -> None:
    ruling = judge("statistical", evidence(PLAIN, num_seeds=2, order="bf16"))
    assert ruling.verdict is Verdict.UNDECIDED
    assert "3 seeds" in ruling.why


def test_the_same_seed_twice_is_one_witness() -> None:
    e = evidence(PLAIN, num_seeds=2, order="bf16")
    twice = replace(e, base_seeds=e.base_seeds * 3, lever_seeds=e.lever_seeds * 3)
    assert judge("statistical", twice).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(("by", "verdict"), [(0.05, Verdict.UNHARMED), (0.1, Verdict.UNDECIDED)])
def test_seeds_are_equal_where_their_interval_lies_within_the_margin_not_their_mean(
    by: float, verdict: Verdict
) -> None:
    e = evidence(PLAIN, num_seeds=5)
    shifts = (by, -by, by, -by)  # 0 in the mean
    shifted = tuple(
        replace(run, loss=tuple((as_float(x) or 0.0) + shift for x in run.loss))
        for run, shift in zip(e.lever_seeds, shifts, strict=True)
    )
    assert judge("statistical", replace(e, lever_seeds=shifted)).verdict is verdict


def shifted_first_losses(shift: Callable[[int], float]) -> Evidence:
    """Of the k-th seed with the lever the first loss is `1 + shift(k)` times that of the baseline."""
    e = evidence(PLAIN, num_seeds=5)

    def shifted(runs: tuple[Run, ...], first: int) -> tuple[Run, ...]:
        factors = [1 + shift(first + k) for k in range(len(runs))]
        return tuple(
            replace(run, loss=(factor * (as_float(run.loss[0]) or 0.0), *run.loss[1:]))
            for run, factor in zip(runs, factors, strict=True)
        )

    return replace(e, lever=shifted(e.lever, 0), lever_seeds=shifted(e.lever_seeds, 1))


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [
        (lambda k: 0.002 + 1e-4 * k, Verdict.HARMED),
        (lambda k: 0.002 * (-1) ** k, Verdict.UNHARMED),
        (lambda k: 2e-4, Verdict.UNHARMED),
    ],
    ids=["steadily", "by chance", "a trifle"],
)
def test_a_first_loss_that_is_steadily_another_one_is_harm(shift: Callable[[int], float], verdict: Verdict) -> None:
    ruling = judge("statistical", shifted_first_losses(shift))
    assert ruling.verdict is verdict
    assert ("The first loss is +0.2" in ruling.why) is (verdict is Verdict.HARMED)


def test_where_rounding_grows_at_once_the_first_loss_tells_a_wrong_one_still() -> None:
    """Perturbed runs are anywhere after ten steps: what comes then proves nothing."""
    e = same()

    def chaotic(k: int) -> Run:
        gaps = [min(1.0, 1e-7 * 10.0**step) * math.sin(step + k) for step in range(NUM_STEPS)]
        losses = [(as_float(x) or 0.0) + gap for x, gap in zip(PLAIN_LOSSES, gaps, strict=True)]
        return replace(train(PLAIN), loss=(PLAIN_LOSSES[0], *losses[1:]))

    e = replace(e, perturbed=tuple(chaotic(k) for k in range(3)))
    assert judge("rounding", replace(e, lever=(chaotic(7),))).verdict is Verdict.UNHARMED
    first = as_float(PLAIN_LOSSES[0]) or 0.0
    wrong = replace(chaotic(7), loss=(first * 1.001, *chaotic(7).loss[1:]))
    ruling = judge("rounding", replace(e, lever=(wrong,)))
    assert ruling.verdict is Verdict.HARMED
    assert "The first loss is" in ruling.why and "before any update" in ruling.why


def test_seeds_that_do_not_coincide_prove_nothing() -> None:
    e = evidence(PLAIN, num_seeds=6)
    others = tuple(train(Training(seed=5000 + k)) for k in range(5))
    ruling = judge("statistical", replace(e, lever_seeds=others))
    assert ruling.verdict is Verdict.UNDECIDED


def test_a_loss_that_does_not_fall_proves_little_unless_samples_are_equal() -> None:
    still = Training(rate=1e-9)
    ruling = judge("statistical", evidence(still, num_seeds=4, other_masks=True))
    assert ruling.verdict is not Verdict.HARMED
    e = evidence(still, num_seeds=4, order="bf16")
    digests = tuple(f"{k}" for k in range(NUM_STEPS))
    unlike = tuple(replace(r, batch_digest=digests, rng_digest=digests) for r in e.lever_seeds)
    ruling = judge("statistical", replace(e, lever_seeds=unlike))
    assert ruling.verdict is Verdict.UNDECIDED
    assert "does not fall" in ruling.why


def with_updates(change: Callable[[Update], Update]) -> Evidence:
    """`change` applied to each update of each run with the lever."""

    def changed(runs: tuple[Run, ...]) -> tuple[Run, ...]:
        return tuple(replace(run, updates=tuple(map(change, run.updates or ()))) for run in runs)

    e = same()
    return replace(e, lever=changed(e.lever), lever_seeds=changed(e.lever_seeds))


def with_update(**change: object) -> Evidence:
    """All updates with the lever changed alike."""
    return with_updates(lambda update: replace(update, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_an_update_that_does_not_follow_from_its_gradient_is_harm(contract: str) -> None:
    ruling = judge(contract, with_update(departures=(1e-7, 1e-7, 5e-4, 1e-7)))
    assert ruling.verdict is Verdict.HARMED
    assert "parameter 2 at step 0 is 0.0005 of its size away" in ruling.why


def test_a_formula_that_fits_the_script_no_better_says_nothing() -> None:
    def coarse(runs: tuple[Run, ...]) -> tuple[Run, ...]:
        return tuple(
            replace(r, updates=tuple(replace(u, departures=(5e-4,) * 4) for u in r.updates or ())) for r in runs
        )

    e = with_update(departures=(2e-3,) * 4)
    own = replace(e, base=coarse(e.base), perturbed=coarse(e.perturbed), base_seeds=coarse(e.base_seeds))
    assert judge("exact", own).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_parameter_that_gets_no_gradient_any_more_is_harm(contract: str) -> None:
    def without(update: Update) -> Update:
        first, _, *others = update.gradients or ()
        return replace(update, gradients=(first, None, *others), filled=(1.0, None, 1.0, 1.0))

    filled = with_updates(lambda u: u).of_each(
        lambda run: replace(run, updates=tuple(replace(u, filled=(1.0,) * 4) for u in run.updates or ()))
    )
    lever = tuple(replace(run, updates=tuple(map(without, run.updates or ()))) for run in filled.lever)
    seeds = tuple(replace(run, updates=tuple(map(without, run.updates or ()))) for run in filled.lever_seeds)
    ruling = judge(contract, replace(filled, lever=lever, lever_seeds=seeds))
    assert ruling.verdict is Verdict.HARMED
    assert "100.0% of the elements of the gradient of parameter 1 are 0 that are not in the baseline" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_updates_whose_gradients_cannot_be_seen_are_judged_by_the_rest(contract: str) -> None:
    assert judge(contract, with_update(gradients=(None,) * 4, filled=None, departures=None)).verdict is Verdict.UNHARMED


def scaled_gradients(factor: float, filled: float = 1.0) -> Evidence:
    """Gradients of parameter 3 `factor` times as large, with `filled` of their elements left."""

    def scaled(update: Update) -> Update:
        *gradients, last = update.gradients or ()
        *shares, share = update.filled or ()
        assert isinstance(last, float) and share is not None
        return replace(update, gradients=(*gradients, factor * last), filled=(*shares, filled * share))

    return with_updates(scaled)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_gradients_of_another_size_are_harm_though_adam_hides_it(contract: str) -> None:
    ruling = judge(contract, scaled_gradients(0.5))
    assert ruling.verdict is Verdict.HARMED
    assert "gradients of parameter 3 are 0.5 times" in ruling.why
    assert judge(contract, scaled_gradients(1.01)).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("change", [{"rng_digest": ("other",) * NUM_STEPS}, {"loss": (7.0,) * NUM_STEPS}])
def test_the_first_gradient_of_one_run_is_told_where_all_else_is_the_same(change: dict[str, object]) -> None:
    """One pair is enough for it, and no other seed; other draws make another gradient, and may make another loss."""
    e = with_updates(
        lambda update: replace(update, gradients=tuple(0.9 * float(g or 0) for g in update.gradients or ()))
    )
    certain = judge("statistical", replace(e, lever_seeds=()))
    assert certain.verdict is Verdict.HARMED and not certain.by_chance
    assert "first gradient, of all parameters together, is 0.9 times" in certain.why
    other = judge("statistical", replace(with_lever_run(change, e), lever_seeds=()))
    assert "with the same batch, random numbers and loss" not in other.why


def test_harm_that_is_certain_is_told_before_harm_by_chance() -> None:
    def state(counts: str) -> tuple[StateDigest, ...]:
        return (StateDigest(step=3, name="Net.norm (BatchNorm1d)", digest="", counts=counts),)

    by_chance = scaled_gradients(0.5)
    assert judge("statistical", by_chance).by_chance
    base, lever = (dict[str, object](states=state(counts)) for counts in ("momentum 0.1", "momentum 0.2"))
    all_base = [tuple(replace(run, **base) for run in runs) for runs in (by_chance.base, by_chance.base_seeds)]  # type: ignore[arg-type]
    both = replace(with_lever_run(lever, by_chance), base=all_base[0], base_seeds=all_base[1])
    ruling = judge("statistical", both)
    assert "BatchNorm1d) has other settings" in ruling.why and not ruling.by_chance


def with_rounded_gradient(by_perturbing: float) -> Evidence:
    """The last gradient is 3 times as large with the lever; a perturbation changes it at once by a factor."""

    def perturbed(update: Update) -> Update:
        *gradients, last = update.gradients or ()
        moved = by_perturbing if 0 < update.step <= 2 else 1.0
        return replace(update, gradients=(*gradients, moved * (as_float(last) or 0.0)))

    e = scaled_gradients(3.0)
    runs = tuple(replace(run, updates=tuple(map(perturbed, run.updates or ()))) for run in e.perturbed)
    return replace(e, perturbed=runs)


@pytest.mark.parametrize(("by_perturbing", "verdict"), [(1.3, Verdict.UNHARMED), (1.001, Verdict.HARMED)])
def test_a_gradient_that_is_nothing_but_rounding_may_have_any_size(by_perturbing: float, verdict: Verdict) -> None:
    assert judge("rounding", with_rounded_gradient(by_perturbing)).verdict is verdict


@pytest.mark.parametrize("average", ["Average.module.last.bias", "Average.module.first.bias"])
def test_an_average_of_what_is_nothing_but_rounding_may_go_any_way(average: str) -> None:
    e = with_rounded_gradient(1.3)

    def followed(runs: tuple[Run, ...], size: float) -> tuple[Run, ...]:
        trained = ("Net.first.weight", "Net.first.bias", "Net.last.weight", "Net.last.bias")
        return tuple(replace(run, trained=trained, untrained=(average,)) for run in buffered(runs, size))

    e = replace(
        e, base=followed(e.base, 0.1), lever=followed(e.lever, 0.3), perturbed=followed(e.perturbed, 0.1), base_seeds=()
    )
    expected = Verdict.UNHARMED if "last" in average else Verdict.HARMED
    assert judge("rounding", e).verdict is expected


def test_gradients_that_underflow_are_harm() -> None:
    ruling = judge("statistical", scaled_gradients(1.0, filled=0.9))
    assert ruling.verdict is Verdict.HARMED
    assert "10.0% of the elements of the gradient of parameter 3 are 0" in ruling.why


def buffered(runs: tuple[Run, ...], size: float) -> tuple[Run, ...]:
    """Runs whose model keeps one statistic, which moves by `size` a step."""
    return tuple(replace(r, updates=tuple(replace(u, buffers=(size * u.step,)) for u in r.updates or ())) for r in runs)


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    ("size", "verdict", "said"),
    [
        (0.0, Verdict.HARMED, "has moved 1e-06 times as far"),
        (0.07, Verdict.HARMED, "0.7 times as far"),
        (0.101, Verdict.UNHARMED, ""),
    ],
)
def test_statistics_of_the_model_must_move_as_they_did(contract: str, size: float, verdict: Verdict, said: str) -> None:
    e = same()
    ruling = judge(
        contract,
        Evidence(
            base=buffered(e.base, 0.1),
            lever=buffered(e.lever, size),
            perturbed=buffered(e.perturbed, 0.1),
            base_seeds=buffered(e.base_seeds, 0.1),
            lever_seeds=buffered(e.lever_seeds, size),
        ),
    )
    assert ruling.verdict is verdict
    assert said in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(("size", "verdict"), [(0.07, Verdict.HARMED), (0.1, Verdict.UNHARMED)])
@pytest.mark.parametrize("model", ["Net", "FastNet"])
def test_statistics_are_compared_by_their_names_though_a_model_holds_one_more(
    contract: str, size: float, verdict: Verdict, model: str
) -> None:
    def holding(runs: tuple[Run, ...], own: dict[str, float], untrained: tuple[str, ...]) -> tuple[Run, ...]:
        return tuple(
            replace(
                run,
                untrained=untrained,
                updates=tuple(replace(u, buffers=tuple(k * u.step for k in own.values())) for u in run.updates or ()),
            )
            for run in runs
        )

    e = same()
    base = {"mean": 0.1, "var": 0.4}
    lever = {"a_mask": 0.0, "var": 0.4, "mean": size}
    names = [tuple(f"{kind}.norm.{name}" for name in own) for kind, own in (("Net", base), (model, lever))]
    ruling = judge(
        contract,
        Evidence(
            base=holding(e.base, base, names[0]),
            lever=holding(e.lever, lever, names[1]),
            perturbed=holding(e.perturbed, base, names[0]),
            base_seeds=holding(e.base_seeds, base, names[0]),
            lever_seeds=holding(e.lever_seeds, lever, names[1]),
        ),
    )
    assert ruling.verdict is verdict
    assert verdict is Verdict.UNHARMED or "Net.norm.mean, which is not trained, has moved 0.7 times" in ruling.why


def other_bytes(batch: int) -> dict[str, object]:
    """Other batches from one on, under the same random numbers."""
    digests = train(PLAIN).batch_digest or ()
    return {"batch_digest": (*digests[:batch], *(f"{k}" for k in range(batch, NUM_STEPS)))}


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    ("passes", "verdict"),
    [
        ((4, 4, 4, 2), Verdict.UNHARMED),
        ((1, 1, 1, 1), Verdict.UNHARMED),
        ((2, 2, 2, 1), Verdict.UNHARMED),
        ((4, 5, 4, 2), Verdict.UNHARMED),
        ((4, 4, 3, 2), Verdict.HARMED),
        ((1, 1, 0, 1), Verdict.HARMED),
        ((2, 2, 1, 1), Verdict.HARMED),
    ],
)
def test_a_backward_pass_that_some_steps_leave_out_is_harm(
    contract: str, passes: tuple[int, ...], verdict: Verdict
) -> None:
    e = everywhere({"num_backwards": (4, 4, 4, 2) * (NUM_STEPS // 4)})
    ruling = judge(contract, with_lever_run({"num_backwards": passes * (NUM_STEPS // 4)}, e))
    assert ruling.verdict is verdict
    number = min(passes[:-1])
    said = f"has {number} backward pass{'' if number == 1 else 'es'}; others that have 4 in the baseline have"
    assert verdict is Verdict.UNHARMED or said in ruling.why
    searched = everywhere(
        {"num_backwards": (4, 4, 4, 2) * (NUM_STEPS // 4), "optimizers": (replace(optimizer(), closure=True),)}
    )
    assert judge(contract, with_lever_run({"num_backwards": passes * (NUM_STEPS // 4)}, searched)).verdict is (
        Verdict.UNHARMED
    )


NEVER, REACHED, NONE = ("norm 1", False), ("norm 1", True), ("", False)


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (NEVER, ("norm 10", False), "norm 10 instead of norm 1"),
        (REACHED, ("norm 10", False), "norm 10 instead of norm 1"),
        (NEVER, ("value 1", False), "value 1 instead of norm 1"),
        (NEVER, NONE, "none instead of norm 1"),
        (NONE, NEVER, "norm 1 instead of none"),
        (REACHED, NONE, None),  # that it is clipped by other means is what its losses, which are the same, show
        (NONE, REACHED, None),
        (NEVER, REACHED, None),
        (NEVER, None, None),
    ],
)
def test_another_limit_of_gradients_is_harm_though_none_reaches_it(
    contract: str, before: tuple[str, bool], after: tuple[str, bool] | None, why: str | None
) -> None:
    start = everywhere({"clips": (before,) * NUM_STEPS})
    ruling = judge(contract, with_lever_run({"clips": (after,) * NUM_STEPS}, start))
    assert (ruling.verdict is Verdict.HARMED) == (why is not None)
    assert why is None or why in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_limit_that_follows_the_gradients_is_no_harm(contract: str) -> None:
    start = everywhere({"clips": (NEVER,) * NUM_STEPS})
    followed = tuple((f"norm {k}", False) for k in range(NUM_STEPS))
    start = replace(start, base=(start.base[0], *(replace(run, clips=followed) for run in start.base[1:])))
    ruling = judge(contract, with_lever_run({"clips": followed[::-1]}, start))
    assert ruling.verdict is not Verdict.HARMED


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(("before", "after"), [(1000, 900), (1000, 1000), (1000, None), (None, 900)])
def test_a_training_of_another_length_is_harm(contract: str, before: int | None, after: int | None) -> None:
    start = everywhere({"planned_steps": before})
    ruling = judge(contract, with_lever_run({"planned_steps": after}, start))
    assert (ruling.verdict is Verdict.HARMED) == (before == 1000 and after == 900)
    assert ruling.verdict is Verdict.UNHARMED or "make 900 steps; in the baseline 1,000" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (("last.pt", "log.csv"), ("log.csv",), True),
        (("last.pt",), (), True),
        (("last.pt",), ("last.pt", "train.py"), False),
        (("e=1-loss=0.5.ckpt",), ("e=1-loss=5.1e-05.ckpt",), False),
        (("last.pt",), None, False),
        (None, (), False),
    ],
)
def test_a_file_that_is_not_written_any_more_is_harm(
    contract: str, before: tuple[str, ...] | None, after: tuple[str, ...] | None, lost: bool
) -> None:
    start = everywhere({"written": before})
    ruling = judge(contract, with_lever_run({"written": after}, start))
    assert (ruling.verdict is Verdict.HARMED) == lost
    assert not lost or "does not write last.pt" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_files_of_another_name_in_each_run_are_not_compared(contract: str) -> None:
    start = everywhere({"written": ("run-ab/last.pt",)})
    start = replace(start, base=(start.base[0], *(replace(run, written=("run-cd/last.pt",)) for run in start.base[1:])))
    ruling = judge(contract, with_lever_run({"written": ("run-ef/last.pt",)}, start))
    assert ruling.verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_other_data_under_the_same_random_numbers_are_harm(contract: str) -> None:
    ruling = judge(contract, with_lever_run(other_bytes(1)))
    assert ruling.verdict is Verdict.HARMED
    assert "batch" in ruling.why


def test_data_by_other_draws_of_the_scripts_own_are_left_to_the_seeds() -> None:
    """A generator of its own has another state, or the loader has drawn nothing that is drawn later."""
    e = everywhere({"sources_digest": ("same",) * NUM_STEPS})
    assert judge("statistical", with_lever_run(other_bytes(1), e)).verdict is Verdict.HARMED
    drawn = other_bytes(1) | {"sources_digest": ("other",) * NUM_STEPS}
    assert judge("statistical", with_lever_run(drawn, e)).verdict is Verdict.UNHARMED
    assert judge("rounding", with_lever_run(drawn, e)).verdict is Verdict.HARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_other_batches_that_are_not_trained_on_are_those_of_the_validation(contract: str) -> None:
    e = everywhere({"num_validations": 2, "sources_digest": ("same",) * NUM_STEPS})
    digests = train(PLAIN).batch_digest or ()
    ruling = judge(contract, with_lever_run({"batch_digest": (*digests[:40], "other", *digests[41:])}, e))
    assert ruling.verdict is Verdict.HARMED
    assert ruling.why.startswith("The validation between steps 39 and 40 has other batches than in the baseline.")


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_script_that_validates_less_often_is_harm(contract: str) -> None:
    e = everywhere({"num_validations": 4})
    ruling = judge(contract, with_lever_run({"num_validations": 2}, e))
    assert ruling.verdict is Verdict.HARMED
    assert ruling.why == f"The script validates 2 times in {NUM_STEPS} steps; in the baseline 4."
    assert judge(contract, with_lever_run({"num_validations": 5}, e)).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(("places", "verdict"), [(slice(0, None), Verdict.UNHARMED), (slice(9, None), Verdict.HARMED)])
def test_beside_passes_without_gradients_in_each_step_no_validation_is_told_apart(
    contract: str, places: slice, verdict: Verdict
) -> None:
    """As where a generator makes its samples without a graph, in place of detaching them."""
    draws: list[tuple[bool | None, ...]] = [(False, None, True)] * NUM_STEPS
    e = everywhere({"num_validations": 4, "draws": tuple(draws), "fresh_looks": (None,) * 9 + (0.0,) * (NUM_STEPS - 9)})
    draws[places] = [(False, False, True)] * len(draws[places])
    beside: dict[str, object] = {"num_validations": 0, "draws": tuple(draws), "fresh_looks": (1.0,) * NUM_STEPS}
    assert judge(contract, with_lever_run(beside, e)).verdict is verdict


@pytest.mark.parametrize(("gap", "verdict"), [(3e-5, Verdict.UNHARMED), (3e-4, Verdict.HARMED)])
def test_data_that_are_kept_in_fewer_bits_may_make_a_slightly_other_loss(gap: float, verdict: Verdict) -> None:
    e = same()

    def kept(runs: tuple[Run, ...]) -> tuple[Run, ...]:
        losses = [[(as_float(x) or 0.0) * (1 + gap) for x in run.loss] for run in runs]
        return tuple(replace(run, loss=tuple(x), **other_bytes(0)) for run, x in zip(runs, losses, strict=True))  # type: ignore[arg-type]

    halves = replace(e, lever=kept(e.lever), lever_seeds=kept(e.lever_seeds))
    assert judge("statistical", halves).verdict is verdict
    assert judge("rounding", halves).verdict is Verdict.HARMED


@pytest.mark.parametrize("contract", ["rounding", "statistical"])
def test_batches_that_are_scaled_later_are_the_same_where_they_make_the_same_loss(contract: str) -> None:
    assert judge(contract, with_lever_run(other_bytes(0))).verdict is Verdict.UNHARMED
    first, *others = train(PLAIN).loss
    assert isinstance(first, float)
    wrong = with_lever_run(other_bytes(0) | {"loss": (1.0001 * first, *others)})
    assert judge(contract, wrong).verdict is Verdict.HARMED


def test_bits_are_kept_by_batches_in_another_form_but_not_by_those_of_a_validation() -> None:
    ruling = judge("exact", with_lever_run(other_bytes(0)))
    assert ruling.verdict is Verdict.UNHARMED
    assert "; batches are the same in another form." in ruling.why
    validates = judge("exact", with_lever_run(other_bytes(0), everywhere({"num_validations": 2})))
    assert validates.verdict is Verdict.HARMED and "another batch" in validates.why
    by_hand = everywhere({"num_validations": 2, "num_samples": (None,) * NUM_STEPS})
    assert judge("exact", with_lever_run(other_bytes(0), by_hand)).verdict is Verdict.UNHARMED, "a loader's alone"
    *updates, last = train(PLAIN).updates or ()
    moved = replace(last, norms=(1.001 * (as_float(last.norms[0]) or 0.0), *last.norms[1:]))
    assert judge("exact", with_lever_run(other_bytes(0) | {"updates": (*updates, moved)})).verdict is Verdict.HARMED


@pytest.mark.parametrize("contract", ["rounding", "statistical"])
@pytest.mark.parametrize("known", [True, False])
def test_the_same_samples_in_another_order_are_no_other_batches(contract: str, known: bool) -> None:
    rows = tuple(None if k == 40 and not known else f"{k}" for k in range(NUM_STEPS))
    e = everywhere({"rows_digest": rows, "fresh_batches": (1.0,) * NUM_STEPS})
    # Of few labels a batch comes again sooner where they are sorted.
    reordered = other_bytes(1) | {"fresh_batches": (0.9,) * NUM_STEPS}
    expected = Verdict.UNHARMED if known else Verdict.HARMED
    assert judge(contract, with_lever_run(reordered, e)).verdict is expected
    relabelled = with_lever_run(reordered | {"rows_digest": (*rows[:-1], "another")}, e)
    assert judge(contract, relabelled).verdict is Verdict.HARMED
    assert judge("exact", with_lever_run(reordered, e)).verdict is Verdict.HARMED


def test_batches_that_are_drawn_by_hand_are_compared_by_what_the_model_is_given() -> None:
    for of_validation in ((), (NUM_STEPS // 2,)):  # which has a loader still, or not
        by_hand: dict[str, object] = {"num_samples": (None,) * NUM_STEPS, "epoch_starts": of_validation}
        assert judge("statistical", with_lever_run(by_hand)).verdict is Verdict.UNHARMED


def test_what_a_generator_makes_is_other_data_only_where_rounding_is_known_to_leave_it_alone() -> None:
    by_hand = everywhere({"num_samples": (None,) * NUM_STEPS, "epoch_starts": ()})
    later = with_lever_run(other_bytes(1), by_hand)
    assert judge("statistical", later).verdict is Verdict.HARMED
    assert judge("statistical", replace(later, perturbed=())).verdict is Verdict.UNHARMED


def test_batches_by_hand_may_be_drawn_before_a_dropout_that_was_drawn_before_them() -> None:
    """Generators end a step as they did, whatever was drawn first."""
    by_hand = everywhere({"num_samples": (None,) * NUM_STEPS, "epoch_starts": (), "draws": DROPOUT})
    assert judge("statistical", with_lever_run(other_bytes(0), by_hand)).verdict is Verdict.UNHARMED
    loaded = everywhere({"draws": DROPOUT})
    assert judge("statistical", with_lever_run(other_bytes(1), loaded)).verdict is Verdict.HARMED


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("what", ["samples", "batches"])
def test_what_comes_again_more_often_or_more_seldom_is_harm(contract: str, what: str) -> None:
    e = everywhere({f"fresh_{what}": (1.0,) * 40 + (0.0,) * (NUM_STEPS - 40)})
    assert judge(contract, e).verdict is Verdict.UNHARMED
    frozen = judge(contract, with_lever_run({f"fresh_{what}": (0.9,) * 40 + (0.0,) * (NUM_STEPS - 40)}, e))
    assert frozen.verdict is Verdict.HARMED
    assert f"Of the {what} up to step" in frozen.why and "10% had come before; in the baseline 0%" in frozen.why
    assert frozen.by_chance is (contract != "statistical"), "each seed shows it"
    assert judge(contract, with_lever_run({f"fresh_{what}": (1.0,) * NUM_STEPS}, e)).verdict is Verdict.HARMED


def test_what_comes_again_in_one_seed_of_several_may_be_chance() -> None:
    e = everywhere({"fresh_samples": (1.0,) * NUM_STEPS})
    again = (0.9,) * 40 + (1.0,) * (NUM_STEPS - 40)
    seeds = (replace(e.lever_seeds[0], fresh_samples=again), *e.lever_seeds[1:])
    assert judge("statistical", replace(e, lever_seeds=seeds)).verdict is Verdict.UNHARMED


def test_rates_that_may_react_to_losses_are_no_certain_harm_as_far_as_one_seed_tells() -> None:
    change: dict[str, object] = {"learning_rates": (*RATES[:40], *((0.5,) for _ in RATES[40:]))}
    e = replace(same(), base_seeds=(), lever_seeds=())
    assert judge("statistical", with_lever_run(change, e)).verdict is Verdict.HARMED, "losses are the same"
    change["loss"] = (*PLAIN_LOSSES[:30], *(1.001 * float(loss or 0) for loss in PLAIN_LOSSES[30:]))
    assert judge("statistical", with_lever_run(change, e)).verdict is Verdict.UNDECIDED
    assert judge("statistical", with_lever_run(change)).verdict is Verdict.HARMED, "each seed has the same rates"


def test_numbers_of_updates_that_may_react_to_losses_are_no_certain_harm_as_far_as_one_seed_tells() -> None:
    """Of a training that stopped early, and began anew."""
    e = replace(same(), base_seeds=(), lever_seeds=())
    losses = (*PLAIN_LOSSES[:30], *(1.001 * float(loss or 0) for loss in PLAIN_LOSSES[30:]))
    for step, counts, verdict in (
        (60, "ef", Verdict.UNDECIDED),
        (20, "ef", Verdict.HARMED),
        (60, "momentum 0.2", Verdict.HARMED),
    ):
        state = StateDigest(step=step, name="Adam", digest="", counts=counts)
        base = everywhere({"states": (replace(state, counts=f"{counts}0"),)})
        lever = with_lever_run({"states": (state,), "loss": losses}, replace(e, base=base.base))
        assert judge("statistical", lever).verdict is verdict


DRAWN = {"normal": 800, "uniform": 16, "integers": 32, "orders": 1}


@pytest.mark.parametrize(
    ("drawn", "said"),
    [
        (DRAWN, None),
        (DRAWN | {"uniform": 1}, "6% as many random numbers (uniform)"),
        ({"uniform": 16, "integers": 64, "orders": 1}, "0% as many random numbers (normal)"),
        ({"normal": 800, "coins": 16, "integers": 32, "orders": 1}, None),
        (DRAWN | {"uniform": 1, "generators": 1}, None),
        (DRAWN | {"orders": 0}, "0% as many random numbers (orders)"),
        (DRAWN | {"orders": 0, "integers": 64}, None),
        (DRAWN | {"normal": 1600}, None),
    ],
    ids=[
        "as many",
        "one for a batch",
        "places in a pool",
        "otherwise",
        "unseen",
        "in order",
        "with replacement",
        "more",
    ],
)
def test_fewer_random_numbers_without_others_in_their_place_are_inconclusive(
    drawn: dict[str, int], said: str | None
) -> None:
    e = everywhere({"drawn": ({"normal": 4000},) + (DRAWN,) * (NUM_STEPS - 1)})
    ruling = judge("statistical", with_lever_run({"drawn": ({"normal": 4000},) + (drawn,) * (NUM_STEPS - 1)}, e))
    assert ruling.verdict is (Verdict.UNHARMED if said is None else Verdict.UNDECIDED)
    assert (said or "") in ruling.why


def test_fewer_elements_of_as_many_dropouts_are_inconclusive_unless_a_mask_is_drawn_by_hand() -> None:
    e = everywhere({"drawn": (DRAWN,) * NUM_STEPS, "dropouts": ((0.1, 2, 6400),), "given": ((8, 64, 8),) * NUM_STEPS})
    channels: dict[str, object] = {"dropouts": ((0.1, 2, 100),)}
    ruling = judge("statistical", with_lever_run(channels, e))
    assert ruling.verdict is Verdict.UNDECIDED and "2% as many random numbers (dropouts)" in ruling.why
    elements = judge("statistical", with_lever_run({"dropouts": ((0.1, 2, 64 * 6400),)}, e))
    assert elements.verdict is Verdict.HARMED and "10% of 409,600 elements in 2 calls" in elements.why
    padded = judge("statistical", with_lever_run({"dropouts": ((0.1, 2, 7000),)}, e))
    assert padded.verdict is Verdict.UNHARMED
    by_hand = (DRAWN | {"uniform": 3216},) * NUM_STEPS
    assert judge("statistical", with_lever_run(channels | {"drawn": by_hand}, e)).verdict is Verdict.UNHARMED
    shorter: dict[str, object] = {"given": ((8, 60, 8),) * NUM_STEPS}
    assert judge("statistical", with_lever_run(channels | shorter, e)).verdict is Verdict.UNHARMED


def test_random_numbers_of_an_epoch_may_be_drawn_at_once_and_unseen_ones_are_not_missed() -> None:
    e = everywhere({"drawn": (DRAWN,) * NUM_STEPS})
    at_once = {kind: NUM_STEPS * number for kind, number in DRAWN.items()}
    drawn: dict[str, object] = {"drawn": (at_once, *({},) * (NUM_STEPS - 1))}
    assert judge("statistical", with_lever_run(drawn, e)).verdict is Verdict.UNHARMED
    drawn = {"drawn": (DRAWN, *({},) * (NUM_STEPS - 1))}
    assert judge("statistical", with_lever_run(drawn, e)).verdict is Verdict.UNDECIDED
    assert judge("statistical", with_lever_run(drawn | {"compiled": True}, e)).verdict is Verdict.UNHARMED
    drawn["drawn"] = ({}, *(DRAWN,) * (NUM_STEPS - 1))
    assert judge("statistical", with_lever_run(drawn, e)).verdict is Verdict.UNHARMED, "data may be made otherwise"


def test_other_draws_of_samples_of_varying_size_are_no_other_samples_as_far_as_one_seed_tells() -> None:
    sizes = tuple((8 + k % 5, 8 + k % 5, 8 + k % 5) for k in range(NUM_STEPS + 1))
    drawn: dict[str, object] = {"given": sizes[1:], "rng_digest": tuple(f"{k}" for k in range(NUM_STEPS))}
    e = with_lever_run(drawn, everywhere({"given": sizes[:-1]}))
    known = judge("statistical", e)
    assert known.verdict is Verdict.HARMED and "other samples" in known.why, "each seed of the baseline has the same"
    one_seed = judge("statistical", replace(e, base_seeds=(), lever_seeds=()))
    assert one_seed.verdict is Verdict.UNDECIDED
    same_draws = with_lever_run({"given": sizes[1:]}, everywhere({"given": sizes[:-1]}))
    assert judge("statistical", replace(same_draws, base_seeds=(), lever_seeds=())).verdict is Verdict.HARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_what_is_frozen_shows_beside_an_input_that_is_not(contract: str) -> None:
    both, alone = ((1.0, 1.0),) * NUM_STEPS, ((1.0,),) * NUM_STEPS
    frozen = ((1.0, 1.0),) * 40 + ((0.0, 1.0),) * (NUM_STEPS - 40)
    ruling = judge(contract, with_lever_run({"fresh_inputs": frozen}, everywhere({"fresh_inputs": both})))
    assert ruling.verdict is Verdict.HARMED and "samples (input 1 of 2)" in ruling.why
    ruling = judge(contract, with_lever_run({"fresh_inputs": alone}, everywhere({"fresh_inputs": both})))
    assert ruling.verdict is Verdict.UNHARMED, "a mask of another type is no input of fractions"


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_validation_by_other_samples_each_time_is_harm_and_a_cached_teacher_is_none(contract: str) -> None:
    def looks(*found: float | None) -> dict[str, object]:
        return {"fresh_looks": (*found, *(None,) * (NUM_STEPS - len(found)))}

    again = everywhere(looks(1.0, None, 0.0, None, 0.0))
    ruling = judge(contract, with_lever_run(looks(1.0, None, 0.5, None, 0.6), again))
    assert ruling.verdict is Verdict.HARMED and "at step 2 50% had not come before" in ruling.why
    anew = everywhere(looks(1.0, None, 1.0, None, 1.0))
    assert judge(contract, with_lever_run(looks(1.0, None, 0.0, None, 0.0), anew)).verdict is Verdict.HARMED
    assert judge(contract, with_lever_run(looks(1.0), again)).verdict is Verdict.UNHARMED, "results are kept"
    now_and_then = with_lever_run(looks(1.0, None, 1.0, None, 0.0), again)
    assert judge(contract, now_and_then).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_samples_may_come_again_where_the_model_draws_what_was_drawn_before_it(contract: str) -> None:
    drawn = ((False, False, True),) * NUM_STEPS, ((True, False, False),) * NUM_STEPS
    e = everywhere({"fresh_samples": (1.0,) * NUM_STEPS, "draws": drawn[0]})
    again: dict[str, object] = {"fresh_samples": (1.0,) * 40 + (0.0,) * (NUM_STEPS - 40)}
    assert judge(contract, with_lever_run(again | {"draws": drawn[1]}, e)).verdict is Verdict.UNHARMED
    assert judge(contract, with_lever_run(again, e)).verdict is Verdict.HARMED


def test_other_data_by_other_random_numbers_are_left_to_the_seeds() -> None:
    e = evidence(PLAIN, num_seeds=5, other_masks=True)
    drawn = tuple(f"{k}" for k in range(NUM_STEPS))

    def redrawn(runs: tuple[Run, ...]) -> tuple[Run, ...]:
        return tuple(replace(r, batch_digest=drawn) for r in runs)

    assert judge("statistical", replace(e, lever=redrawn(e.lever), lever_seeds=redrawn(e.lever_seeds))).verdict is (
        Verdict.UNHARMED
    )


def saved(digest: str, counts: str = "3", name: str = "Average") -> tuple[StateDigest, ...]:
    """What one object held at the last step."""
    return (StateDigest(step=NUM_STEPS - 1, name=name, digest=digest, counts=counts),)


def with_states(lever: tuple[StateDigest, ...], *base: tuple[StateDigest, ...]) -> Evidence:
    """`base`: of the first baseline runs; the last holds for the others."""
    e = same()

    def held(runs: tuple[Run, ...], by: list[tuple[StateDigest, ...]]) -> tuple[Run, ...]:
        return tuple(replace(run, states=by[min(k, len(by) - 1)]) for k, run in enumerate(runs))

    return Evidence(
        base=held(e.base, list(base)),
        lever=held(e.lever, [lever]),
        perturbed=held(e.perturbed, [base[-1]]),
        base_seeds=held(e.base_seeds, [base[-1]]),
        lever_seeds=held(e.lever_seeds, [lever]),
    )


def test_other_content_of_what_is_saved_is_harm_where_bits_are_promised() -> None:
    e = with_states(saved("other"), saved("same"))
    ruling = judge("exact", e)
    assert ruling.verdict is Verdict.HARMED
    assert f"Average has other content than the baseline after step {NUM_STEPS - 1}" in ruling.why
    assert judge("rounding", e).verdict is Verdict.UNHARMED
    assert judge("exact", replace(e, base=e.base[:1])).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_numbers_of_what_is_saved_that_lie_far_apart_beside_equal_losses_are_harm(contract: str) -> None:
    def kept(*sketch: float) -> tuple[StateDigest, ...]:
        return (replace(saved("same")[0], digest=str(sketch), sketch=sketch),)

    far = judge(contract, with_states(kept(1.0, 2.1), kept(1.0, 2.0)))
    assert far.verdict is Verdict.HARMED
    if contract != "exact":  # which sees that bits differ
        assert "Average is another one than in the baseline" in far.why
        assert judge(contract, with_states(kept(1.0, 2.001), kept(1.0, 2.0))).verdict is Verdict.UNHARMED
    differing = with_states(kept(1.0, 2.1), kept(1.0, 2.0), kept(1.0, 3.0))
    assert judge(contract, differing).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_each_entry_of_a_file_is_held_to_the_one_of_its_name_or_place(contract: str) -> None:
    def file(**sizes: float) -> tuple[StateDigest, ...]:
        entries = [(f"{FILE}last.pt" + (f" ({name})" if name else ""), size) for name, size in sizes.items()]
        return tuple(replace(saved(str(size), name=name)[0], sketch=(size, 1.0)) for name, size in entries)

    start = file(model=3.0, ema=2.0)
    for other, said in (
        (file(model=3.0, ema=3.0), "last.pt (ema) "),
        (file(model=2.0, ema=3.0), "last.pt (model) "),
        (file(model=3.0), "last.pt (ema) is not written after step"),
        (file(a=3.0, b=3.0), "last.pt (ema) "),
    ):
        ruling = judge(contract, with_states(other, start))
        assert ruling.verdict is Verdict.HARMED and said in ruling.why
    for other in (file(model=3.0, ema=2.0, more=5.0), file(net=3.0, average=2.0), file(ema=2.0, net=3.0)):
        ruling = judge(contract, with_states(other, start))
        assert ruling.verdict is Verdict.UNHARMED and "Not compared" not in ruling.why
    whole = tuple(replace(one, name=f"{FILE}last.pt") for one in file(model=3.0))
    assert judge(contract, with_states(file(model=3.0), whole)).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_numbers_of_a_part_are_told(contract: str) -> None:
    def part(training: bool) -> tuple[StateDigest, ...]:
        told = f"momentum 0.1, training {training}"
        return saved(told, told, "Net.norm (BatchNorm1d)")

    ruling = judge(contract, with_states(part(False), part(True)))
    assert f"than the baseline after step {NUM_STEPS - 1}, where it has momentum 0.1, training True." in ruling.why


@pytest.mark.parametrize("contract", ["exact", "rounding"])
def test_each_copy_of_the_parameters_is_found_among_those_of_the_other_run(contract: str) -> None:
    def kept(*sizes: float) -> tuple[StateDigest, ...]:
        return tuple(replace(saved(str(size), name=COPY)[0], sketch=(1.0, size)) for size in sizes)

    for base, lever in (((1.0, 2.0), (2.0,)), ((2.0,), (2.0, 1.0))):
        assert judge(contract, with_states(kept(*lever), kept(*base))).verdict is Verdict.UNHARMED
    for base, lever in (((1.0, 2.0), (3.0,)), ((2.0,), (1.0, 3.0))):
        ruling = judge(contract, with_states(kept(*lever), kept(*base)))
        assert ruling.verdict is Verdict.HARMED and COPY in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_other_counters_in_what_is_saved_are_harm_under_every_contract(contract: str) -> None:
    ruling = judge(contract, with_states(saved("same", "2"), saved("same")))
    assert ruling.verdict is Verdict.HARMED
    assert "Average has other settings or counters" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_what_differs_among_baseline_runs_is_no_harm_of_the_levers(contract: str) -> None:
    e = with_states(saved("third", "7"), saved("first", "1"), saved("second", "2"))
    assert judge(contract, e).verdict is Verdict.UNHARMED


def test_what_torch_save_does_not_write_at_the_same_steps_is_told() -> None:
    def ruling(name: str, *steps: int, written: tuple[str, ...]) -> Ruling:
        files = [tuple(replace(saved("same", name=name)[0], step=step) for step in some) for some in (steps[:1], steps)]
        start = everywhere({"written": written, "states": files[0]})
        return judge("exact", with_lever_run({"states": files[1]}, start))

    compared = ruling("The file last.pt", 3, written=("last.pt", "log.csv"))
    assert compared.verdict is Verdict.UNHARMED and "Not compared" not in compared.why
    for other in (
        ruling("The file last.pt", 3, 7, written=("last.pt",)),
        ruling("Average", 3, written=("run/last.pt", "run/epoch-1.safetensors", "run/epoch-2.safetensors")),
    ):
        assert other.verdict is Verdict.UNHARMED and "Not compared: " in other.why
        assert "last.pt" in other.why and "epoch-1" not in other.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_of_several_modules_of_a_class_the_one_that_differs_is_named(contract: str) -> None:
    def both(counts: str, *names: str) -> tuple[StateDigest, ...]:
        return tuple(
            saved("same", c, name=f"MLP ({name}).norm")[0] for name, c in zip(names, ("3", counts), strict=True)
        )

    start = both("3", "actor", "critic")
    ruling = judge(contract, with_states(both("4", "one", "other"), start))
    assert ruling.verdict is Verdict.HARMED
    assert "MLP (critic).norm has other settings or counters" in ruling.why
    assert judge(contract, with_states(both("3", "one", "other"), start)).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_what_a_lever_adds_is_not_compared(contract: str) -> None:
    added = with_states((*saved("same"), *saved("new", name="GradScaler")), saved("same"))
    assert judge(contract, added).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(("num_elements", "verdict"), [(203_530, Verdict.UNDECIDED), (203_000, Verdict.HARMED)])
def test_as_many_elements_in_fewer_tensors_are_not_called_harm(
    contract: str, num_elements: int, verdict: Verdict
) -> None:
    """Three layers that are one now; fewer elements are harm."""

    def trained(num_parameters: int, num_elements: int) -> dict[str, object]:
        settings = {"parameters that require gradients": str(num_parameters)}
        one = replace(optimizer(), num_parameters=num_parameters, num_elements=num_elements, settings=settings)
        return {"optimizers": (one,), "settings_digest": (str(num_parameters),) * NUM_STEPS}

    ruling = judge(contract, with_lever_run(trained(2, num_elements), everywhere(trained(4, 203_530))))
    assert ruling.verdict is verdict
    if verdict is Verdict.UNDECIDED:
        assert "2 tensors of 203,530 elements together instead of 4" in ruling.why
    else:
        assert "parameters that require gradients 2 instead of 4" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("times", [4.0, 3.0])
def test_gradients_that_are_divided_in_place_of_the_loss_train_the_same(contract: str, times: float) -> None:
    def scaled(runs: tuple[Run, ...], late: float = 1.0) -> tuple[Run, ...]:
        losses = ([times * (as_float(x) or 0.0) for x in run.loss] for run in runs)
        return tuple(replace(run, loss=(*x[:-1], late * x[-1])) for run, x in zip(runs, losses, strict=True))

    e = same()
    ruling = judge(contract, replace(e, lever=scaled(e.lever), lever_seeds=scaled(e.lever_seeds)))
    # Dividing by 3 rounds.
    assert ruling.verdict is Verdict.UNHARMED or (contract == "exact" and times == 3)
    assert ruling.why.endswith(f"is {times:g} times that of the baseline; all compared updates are bit-equal.")
    late = judge(contract, replace(e, lever=scaled(e.lever, 1.1), lever_seeds=scaled(e.lever_seeds, 1.1)))
    assert late.verdict is Verdict.HARMED
    moved = with_update(norms=(0.5, 0.5, 0.5, 0.5))
    assert moved.lever[0].updates != moved.base[0].updates
    assert judge(contract, replace(moved, lever=scaled(moved.lever))).verdict is Verdict.HARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_an_optimizer_in_place_of_updates_by_hand_is_no_other_update(contract: str) -> None:
    """These are not seen; losses tell."""
    e = same()
    by_hand = {"num_updates": (0,) * NUM_STEPS, "updates": None, "optimizers": (), "num_added": (0,) * NUM_STEPS}
    baselines = {
        one: tuple(replace(run, **by_hand) for run in getattr(e, one)) for one in ("base", "base_seeds", "perturbed")
    }
    added = tuple(replace(run, num_added=(1,) * NUM_STEPS) for run in (*e.lever, *e.lever_seeds))
    one = Evidence(**baselines, lever=added[:1], lever_seeds=added[1:])
    assert judge(contract, one).verdict is Verdict.UNHARMED
    lost = Evidence(base=added[:1] * 2, base_seeds=added[1:], lever=one.base[:1], lever_seeds=one.base_seeds)
    assert judge(contract, lost).verdict is Verdict.UNDECIDED


def test_of_more_copies_with_one_name_none_is_taken_for_another() -> None:
    """A version that keeps the first weights beside an average holds two where the baseline has one."""
    run = replace(
        train(PLAIN),
        untrained=("copy.a", "MLP (target).a"),
        updates=(Update(step=0, norms=(1.0,), changed=(1.0,), buffers=(2.0, 3.0)),),
    )
    more = replace(
        run,
        untrained=("copy.a", "copy.a", "MLP (other).a"),
        updates=(Update(step=0, norms=(1.0,), changed=(1.0,), buffers=(0.0, 2.0, 3.0)),),
    )
    (ordered,) = Evidence(base=(run,), lever=(more,)).in_one_order().lever
    assert [update.buffers for update in ordered.updates or ()] == [(None, 3.0)]
