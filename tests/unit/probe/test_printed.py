"""What is heard of a script's stdout and of what it logs."""

import io
import logging
import sys

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from hotlap.levers.lever import Patch
from hotlap.probe.guard import Guard
from hotlap.probe.printed import Printed
from hotlap.record import GIVEN


def test_lines_after_the_first_step_are_kept_and_written_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    printed, patch, steps = Printed(), Patch(), [0]
    printed.install(patch, Guard(), lambda: steps[0])
    print("before the first step")
    steps[0] = 3
    print("loss", end=" ")
    print(0.5)
    print("50%\r60%\r")
    print()
    sys.stdout.write("two\nlines\n")
    patch.undo()
    print("when it is over")
    assert printed.lines == [(3, "loss 0.5"), (3, "two"), (3, "lines")]
    stream.seek(0)
    assert stream.read().splitlines()[:2] == ["before the first step", "loss 0.5"]


def test_what_is_logged_is_kept_without_what_a_handler_puts_in_front(caplog: pytest.LogCaptureFixture) -> None:
    printed, patch = Printed(), Patch()
    printed.install(patch, Guard(), lambda: 3)
    with caplog.at_level(logging.INFO):
        logging.getLogger("train").info("epoch %d\nloss %.2f", 1, 0.5)
        logging.getLogger("train").debug("loss 0.25")
        logging.getLogger("torch._dynamo").warning("compiled in 2.5 s")
        logging.getLogger("py.warnings").warning("train.py:12: UserWarning")
    patch.undo()
    logging.getLogger("train").info("when it is over")
    assert printed.lines == [(3, "epoch 1"), (3, "loss 0.50")]
    assert "epoch 1" in caplog.text and "compiled" in caplog.text


def test_what_a_scheduler_goes_by_is_kept_and_given_to_it() -> None:
    printed, patch, steps = Printed(), Patch(), [0]
    printed.install(patch, Guard(), lambda: steps[0])
    plateau = ReduceLROnPlateau(torch.optim.SGD([torch.ones(1)]), mode="max")
    plateau.step(0.25)
    steps[0] = 3
    plateau.step(metrics=torch.tensor(0.5))
    patch.undo()
    plateau.step(0.75)
    assert printed.lines == [(3, f"{GIVEN}(5.0000000000000000e-01)")]
    assert plateau.best == 0.75
    assert plateau.last_epoch == 3


def test_a_stream_that_cannot_be_changed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed(io.StringIO):
        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(name)

    monkeypatch.setattr(sys, "stdout", Fixed())
    printed = Printed()
    printed.install(Patch(), Guard(), lambda: 1)
    print("text")
    assert not printed.lines
