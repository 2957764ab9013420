"""native-step: which scripts it is for."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from hotlap import at_work
from hotlap.levers import Patch
from hotlap.levers.native import NativeStep
from hotlap.native import core
from hotlap.probe.facts import Facts
from hotlap.record import CallSite, OptimizerFacts, Phase, Run
from hotlap.small import script_steps
from hotlap.small.program import Unsupported
from hotlap.small.trace import trace_model
from tests.conformance.recorded import awkward_runs
from tests.sample_runs import machine, optimizer


def why(**changes: object) -> str | None:
    return NativeStep().rejects(replace(awkward_runs()["plain"], **changes), machine())  # type: ignore[arg-type]


def test_a_small_model_on_the_cpu_is_what_it_is_for() -> None:
    assert why() is None


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (replace(optimizer(), name="torch.optim.LBFGS"), "no SGD, Adam"),
        (replace(optimizer(), name="ours.Adam"), "no SGD, Adam"),
        (replace(optimizer(), all_dense=False), "dense"),
        (replace(optimizer(), dtypes=("bfloat16",)), "float32"),
        (replace(optimizer(), num_elements=125_000_000), "million parameters"),
    ],
)
def test_another_optimizer_or_model_is_refused_by_what_it_is(facts: OptimizerFacts, says: str) -> None:
    assert says in (why(optimizers=(facts,)) or "")
    assert why(optimizers=(facts, optimizer())) is None, "one that is known is enough"


def test_its_bound_is_the_model_and_the_optimizer() -> None:
    run = awkward_runs()["plain"]
    parts = [run.mean_phase_s(phase) or 0.0 for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)]
    assert NativeStep().saves_at_most_s(run, ()) == pytest.approx(sum(parts))


def test_what_torch_may_do_faster_is_tried_without() -> None:
    run = replace(awkward_runs()["plain"], num_samples=(32, None, 32))
    small, wide = (replace(optimizer(), num_elements=n) for n in (500, 20_000))
    assert parts(replace(run, optimizers=(small,))) == ["all"]
    assert parts(replace(run, optimizers=(wide,))) == ["all", "optimizer"]
    assert parts(replace(run, optimizers=(wide, wide))) == ["all", "optimizer", "model"]


def test_of_a_model_that_is_not_all_linear_only_the_optimizer_is_served() -> None:
    wide = replace(optimizer(), num_elements=20_000)
    run = replace(awkward_runs()["plain"], num_samples=(32, None, 32), optimizers=(wide, wide))
    linear = CallSite(
        calls="forward", path="train.py", line=1, end_line=1, col=0, end_col=9, sha256="", detail={"parameters": True}
    )
    picture = replace(linear, line=2, detail={"parameters": True, "beyond_linear": "Conv2d"})
    assert parts(replace(run, call_sites=(picture,))) == ["optimizer"]
    assert parts(replace(run, call_sites=(picture, linear))) == ["all", "optimizer", "model"]


@pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")
@pytest.mark.parametrize(
    "layer",
    [
        nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 3, padding=1), nn.Flatten()),
        nn.LayerNorm(4),
        nn.BatchNorm1d(4),
        nn.BatchNorm1d(4, affine=False),
        nn.Dropout(0.5),
        nn.Bilinear(4, 4, 4),
        nn.PReLU(),
    ],
)
def test_layers_that_the_native_core_does_not_know_are_told_by_the_probe(layer: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(4, 4), layer, nn.Linear(4, 4))
    with pytest.raises(Unsupported):
        trace_model(model)
    facts = Facts()
    facts.saw_forward(model, torch.ones(1))
    facts.saw_forward(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.0), nn.Linear(4, 4)), torch.ones(1))
    beyond, linear = (site.detail["beyond_linear"] for site in facts.all_call_sites())
    assert beyond and not linear


def parts(run: Run) -> list[str]:
    return [lever.parts for lever in NativeStep.candidates(run, machine())]


@pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")
def test_it_says_when_all_was_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_new_process = script_steps.NativeSteps()  # it remembers that something ran, for as long as its process lives
    monkeypatch.setattr(script_steps, "known_steps", lambda: in_a_new_process)
    installed = Patch()
    NativeStep().install(installed)
    try:
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softshrink(), torch.nn.Linear(3, 1))
        model(torch.ones(4, 2)).sum().backward()
        assert "left to torch" in str(installed.why_idle())
        torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))(torch.ones(4, 2))
        assert installed.why_idle() is None
    finally:
        installed.undo()


@pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")
def test_an_edited_script_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_new_process = script_steps.NativeSteps()
    monkeypatch.setattr(script_steps, "known_steps", lambda: in_a_new_process)
    monkeypatch.setattr(in_a_new_process, "install", lambda put, parts: None)
    assert "was given nothing" in str(at_work.why_idle(NativeStep.function)), "the line was not reached"
    script_steps.native_steps()
    assert at_work.why_idle(NativeStep.function) is None, "nothing was called yet, so that cannot be said"
    in_a_new_process._note("Net is left to torch: it has a dropout.")
    assert at_work.why_idle(NativeStep.function) == at_work.notes()[0] == "Net is left to torch: it has a dropout."
    in_a_new_process.at_work = True
    assert at_work.why_idle(NativeStep.function) is None
