"""Torch's compiler does not see the probe, and the probe asks for the compiler only once there is one."""

import torch

from hotlap.levers import Patch
from hotlap.probe import unseen


def test_torch_is_asked_whether_it_compiles_once_something_is_compiled() -> None:
    patch = Patch()
    unseen.until_compiled(patch)
    try:
        before = unseen.compiles
        torch.compile(torch.sin, backend="eager")
        assert (before, unseen.compiles) == (False, True)
    finally:
        patch.undo()
