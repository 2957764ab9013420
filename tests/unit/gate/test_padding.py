"""Batches that were padded further: the same but for padding, or not."""

from dataclasses import replace

from hotlap.gate import Evidence, apart
from hotlap.record import Run, Status

NUM_STEPS = 30


def run(*, whole: str, first: str, second: str) -> Run:
    steps = range(NUM_STEPS)
    return Run(
        status=Status.COMPLETE,
        step_index=tuple(steps),
        batch_digest=tuple(f"{whole}{k}" for k in steps),
        unpadded_digest=tuple((f"{first}{k}", f"{second}{k}") for k in steps),
    )


AS_WRITTEN = run(whole="w", first="0", second="1")


def test_batches_that_are_longer_by_padding_are_the_same() -> None:
    # Padded along dimension 1: what is left without the padding of dimension 0 differs.
    evidence = Evidence(base=(AS_WRITTEN,) * 2, nudged=(AS_WRITTEN,), lever=(run(whole="p", first="p", second="1"),))
    found = apart(evidence)
    assert found is not None
    digests = {one.batch_digest for one in (*found.base, *found.nudged, *found.lever)}
    assert digests == {tuple(f"1{k}" for k in range(NUM_STEPS))}


def test_batches_with_other_data_are_not() -> None:
    assert apart(Evidence(base=(AS_WRITTEN,), lever=(run(whole="p", first="p", second="q"),))) is None


def test_where_nothing_was_recorded_nothing_is_set_apart() -> None:
    lever = replace(AS_WRITTEN, unpadded_digest=None)
    assert apart(Evidence(base=(AS_WRITTEN,), lever=(lever,))) is None
