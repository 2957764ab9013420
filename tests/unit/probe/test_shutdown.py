"""What is noted of the error that ended a script."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.multiprocessing import reductions

from hotlap.experiment.failure import failed
from hotlap.probe.shutdown import Shutdown
from hotlap.record import Failure, Run, Status


def noted(error: BaseException) -> str | None:
    ending = Shutdown(cast("Any", SimpleNamespace()))
    ending.failed(error)
    return ending.error


def test_an_error_is_noted_with_its_kind_and_its_words() -> None:
    with pytest.raises(ValueError, match="no") as raised:
        raise ValueError("no")
    assert noted(raised.value) == "ValueError: no"


def test_a_long_error_in_colours_is_one_line_that_ends_behind_a_word() -> None:
    said = noted(ValueError("\x1b[1mWeights only\x1b[0m load failed.\n\t(1) " + "try again " * 100))
    assert said is not None and len(said) < 310
    assert said.startswith("ValueError: Weights only load failed. (1) try again try")
    assert said.endswith((" again [...]", " try [...]"))


def test_a_batch_whose_worker_is_gone_is_known_without_what_the_script_prints() -> None:
    # The signal that the worker has died can break off the traceback while Python prints it.
    class Sent:
        def detach(self) -> int:
            raise ConnectionResetError(104, "Connection reset by peer")

    rebuild: Any = reductions.rebuild_storage_fd  # torch has no types for it
    with pytest.raises(ConnectionResetError) as raised:
        rebuild(torch.UntypedStorage, Sent(), 0)
    found = failed(Run(status=Status.CRASHED, error=noted(raised.value), output="Traceback (most recent call last):"))
    assert found is not None and found.kind is Failure.LOST_WORKERS
