"""Host time spent on the device: transfers and waits, with doubles and the meta device standing in for one."""

from collections.abc import Callable, Iterator

import pytest
import torch

from hotlap.levers.lever import Patch
from hotlap.probe import device
from hotlap.probe.clock import STEP_END, Clock
from hotlap.record import Phase


class Ticks:
    """A clock that moves by one with each look."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 1
        return self.time


class Hooked:
    def __init__(self, on_host: Callable[[torch.Tensor], bool]) -> None:
        self.clock = Clock(Ticks())
        self.patch = Patch()
        self.here = True
        device.hook(self.clock, self.patch, trains_here=lambda: self.here, on_host=on_host)

    def phases(self, work: Callable[[], object]) -> set[Phase]:
        """What `work` was spent on, besides OTHER."""
        work()
        self.clock.note((STEP_END, self.clock.now(), self.clock.now()))
        (step,) = self.clock.read()
        return {phase for phase, seconds in zip(Phase, step.spent, strict=True) if seconds} - {Phase.OTHER}


@pytest.fixture
def hooked() -> Iterator[Hooked]:
    """Doubles are on the device."""
    found = Hooked(lambda tensor: tensor.dtype is not torch.float64)
    yield found
    found.patch.undo()


@pytest.fixture
def with_meta() -> Iterator[Hooked]:
    found = Hooked(lambda tensor: not tensor.is_meta)
    yield found
    found.patch.undo()


def test_moving_a_tensor_is_a_transfer(with_meta: Hooked) -> None:
    host = torch.ones(3)
    assert with_meta.phases(lambda: host.to("meta")) == {Phase.TRANSFER}
    assert with_meta.phases(lambda: host.to(device="meta", non_blocking=True)) == {Phase.TRANSFER}
    assert with_meta.phases(lambda: host.to(torch.device("meta"), torch.float16)) == {Phase.TRANSFER}
    assert with_meta.phases(lambda: host.to(torch.ones(1, device="meta"))) == {Phase.TRANSFER}
    assert with_meta.phases(lambda: torch.empty(3, device="meta").copy_(host)) == {Phase.TRANSFER}


def test_what_stays_where_it_is_is_none(with_meta: Hooked) -> None:
    host = torch.ones(3)
    for stay in (lambda: host.to("cpu"), lambda: host.to(torch.float64), lambda: host.copy_(torch.zeros(3)), host.cpu):
        assert with_meta.phases(stay) == set()
    assert with_meta.phases(lambda: torch.ones(3, device="meta").to("meta")) == set()


def test_reading_a_value_from_the_device_is_a_wait(hooked: Hooked) -> None:
    loss = torch.ones((), dtype=torch.float64)
    for read in (loss.item, lambda: float(loss), lambda: bool(loss), lambda: int(loss), loss.tolist, loss.nonzero):
        assert hooked.phases(read) == {Phase.SYNC}
    here = torch.ones(())
    for read in (here.item, lambda: float(here), lambda: bool(here), here.tolist):
        assert hooked.phases(read) == set()


def test_other_threads_are_not_counted(hooked: Hooked) -> None:
    hooked.here = False
    assert hooked.phases(torch.ones((), dtype=torch.float64).item) == set()


def test_undoing_it_restores_every_method() -> None:
    before = dict(vars(torch.Tensor)), dict(vars(torch.cuda))
    hooked = Hooked(lambda tensor: not tensor.is_meta)
    assert dict(vars(torch.Tensor)) != before[0]
    hooked.patch.undo()
    assert (dict(vars(torch.Tensor)), dict(vars(torch.cuda))) == before


def test_dynamo_traces_through_them_without_a_break(hooked: Hooked) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return (x.to(torch.float64).sin() + x.to("cpu")).to(x)

    x = torch.randn(4)
    compiled = torch.compile(step, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), step(x))
    assert torch.equal(compiled(x), step(x))


def test_a_module_is_moved_as_it_would_be(with_meta: Hooked) -> None:
    assert torch.nn.Linear(2, 2).to("meta").weight.is_meta
