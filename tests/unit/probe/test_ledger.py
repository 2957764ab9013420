"""What the recorded steps say of one that is not recorded."""

import pytest

from hotlap.probe.clock import PHASES, StepSpans, Stretch
from hotlap.probe.ledger import Ledger, Thinning


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
        ledger.add(StepSpans(number=number, aside=None if usual is None else looks(usual)))
    assert ledger.is_validation(looks(validation))
    assert not training or not ledger.is_validation(looks(training))
    assert ledger.is_validation(looks(validation)), "it was not taken up"


def test_what_validations_spend_in_loaders_is_known() -> None:
    for one in (Ledger(), Ledger(Thinning())):
        for number in range(20):
            one.add(StepSpans(number=number, aside=looks(1) if number % 10 == 9 else None))
        seen = one.columns(measured=frozenset())
        assert (seen["num_validations"], seen["validation_input_s"]) == (2, pytest.approx(0.002))
        assert seen["validation_s"] == pytest.approx(0.002 * len(PHASES))


def test_starts_of_loaders_are_shared_out_over_all_recorded_steps() -> None:
    ledger = Ledger()
    assert ledger.start_s() == 0.0
    for number in range(8):
        ledger.add(StepSpans(number=number, start_s=float(number % 4 == 0)))
    assert ledger.start_s() == 0.25
