"""Losses: the scalars that backward passes start from, read when the window is over."""

import weakref
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from hotlap.probe.clock import LOSS, StepSpans

if TYPE_CHECKING:
    from hotlap.probe.session import Session

_SEVERAL = (tuple, list)

# Losses of one step that are looked at again: those of a GAN are three or four.
_LAST = 4


class OnDevice(NamedTuple):
    """A loss that is not read yet: reading waits for the device."""

    tensor: Tensor
    version: int
    """Of the tensor, when backward was called on it: each change in place adds one."""

    def is_known(self) -> bool:
        """Nobody has changed it since."""
        return self.tensor._version == self.version


def read(rows: Iterable[StepSpans]) -> None:
    """Losses of these steps become numbers, all that lie on a device in one go, since each reading waits for it. A step
    of which one was changed before has none."""
    waiting = []
    for row in rows:
        of_device = [loss for loss in row.losses if isinstance(loss, OnDevice)]
        if not all(loss.is_known() for loss in of_device):
            row.losses = []
        elif of_device:
            waiting.append(row)
    tensors = [loss.tensor.reshape(()) for row in waiting for loss in row.losses if isinstance(loss, OnDevice)]
    alike = len({(tensor.device, tensor.dtype) for tensor in tensors}) == 1
    try:
        numbers = iter(torch.stack(tensors).tolist() if alike else list(map(float, tensors)))
    except RuntimeError:  # the device has failed, and gives nothing back: all else is worth keeping
        for row in waiting:
            row.losses = []
        return
    for row in waiting:
        row.losses = [next(numbers) if isinstance(loss, OnDevice) else loss for loss in row.losses]


class Losses:
    """Notes them on the clock.

    On a device each is left where it is, not copied: a copy is a launch, 16 us of the host beside an H200. It is copied
    where it will not stay as it is: in a script that changes its losses in place (from the second one on), writes
    them by graphs of the device, or has them within a larger tensor; where several processes train together, which
    add them up in place and tell no version; and for the gate, which needs them all.
    """

    def __init__(self, session: "Session") -> None:
        self._session, self._note = session, session.clock.note
        self._copies = session.plan.evidence
        self._last: deque[OnDevice] = deque(maxlen=_LAST)
        self.last_scaled: tuple[Any, Any] | None = None
        """What a GradScaler made last (weakly), and of which loss."""
        off = session.must_be_there
        self.went_backward = session.guard(self._went_backward, "the losses", off=off)
        self.scaled = session.guard(self._note_scaled, "the losses before they are scaled", off=off)

    def _note_scaled(self, scaled: Any, scaler: Any, outputs: Any) -> None:
        """`scaled` is what backward will be called on in place of `outputs`."""
        if isinstance(outputs, Tensor) and isinstance(scaled, Tensor):
            self.last_scaled = weakref.ref(scaled), outputs.detach()

    def _went_backward(self, roots: Any) -> None:
        """Scalars among what a backward pass started from."""
        for root in roots if isinstance(roots, _SEVERAL) else (roots,):
            loss = root if self.last_scaled is None or self.last_scaled[0]() is not root else self.last_scaled[1]
            if isinstance(loss, Tensor) and loss.numel() == 1 and loss.is_floating_point():
                self._note((LOSS, loss.item() if loss.is_cpu else self._on_device(loss), None))

    def _on_device(self, loss: Tensor) -> OnDevice:
        told_by_none = self._session.graphs.seen or self._session.collectives.active
        self._copies = self._copies or told_by_none or not all(one.is_known() for one in self._last)
        stays = loss.detach().clone() if self._copies or loss._is_view() else loss.detach()
        found = OnDevice(stays, stays._version)
        self._last.append(found)
        return found
