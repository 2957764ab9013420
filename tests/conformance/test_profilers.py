"""What is asked of a run is what the probe can do."""

from hotlap.probe import profilers
from hotlap.tune import FULL, PROFILERS


def test_every_profiler_is_asked_for_by_its_name() -> None:
    assert set(PROFILERS) == set(profilers.NAMES) - {"workload"}, "`hotlap predict` asks for that"


def test_a_training_for_real_is_looked_at_closely_but_nothing_in_it_is_switched() -> None:
    """Other settings would change its numbers, and what is patched into a data set could meet a worker that is started
    just then."""
    assert set(FULL) == set(PROFILERS) - {"what-if", "input"}
