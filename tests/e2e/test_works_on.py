"""Every way to train that hotlap promises to follow, each on a small script: steps, updates, samples, phases."""

import shutil

import pytest

from hotlap.record import Phase, Run, Status
from tests.e2e.running import Forks, assert_phases_sum_to_steps, median_ms

pytestmark = pytest.mark.e2e


def assert_followed(found: Run, *, steps: int = 60, updates: int = 1, samples: int | None = None) -> None:
    """Every step was seen as what it is."""
    assert found.status is Status.COMPLETE, found.output
    assert len(found.step_s) == steps
    assert set(found.num_updates) == {updates}
    assert set(found.num_samples) == {samples}
    assert_phases_sum_to_steps(found)


def test_time_that_is_lost_on_purpose_is_found_in_its_phase(forks: Forks) -> None:
    """Each step sleeps 20 ms in another place; no phase of the others holds as much in every step."""
    found = forks("planted.py", steps=36, warmup=6)
    assert_followed(found, steps=36, samples=8)
    slept_in = (Phase.INPUT, Phase.INPUT, Phase.FORWARD, Phase.OTHER, Phase.BACKWARD, Phase.OPTIMIZER)
    for phase in set(slept_in):
        times_s = found.phase_s[phase]
        assert times_s
        by_place = {
            inside: [s for s, k in zip(times_s, found.step_index, strict=True) if (slept_in[k % 6] is phase) is inside]
            for inside in (True, False)
        }
        assert min(by_place[True]) >= 0.020, phase
        assert min(by_place[False]) < min(by_place[True]), phase


def test_an_optimizer_of_the_scripts_own_is_its_own_python(forks: Forks) -> None:
    found = forks("own_optimizer.py")
    assert_followed(found, updates=0)
    assert found.phase_s[Phase.OPTIMIZER] is None, "nobody can see it, so it is unknown, not 0"
    assert median_ms(found, Phase.OTHER) >= 10.0


def test_an_optimizer_around_another_one_is_one_update(forks: Forks) -> None:
    assert_followed(forks("wrapped_optimizer.py"))


def test_several_backward_passes_are_one_step(forks: Forks) -> None:
    found = forks("many_backward.py")
    assert_followed(found)
    assert median_ms(found, Phase.BACKWARD) > 0


def test_gradients_of_a_function_mark_the_steps(forks: Forks) -> None:
    found = forks("functional.py")
    assert_followed(found, updates=0)
    assert median_ms(found, Phase.BACKWARD) > 0


def test_an_ensemble_by_vmap_is_followed_and_gives_evidence(forks: Forks) -> None:
    found = forks("ensemble.py", evidence=True, warmup=0)
    assert_followed(found)
    assert not found.notes
    assert found.settings_digest is not None and all(found.loss)


def test_optimizers_that_step_within_the_backward_pass_are_one_step(forks: Forks) -> None:
    found = forks("in_backward.py")
    assert_followed(found, updates=20)
    assert median_ms(found, Phase.OPTIMIZER) > 0


@pytest.mark.parametrize("what", ["module", "in-place", "optimizer", "step"])
def test_what_is_compiled_is_followed_and_compiled_once(forks: Forks, what: str) -> None:
    """The script itself counts its graphs, and fails where we break one."""
    found = forks("compiles.py", what, "aot_eager")
    assert_followed(found)
    assert found.compiled
    assert median_ms(found, Phase.BACKWARD) > 0
    assert median_ms(found, Phase.OPTIMIZER) > 0


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch's compiler for the CPU needs a C++ compiler")
def test_machine_code_of_the_compiler_is_followed(forks: Forks) -> None:
    assert_followed(forks("compiles.py", "module", "inductor"))


def test_a_stream_that_takes_its_time_is_input(forks: Forks) -> None:
    found = forks("stream.py", "0")
    assert_followed(found, samples=6)
    assert min(found.phase_s[Phase.INPUT] or ()) >= 0.012


def test_a_stream_in_workers_is_followed(forks: Forks) -> None:
    found = forks("stream.py", "2")
    assert_followed(found, samples=6)
    assert found.loaders[0].num_workers == 2
    # They sleep 12 ms for a batch each, and are four batches ahead at most.
    assert sum(found.step_s) >= (60 - 4) / 2 * 0.012


def test_workers_by_any_method_over_the_ends_of_epochs(forks: Forks) -> None:
    found = forks("methods.py", steps=75, warmup=5)
    assert_followed(found, steps=75, samples=4)
    assert [found.step_index[k] for k in found.epoch_starts] == list(range(10, 80, 10))


def test_a_profiler_of_the_scripts_own_sees_what_it_would_see(forks: Forks) -> None:
    found = forks("profiles.py", steps=200)
    assert found.status is Status.ENDED, found.output
    assert found.exit_code == 0, "it checks by itself what its profiler has seen"
    assert len(found.step_s) == 30


@pytest.mark.parametrize("teacher", ["none", "teacher-and-validation"])
def test_a_validation_is_told_apart(forks: Forks, teacher: str) -> None:
    """20 steps an epoch, then 5 forward passes of 40 ms each that are no training: each time in another way. Two of the
    ways start a loader, which takes 100 ms."""
    found = forks("validates.py", teacher)
    assert_followed(found, samples=4)
    assert [loader.trained_on for loader in found.loaders] == [False, True]
    assert found.num_validations == 3
    assert found.validation_s >= 3 * 0.200 + 2 * 0.100
    assert max(found.num_forwards) == (1 if teacher == "none" else 2), "their forward passes are in no step"
    for beside in (0, 19):  # the first and the last step of each epoch
        nearest_s = [s for s, k in zip(found.step_s, found.step_index, strict=True) if k % 20 == beside]
        assert min(nearest_s) < 0.200, "nor is their time"


def test_without_a_loader_two_validations_are_waited_for(forks: Forks) -> None:
    found = forks("eval_interval.py", steps=30, whole_epoch=True)
    assert_followed(found, steps=91)  # behind a warm-up of ten: up to the one in front of the step with index 100
    assert found.num_validations == 2


@pytest.mark.parametrize("made", ["for-each-model", "anew"])
def test_a_data_set_for_each_model_is_told_from_one_for_each_epoch(forks: Forks, made: str) -> None:
    found = forks("folds.py", made)
    assert_followed(found, samples=4)
    (loader,) = found.loaders  # all are made at one line
    assert (loader.trained_on, loader.dataset_anew, loader.loader_anew) == (True, made == "anew", made == "anew")


def test_a_teacher_in_each_step_is_training(forks: Forks) -> None:
    found = forks("validates.py", "teacher")
    assert_followed(found, samples=4)
    assert found.num_validations == 0
    assert min(found.phase_s[Phase.FORWARD] or ()) >= 0.010


def test_an_application_with_a_configuration_and_a_folder_of_its_own(forks: Forks) -> None:
    """It also handles Ctrl-C by itself, and checks that its handler was called."""
    found = forks("app.py", "width=6", "--lr", "0.2")
    assert_followed(found)
    assert next(iter(found.sources)).endswith("forked.py"), "though the folder is another one"


def test_a_script_that_leaves_with_a_code_keeps_it(forks: Forks) -> None:
    found = forks("app.py", "steps=40", "--leave", "3")
    assert (found.status, found.exit_code) == (Status.CRASHED, 3)
    assert len(found.step_s) == 30


def test_hooks_of_the_scripts_own_are_called_as_often_as_without_us(forks: Forks) -> None:
    found = forks("own_hooks.py", steps=200)
    assert found.status is Status.ENDED, found.output
    assert found.exit_code == 0, "it counts its calls by itself"
    assert len(found.step_s) == 20


def test_training_in_a_thread_is_followed(forks: Forks) -> None:
    found = forks("in_thread.py")
    assert_followed(found)
    assert min(found.phase_s[Phase.OTHER] or ()) >= 0.005
    assert set(found.num_forwards) == {1}, "the main thread's model is another matter"
