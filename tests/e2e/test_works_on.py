"""Every way to train that hotlap promises to follow, each on a small script: steps, updates, samples, phases."""

import shutil
import sys

import pytest

from hotlap.launch import Launcher
from hotlap.record import Phase, Run, Status
from tests.e2e.running import assert_phases_sum_to_steps, median_ms, run_script

pytestmark = pytest.mark.e2e

# What the scripts sleep, and what a busy machine may add to it or to any other phase.
SLEEP_MS = 20.0
SLACK_MS = 10.0


def assert_followed(found: Run, *, steps: int = 60, updates: int = 1, samples: int | None = None) -> None:
    """Every step was seen as what it is."""
    assert found.status is Status.COMPLETE, found.output
    assert len(found.step_s) == steps
    assert set(found.num_updates) == {updates}
    assert set(found.num_samples) == {samples}
    assert_phases_sum_to_steps(found)


@pytest.mark.parametrize(
    ("place", "phase"),
    [
        ("item", Phase.INPUT),
        ("collate", Phase.INPUT),
        ("forward", Phase.FORWARD),
        ("backward", Phase.BACKWARD),
        ("optimizer", Phase.OPTIMIZER),
        ("loop", Phase.OTHER),
    ],
)
def test_time_that_is_lost_on_purpose_is_found_in_its_phase(launcher: Launcher, place: str, phase: Phase) -> None:
    found = run_script(launcher, "planted.py", place, steps=30, warmup=5)
    assert_followed(found, steps=30, samples=8)
    assert SLEEP_MS <= median_ms(found, phase) <= SLEEP_MS + SLACK_MS
    others = {Phase.INPUT, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.OTHER} - {phase}
    assert all(median_ms(found, other) < SLACK_MS for other in others)


def test_an_optimizer_of_the_scripts_own_is_its_own_python(launcher: Launcher) -> None:
    found = run_script(launcher, "own_optimizer.py")
    assert_followed(found, updates=0)
    assert found.phase_s[Phase.OPTIMIZER] is None, "nobody can see it, so it is unknown, not 0"
    assert median_ms(found, Phase.OTHER) >= 10.0


def test_an_optimizer_around_another_one_is_one_update(launcher: Launcher) -> None:
    assert_followed(run_script(launcher, "wrapped_optimizer.py"))


def test_several_backward_passes_are_one_step(launcher: Launcher) -> None:
    found = run_script(launcher, "many_backward.py")
    assert_followed(found)
    assert (found.share(Phase.BACKWARD) or 0.0) > 0.1


def test_gradients_of_a_function_mark_the_steps(launcher: Launcher) -> None:
    found = run_script(launcher, "functional.py")
    assert_followed(found, updates=0)
    assert median_ms(found, Phase.BACKWARD) > 0


def test_optimizers_that_step_within_the_backward_pass_are_one_step(launcher: Launcher) -> None:
    found = run_script(launcher, "in_backward.py")
    assert_followed(found, updates=20)
    assert median_ms(found, Phase.OPTIMIZER) > 0


@pytest.mark.parametrize("what", ["module", "in-place", "optimizer", "step"])
def test_what_is_compiled_is_followed_and_compiled_once(launcher: Launcher, what: str) -> None:
    """The script itself counts its graphs, and fails where we break one."""
    found = run_script(launcher, "compiles.py", what, "aot_eager")
    assert_followed(found)
    assert found.compiled
    assert median_ms(found, Phase.BACKWARD) > 0
    assert median_ms(found, Phase.OPTIMIZER) > 0


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch's compiler for the CPU needs a C++ compiler")
def test_machine_code_of_the_compiler_is_followed(launcher: Launcher) -> None:
    assert_followed(run_script(launcher, "compiles.py", "module", "inductor"))


def test_a_stream_that_takes_its_time_is_input(launcher: Launcher) -> None:
    found = run_script(launcher, "stream.py", "0")
    assert_followed(found, samples=6)
    assert 12.0 <= median_ms(found, Phase.INPUT) <= 12.0 + SLACK_MS


def test_a_stream_in_workers_is_input_as_far_as_it_is_waited_for(launcher: Launcher) -> None:
    found = run_script(launcher, "stream.py", "2")
    assert_followed(found, samples=6)
    mean_s = found.mean_phase_s(Phase.INPUT)
    assert mean_s is not None
    assert mean_s < 12e-3 + SLACK_MS / 1e3, "two workers share the work"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows starts workers in one way only")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("lives", ["persistent", "anew"])
def test_workers_by_any_method_over_the_ends_of_epochs(launcher: Launcher, method: str, lives: str) -> None:
    found = run_script(launcher, "methods.py", method, lives, steps=40, warmup=5)
    assert_followed(found, steps=40, samples=4)
    assert len(found.epoch_starts) in (1, 2), "an epoch has 25 steps"
    assert found.loaders[0].trained_on


def test_a_profiler_of_the_scripts_own_sees_what_it_would_see(launcher: Launcher) -> None:
    found = run_script(launcher, "profiles.py", steps=200)
    assert found.status is Status.ENDED, found.output
    assert found.exit_code == 0, "it checks by itself what its profiler has seen"
    assert len(found.step_s) == 30


@pytest.mark.parametrize("way", ["loader", "no-loader", "with-gradients", "teacher-and-validation"])
def test_a_validation_is_told_apart(launcher: Launcher, way: str) -> None:
    """20 steps an epoch, then 5 forward passes of 10 ms each that are no training."""
    found = run_script(launcher, "validates.py", way)
    assert_followed(found, samples=4)
    assert found.num_validations == 3
    # Each of the fifteen passes may oversleep; counted twice it would be more than this.
    assert 0.150 <= found.validation_s < 0.300
    assert max(found.step_s) < 0.050


def test_a_teacher_in_each_step_is_training(launcher: Launcher) -> None:
    found = run_script(launcher, "validates.py", "teacher")
    assert_followed(found, samples=4)
    assert found.num_validations == 0
    assert 10.0 <= median_ms(found, Phase.FORWARD) <= 10.0 + SLACK_MS


def test_an_application_with_a_configuration_and_a_folder_of_its_own(launcher: Launcher) -> None:
    """It also handles Ctrl-C by itself, and checks that its handler was called."""
    found = run_script(launcher, "app.py", "width=6", "--lr", "0.2")
    assert_followed(found)
    assert next(iter(found.sources)).endswith("app.py")


def test_a_script_that_leaves_with_a_code_keeps_it(launcher: Launcher) -> None:
    found = run_script(launcher, "app.py", "steps=40", "--leave", "3")
    assert (found.status, found.exit_code) == (Status.CRASHED, 3)
    assert len(found.step_s) == 30


def test_hooks_of_the_scripts_own_are_called_as_often_as_without_us(launcher: Launcher) -> None:
    found = run_script(launcher, "own_hooks.py", steps=200)
    assert found.status is Status.ENDED, found.output
    assert found.exit_code == 0, "it counts its calls by itself"
    assert len(found.step_s) == 20


def test_training_in_a_thread_is_followed(launcher: Launcher) -> None:
    found = run_script(launcher, "in_thread.py")
    assert_followed(found)
    assert 5.0 <= median_ms(found, Phase.OTHER) <= 5.0 + SLACK_MS
    assert median_ms(found, Phase.FORWARD) < 5.0, "the main thread's model is another matter"
