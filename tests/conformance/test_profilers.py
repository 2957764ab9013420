"""What is asked of a run is what the probe can do."""

from hotlap.probe.profilers import known as profilers
from hotlap.tune import FULL, LOOKING, PROFILERS


def test_every_profiler_is_asked_for_by_its_name() -> None:
    assert set(PROFILERS) == set(profilers.ALL) - {
        "workload",  # what `hotlap predict` asks for
        "kernels",  # what `hotlap tune` asks for
    }


def test_a_training_that_is_left_as_it_is_gets_no_profiler_with_steps_of_its_own() -> None:
    assert all(profilers.ALL[name].num_steps == 0 for name in LOOKING)


def test_a_training_for_real_is_looked_at_closely_but_nothing_in_it_is_switched() -> None:
    """Other settings would change its numbers, and what is patched into a data set could meet a worker that is started
    just then."""
    assert set(FULL) == set(PROFILERS) - {"what-if", "input"}
