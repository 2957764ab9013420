"""What is frozen is told by its line, and only where the script freezes something."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from hotlap.record import Phase, Run, SightingKind
from hotlap.rules import frozen_features
from tests.rule_runs import firing, healthy, sighting
from tests.sample_runs import loader, optimizer

STEPS = "for x in batches:\n    loss = head(body(x)).sum()\n    loss.backward()\n"
FROZEN = "for p in body.parameters():\n    p.requires_grad = False\n"


def with_forward(run: Run, **fields: object) -> Run:
    assert run.calls is not None
    forward = replace(run.calls.phases[Phase.FORWARD], **fields)  # type: ignore[arg-type]
    return replace(run, calls=replace(run.calls, phases={**run.calls.phases, Phase.FORWARD: forward}))


def test_names_the_line_and_is_advice() -> None:
    finding = frozen_features.check(firing("frozen-features"))
    assert finding is not None and finding.advice
    assert "in line 10 of frozen_features.py, <module>: features = body(torch.randn(32, 64))" in finding.evidence
    assert finding.where == "frozen_features.py:10" and not finding.after, "its data set has no name that is known"
    assert "a BatchNorm in training mode" in finding.evidence


def test_the_bound_takes_calls_and_python_of_what_is_frozen_with_it() -> None:
    """What is left is the backward pass, the update, and what trained layers compute and call."""
    run = firing("frozen-features")
    assert run.calls is not None
    forward = run.calls.phases[Phase.FORWARD]
    finding = frozen_features.check(run)
    assert finding is not None
    trained_s = sum(run.mean_phase_s(phase) or 0.0 for phase in (Phase.BACKWARD, Phase.OPTIMIZER))
    trained_s += forward.graph_s + forward.graph_calls * run.calls.call_s
    assert run.mean_step_s() - finding.cost_s == pytest.approx(trained_s)


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        (STEPS, False),
        ("body.requires_grad_(False)\n" + STEPS, True),
        (FROZEN + STEPS, True),
        ("body.requires_grad_(True)\n" + STEPS, False),
        (STEPS + "    body.requires_grad_(False)\n    other.backward()\n    body.requires_grad_(True)\n", False),
    ],
)
def test_the_script_must_freeze_something(tmp_path: Path, text: str, is_told: bool) -> None:
    path = tmp_path / "train.py"
    path.write_text(text)
    run = replace(firing("frozen-features"), sources={str(path): sha256(text.encode()).hexdigest()})
    assert (frozen_features.check(run) is not None) is is_told


def taught(**of_loader: object) -> Run:
    """A teacher under `no_grad`, which no source says is frozen, takes 80% of the forward passes."""
    seen = sighting(SightingKind.FROZEN, cost_s=0.001, part=0.8, shared=True)
    run = replace(healthy(), optimizers=(optimizer(),), sightings=(seen,), planned_steps=10**6)
    return replace(run, loaders=(replace(loader(), **{"deterministic": True, **of_loader}),))  # type: ignore[arg-type]


def test_a_teacher_that_nothing_trains_is_told_and_bounded_by_its_passes() -> None:
    finding = frozen_features.check(taught())
    assert finding is not None and finding.advice
    assert "over the data: Net in line 12 of digits.py; at most" in finding.evidence
    assert finding.cost_s == pytest.approx(0.8 * (taught().mean_phase_s(Phase.FORWARD) or 0.0)), (
        "samples are loaded still"
    )
    alone = tuple(replace(one, detail={"part": 0.8, "shared": False}) for one in taught().sightings)
    whole = frozen_features.check(with_forward(replace(taught(), sightings=alone), graph_s=0.0005, graph_calls=2))
    assert whole is not None and whole.cost_s > finding.cost_s, "its samples go with it"


def test_a_teacher_is_not_told_where_its_inputs_differ_or_come_once() -> None:
    for run in (
        taught(deterministic=False),
        taught(deterministic=None),
        taught(num_items=None, num_batches=None),
        replace(taught(), planned_steps=5),
        replace(taught(), loaders=()),
    ):
        assert frozen_features.check(run) is None
    assert frozen_features.check(taught(deterministic=None, dataset="TensorDataset")) is not None
    augmented = replace(firing("frozen-features"), loaders=taught(deterministic=False).loaders)
    assert frozen_features.check(augmented) is None


def test_no_other_forward_pass_is_taken_for_frozen() -> None:
    run = firing("frozen-features")
    assert run.operators is not None and run.calls is not None
    again = replace(run, operators=replace(run.operators, recomputed_s=0.001))
    assert frozen_features.check(again) is None, "it is under no_grad because it is computed again"
    assert frozen_features.check(with_forward(run, graph_s=run.calls.phases[Phase.FORWARD].arithmetic_s)) is None
    assert frozen_features.check(replace(run, optimizers=())) is None, "nothing learns"
