"""Profilers on real scripts: what each of them sees, and that the script goes on as it would have."""

import re

import pytest

from hotlap import rules
from hotlap.record import InputPart, Phase, SightingKind, Status
from hotlap.report import story
from tests.e2e.running import Forks

pytestmark = pytest.mark.e2e

MINE = ("switches", "memory", "shapes", "modules", "cpu", "input", "calls", "what-if")


def test_every_profiler_sees_what_it_is_for(forks: Forks) -> None:
    found = forks("troubled.py", warmup=15, profilers=MINE)
    assert found.status is Status.COMPLETE, found.error
    assert not [note for note in found.notes if "gave up" in note]

    assert found.switches is not None
    assert found.switches.anomaly_mode
    assert {what_if.setting for what_if in found.what_ifs} >= {"anomaly-mode", "threads"}

    kinds = {sighting.kind: sighting for sighting in found.sightings}
    assert set(kinds) == {
        SightingKind.WASTED_FORWARD,
        SightingKind.EVALUATION,
        SightingKind.ATTENTION_OVER_BATCH,
    }
    assert kinds[SightingKind.EVALUATION].text == "net(x)"
    assert kinds[SightingKind.EVALUATION].per_step == pytest.approx(1, abs=0.1)
    wasted, attention = kinds[SightingKind.WASTED_FORWARD], kinds[SightingKind.ATTENTION_OVER_BATCH]
    assert wasted.text.startswith("guess = net(x)")
    assert wasted.per_step == pytest.approx(1, abs=0.1), "some steps are followed, and the last may not be judged"
    assert attention.what == "MultiheadAttention"
    assert attention.detail == {"length": 8}

    input_s = found.mean_phase_s(Phase.INPUT) or 0.0
    assert (found.input_s[InputPart.TRANSFORMS] or 0.0) >= 8 * 0.0005, "each of eight sleeps that long"
    assert sum(found.input_s.values()) <= input_s * (1 + 1e-9)  # type: ignore[arg-type]

    assert found.calls is not None
    assert found.calls.phases[Phase.FORWARD].calls > 10
    assert found.calls.phases[Phase.BACKWARD].calls > 10
    assert found.shapes is not None
    assert found.shapes.num_shapes == 1
    assert len(found.memory) > 3
    assert found.cpu is not None
    assert found.cpu.main > 0


def test_a_teacher_under_no_grad_is_frozen(forks: Forks) -> None:
    found = forks("distils.py", warmup=15, profilers=("modules",))
    assert found.status is Status.COMPLETE, found.error
    (teacher,) = (one for one in found.sightings if one.kind is SightingKind.FROZEN)
    assert teacher.text == "wanted = teacher(x)" and teacher.per_step == pytest.approx(1)
    assert teacher.detail["shared"] is True


def test_steps_that_grow_with_their_episodes_are_no_growth_of_memory(forks: Forks) -> None:
    found = forks("reinforce.py", warmup=15, profilers=("memory", "modules", "calls", "lines"))
    kinds = {one.kind for one in found.sightings}
    assert SightingKind.SINGLE not in kinds, "each action waits for what came of the one before"
    assert found.status is Status.COMPLETE, found.error
    assert not [note for note in found.notes if "gave up" in note]
    assert list(found.num_forwards) == [10 + step // 3 for step in found.step_index]
    assert "forward passes in the mean" in story.step_sentence(found)
    # So small a policy is launch-bound as well; what else costs something is the machine's affair.
    faults = {finding.code: finding for finding in rules.check(found)}
    assert "memory-growth" not in faults
    host = faults["host-bound"]
    # Which of the two functions has the line that costs most is the machine's affair as well.
    assert re.search(r" of forked\.py, (choose|finish_episode)\b", host.evidence)


def test_workers_are_waited_for_and_known(forks: Forks) -> None:
    found = forks("workers.py", warmup=15, profilers=("input", "cpu"))
    loader = next(loader for loader in found.loaders if loader.num_workers)
    assert loader.start_method in ("fork", "spawn", "forkserver")
    assert set(found.input_s) == {InputPart.START, InputPart.WORKERS}
    assert found.probe_s


def test_these_profilers_together_leave_the_training_as_it_was(forks: Forks) -> None:
    plain, watched = forks("plain.py", warmup=15), forks("plain.py", warmup=15, profilers=MINE)
    assert watched.status is Status.COMPLETE, watched.error
    assert watched.loss == plain.loss
    assert not [note for note in watched.notes if "failed" in note]
