"""What the recorded steps say of one that is not recorded."""

import pytest

from hotlap.probe.clock import PHASES, Lap
from hotlap.probe.ledger import Ledger
from hotlap.probe.thinning import Thinning
from hotlap.probe.validation import Stretch


def looks(number: int) -> Stretch:
    return Stretch([0.001 * number] * len(PHASES), num_looks=number, num_samples=0)


@pytest.mark.parametrize("thinning", [False, True])
@pytest.mark.parametrize(("usual", "training", "validation"), [(None, 0, 1), (1, 1, 6)])
def test_a_validation_is_what_is_rare_among_recorded_steps(
    thinning: bool, usual: int | None, training: int, validation: int
) -> None:
    """A teacher looks in each step."""
    ledger = Ledger(Thinning() if thinning else None)
    for number in range(20):
        ledger.add(Lap(number=number, aside=None if usual is None else looks(usual)))
    assert ledger.is_validation(looks(validation))
    assert not training or not ledger.is_validation(looks(training))
    assert ledger.is_validation(looks(validation)), "it was not taken up"
