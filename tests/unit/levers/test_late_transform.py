"""late-transform: when it applies, what it wraps, and what it leaves alone."""

from dataclasses import replace

import pytest

from hotlap.levers.data_wrappers import LateTransform
from hotlap.record import InputPart, LoaderFacts, Phase, Run
from hotlap.source import WrapArgument
from tests.sample_runs import loader, machine, run_with, site


def augmented() -> LoaderFacts:
    """Its transforms draw random numbers."""
    return replace(loader(), deterministic=False, why_not="it draws random numbers")


def run_of(*loaders: LoaderFacts) -> Run:
    sites = tuple(
        replace(site("torch.utils.data.DataLoader", 10 + facts.id), detail={"loader": facts.id}) for facts in loaders
    )
    return replace(run_with(input_s=0.002), loaders=loaders, call_sites=sites)


def test_is_worth_a_trial_where_items_may_have_transforms() -> None:
    run = run_of(augmented(), replace(augmented(), id=1, dataset="TensorDataset"))
    assert LateTransform().rejects(run, machine()) is None
    (edit,) = LateTransform().edits(run)
    assert isinstance(edit, WrapArgument) and edit.site.line == 10 and edit.function == "late"


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (run_of(), "The script makes no DataLoader."),
        (
            run_of(replace(augmented(), num_items=None)),
            "Digits is an iterable data set: it has no items to look up by number.",
        ),
        (run_of(replace(augmented(), dataset="TensorDataset")), "A TensorDataset has no transforms."),
        (
            run_of(loader()),
            "Items of Digits are always the same, so they can be kept whole (cached-dataset).",
        ),
        (run_of(replace(augmented(), default_collate=False)), "The script puts the items of Digits together itself."),
        (run_of(replace(augmented(), batch_size=None)), "The script puts the items of Digits together itself."),
        (
            replace(run_of(augmented()), input_s={InputPart.TRANSFORMS: 1e-9}),
            "The transforms of Digits take 0.0% of a step.",
        ),
        (
            replace(run_of(augmented()), call_sites=()),
            "The loaders are not made in the script's own source, so there is no line to change.",
        ),
    ],
)
def test_says_why_it_is_not_worth_one(run: Run, reason: str) -> None:
    assert LateTransform().rejects(run, machine()) == reason


def test_saves_no_more_than_the_transforms_take() -> None:
    run = run_of(augmented())
    assert LateTransform().saves_at_most_s(run, ()) == pytest.approx(0.002)
    known = replace(run, input_s={InputPart.TRANSFORMS: 0.0005})
    assert LateTransform().saves_at_most_s(known, ()) == pytest.approx(0.0005)


def test_copies_to_a_gpu_are_none_of_its_gain() -> None:
    """What travels is numbers, as ever: the training process has made them."""
    facts = replace(augmented(), dataset="Digits")
    waits = replace(run_of(facts), input_s={InputPart.TRANSFORMS: 1e-9})
    phases: dict[Phase, tuple[float, ...] | None] = {phase: (0.0,) * 4 for phase in Phase}
    phases |= {Phase.FORWARD: (0.008,) * 4, Phase.TRANSFER: (0.002,) * 4}
    run = replace(waits, device="NVIDIA H200", step_s=(0.010,) * 4, phase_s=phases)
    assert LateTransform().rejects(run, machine()) == "The transforms of Digits take 0.0% of a step."
    assert LateTransform().saves_at_most_s(run, ()) <= 1e-9
