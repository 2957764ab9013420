"""Numbers that are bytes as long as nobody looks: on the way to a GPU they travel as that, a quarter of the traffic."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch

from hotlap.data.tails import Tail, all_bytes
from hotlap.data.unmade import MOST_LOOKS


@final
class ByteRoad:
    """Whether batches may travel as bytes, and whether numbers made over there are the same."""

    def __init__(self, *, leads_to: Callable[[torch.device], bool] = lambda device: device.type == "cuda") -> None:
        self._leads_to = leads_to
        self._same: dict[tuple[Tail, int, torch.device], bool] = {}
        self._num_looks = 0
        self.num_sent = 0
        """Tensors that travelled as bytes."""

    @property
    def open(self) -> bool:
        """False after the script used too many batches here."""
        return self._num_looks < MOST_LOOKS

    def looked_at(self) -> None:
        """The script used a batch here."""
        self._num_looks += 1

    def leads_to(self, device: torch.device, tail: Tail, num_channels: int) -> bool:
        """True if that device makes the same 32 bits of each of the 256 bytes, channel by channel. Tried once."""
        if not self._leads_to(device):
            return False
        case = (tail, num_channels, device)
        if case not in self._same:
            every = all_bytes(num_channels)
            given = [every.to(place) for place in (torch.device("cpu"), device)]
            made = [
                tail.apply(each, torch.empty_like(each, dtype=torch.float32), channels_last=False) for each in given
            ]
            here, there = (numbers.cpu().view(torch.int32) for numbers in made)
            self._same[case] = torch.equal(here, there)
        return self._same[case]


@final
@dataclass(frozen=True, slots=True)
class OfBytes:
    """How one tensor of (B, C, H, W) numbers comes to be on a device."""

    road: ByteRoad
    bytes_: torch.Tensor
    shape: tuple[int, ...]
    tail: Tail
    channels_last: bool
    """In `bytes_`: (B, H, W, C)."""

    def arrive(self, device: torch.device, *, non_blocking: bool) -> torch.Tensor | None:
        """The numbers over there; None if the bytes cannot go there, or would become others."""
        if not self.road.leads_to(device, self.tail, self.shape[1]):
            return None
        self.road.num_sent += 1
        there = self.bytes_.to(device, non_blocking=non_blocking)
        if self.channels_last:
            out = torch.empty(self.shape, dtype=torch.float32, device=device)
        else:
            out = torch.empty_like(there, dtype=torch.float32)
        return self.tail.apply(there, out, channels_last=self.channels_last)

    def looked_at(self) -> None:
        """The script used it here."""
        self.road.looked_at()
