"""Batches that are trained on are told from those of a validation."""

import pytest

from hotlap.probe.clock import BACKWARD, DRAW, EPOCH, LOADER, LOOK, STEP_END, TRAIN, Clock, StepSpans

OURS, HELD_OUT, OTHER = range(3)


def step(*things: int, loaders: tuple[int, ...]) -> StepSpans:
    """A step of these, one a second; the batches drawn in it are of these loaders."""
    now_s = 0.0
    clock = Clock(lambda: now_s)
    left = list(loaders)
    for what in things:
        now_s += 1.0
        clock.note((what, now_s - 0.5, now_s))
        if what == DRAW:
            clock.note((LOADER, left.pop(0), None))
    clock.note((STEP_END, now_s, now_s))
    (found,) = clock.read()
    return found


@pytest.mark.parametrize(
    ("things", "loaders", "trained"),
    [
        ((DRAW, LOOK) * 3 + (DRAW, TRAIN, BACKWARD), (HELD_OUT,) * 3 + (OURS,), [OURS]),
        # A loss module is in training mode in a validation, too.
        ((DRAW, LOOK, TRAIN, DRAW, BACKWARD), (HELD_OUT, OURS), [OURS]),
        # By hand, and by a network in evaluation mode.
        ((DRAW, BACKWARD), (OURS,), [OURS]),
        ((DRAW, LOOK, BACKWARD), (OURS,), [OURS]),
        # Drawn together; beside a teacher.
        ((DRAW, DRAW, LOOK, DRAW, DRAW, LOOK, TRAIN, BACKWARD), (HELD_OUT, HELD_OUT, OURS, OTHER), [OURS, OTHER]),
        # Two losses of one backward pass.
        ((DRAW, TRAIN, DRAW, TRAIN, BACKWARD), (OURS, OTHER), [OURS, OTHER]),
    ],
)
def test_batches_that_are_only_looked_at_are_not_trained_on(
    things: tuple[int, ...], loaders: tuple[int, ...], trained: list[int]
) -> None:
    assert list(step(*things, loaders=loaders).loaders) == trained


@pytest.mark.parametrize(
    ("things", "starts"),
    [
        ((EPOCH, DRAW, LOOK, DRAW, TRAIN, BACKWARD), False),
        ((DRAW, LOOK, EPOCH, DRAW, TRAIN, BACKWARD), False),
        ((DRAW, LOOK, DRAW, EPOCH, TRAIN, BACKWARD), True),
        ((EPOCH, DRAW, LOOK, BACKWARD), True),
        ((EPOCH, DRAW, TRAIN, BACKWARD), True),
    ],
)
def test_an_epoch_starts_where_a_loader_is_started_that_is_trained_on(things: tuple[int, ...], starts: bool) -> None:
    assert step(*things, loaders=(OURS,) * things.count(DRAW)).epoch_started is starts
