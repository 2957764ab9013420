"""The profiler's sessions of a few steps, and what is left of them."""

import os
from pathlib import Path

import pytest
import torch
from torch.autograd import profiler

from hotlap.probe import unseen
from hotlap.probe.profilers.operators import Operators, dispatch_s
from hotlap.record import Run, Status
from hotlap.trace.window import completed
from tests.unit.probe.profilers.stage import Stage, play


@pytest.mark.parametrize(("version", "last"), [("13.0", "1"), ("12.6", "1"), ("12.4", "0"), (None, "0")])
def test_the_profiler_is_taken_off_the_driver_behind_its_last_session(
    version: str | None, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []
    leave = profiler.profile.__exit__

    def leaving(session: profiler.profile, *args: object) -> None:
        seen.append(os.environ.get("TEARDOWN_CUPTI"))
        leave(session, *args)  # type: ignore[no-untyped-call] # torch has no types for it

    monkeypatch.setattr(profiler.profile, "__exit__", leaving)
    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)
    x = torch.ones(4)
    stage = Stage()
    stage.out = tmp_path
    fields = play(Operators(), lambda: x * x, stage=stage, num_steps=12)
    run = completed(Run(status=Status.COMPLETE, **fields), tmp_path / "operators-0.json")
    assert run.operators is not None
    assert run.operators.complete, run.operators.why_not
    assert (run.operators.num_steps, run.operators.num_calls) == (5, 1)
    assert seen == ["0", last]
    assert "TEARDOWN_CUPTI" not in os.environ


@pytest.mark.parametrize(("validating", "looked_at"), [(1, 5), (3, 5), (5, 2)])
def test_a_step_with_a_validation_is_neither_counted_nor_looked_at(
    validating: int, looked_at: int, tmp_path: Path
) -> None:
    """Of the counted step another one is made; the look begins again, or ends before."""
    x, made, stage = torch.ones(4), list[None](), Stage()
    stage.out = tmp_path

    def step() -> None:
        made.append(None)
        validates = len(made) == validating
        for _ in range(50 if validates else 1):
            x * x
        stage.validated((0.0, 1.0) if validates else None)

    fields = play(Operators(), step, stage=stage, num_steps=12)
    assert fields["operators"].num_calls == 1
    run = completed(Run(status=Status.COMPLETE, **fields), tmp_path / "operators-0.json")
    assert run.operators is not None
    assert run.operators.complete, run.operators.why_not
    assert (run.operators.num_steps, run.operators.num_calls) == (looked_at, 1)


def test_the_price_of_an_operator_is_without_the_tracebacks_of_anomaly_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    monkeypatch.setattr("torch.fx.traceback.format_stack", lambda *_: written.append(None))
    x = torch.ones(4, requires_grad=True)
    torch.set_anomaly_enabled(True, check_nan=False)
    try:
        x * x
        assert written  # what torch calls for each node
        written.clear()
        assert dispatch_s() > 0
        assert not written
        assert torch.is_anomaly_enabled()
        assert not torch.is_anomaly_check_nan_enabled()
    finally:
        torch.set_anomaly_enabled(False)


def test_no_profiler_begins_within_a_compiled_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen, "compiles", True)
    x, stage, found = torch.ones(4), Stage(), []
    stage.out = tmp_path

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def looking() -> None:
        found.append(play(Operators(), lambda: x * x, stage=stage, num_steps=12))

    @torch.compile(backend="eager")
    def step() -> torch.Tensor:
        made = x + x
        looking()
        return made * made

    step()
    (fields,) = found
    assert "operators" not in fields
    assert "within a compiled function" in fields["notes"][0]
    assert not [*tmp_path.iterdir()], "no trace was made"
