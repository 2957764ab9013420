"""Models under `no_grad` that nothing trains, told from those that change, and from what they make once."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from hotlap.probe.event_counter import here
from hotlap.probe.frozen import Frozen
from hotlap.record import Sighting

STUDENT = nn.Linear(4, 2)


def seen(
    teacher: nn.Module,
    *,
    given: Callable[[torch.Tensor], torch.Tensor] = lambda x: x,
    student: nn.Module = STUDENT,
    every: int = 1,
    after: Callable[[], object] = lambda: None,
) -> list[Sighting]:
    """Of six steps, each with a batch; the teacher takes three times as long as the student."""
    frozen = Frozen()
    for step in range(6):
        x = torch.randn(3, 4)
        frozen.drew((x, torch.zeros(3)))
        if step % every == 0:
            known = list(student.parameters())
            frozen.saw(teacher, ((given(x),), {}), lambda known=known: known, step=step, spot=here(), seconds=0.003)  # type: ignore[misc]
        frozen.trains(student, ((x,), {}), 0.001)
        after()
    return list(frozen.sightings(6))


def test_a_teacher_is_told_with_its_part_of_the_forward_passes() -> None:
    (one,) = seen(nn.Linear(4, 8))
    assert one.what == "Linear" and one.per_step == 1
    assert one.cost_s == pytest.approx(0.003)
    assert one.detail == {"part": pytest.approx(0.75), "shared": True}, "the student is given the batch as well"


def test_a_backbone_whose_samples_nothing_else_is_given_is_not_shared() -> None:
    frozen, x = Frozen(), torch.randn(3, 4)
    frozen.drew(x)
    frozen.saw(nn.Linear(4, 8), x, lambda: list(STUDENT.parameters()), step=0, spot=here(), seconds=0.003)
    frozen.trains(STUDENT, torch.randn(3, 4), 0.001)
    frozen.trains(nn.MSELoss(), x, 0.001)
    (one,) = frozen.sightings(1)
    assert one.detail["shared"] is False, "a loss that is given labels trains nothing"


def test_what_is_trained_or_changes_or_is_given_something_else_is_not_frozen() -> None:
    noisy = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5))
    teacher = nn.Linear(4, 8)
    assert not seen(STUDENT), "an optimizer has it"
    assert not seen(nn.Linear(4, 2)), "a target network, or an average: a copy of what is trained"
    assert not seen(teacher, given=lambda x: x + torch.randn(3, 4)), "augmentation behind the loader"
    assert not seen(noisy) and len(seen(noisy.eval())) == 1
    assert not seen(teacher, every=4), "a validation comes once in many steps"
    with torch.no_grad():
        assert not seen(teacher, after=lambda: teacher.weight.mul_(0.9)), "it is updated by hand"
