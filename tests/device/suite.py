"""What the probe says of a device, beside what is true: run by test_simulated.py, and on CUDA by `make gpu`.

On the simulated GPU the clock is moved by launches and waits only, so each time is known exactly. On CUDA a kernel that
spins for a given time takes the place of the simulated one.
"""

import importlib
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap import accelerator
from hotlap.levers import Patch
from hotlap.probe import hooks
from hotlap.probe.profilers.device import DevicePhases
from hotlap.probe.profilers.syncs import Syncs
from hotlap.probe.session import Session
from hotlap.record import Phase, Plan, SightingKind

pytestmark = pytest.mark.gpu

KIND = os.environ.get("HOTLAP_DEVICE") or ("cuda" if torch.cuda.is_available() else "")
if not KIND:
    pytest.skip("needs a CUDA device, or the simulated one", allow_module_level=True)

SIM: Any = importlib.import_module("simulated_gpu") if KIND == "sim" else None
# The suite is exact to 2%; where the host's clock is real, launches come on top.
EXACT = 0.02


def busy(tensor: torch.Tensor, seconds: float) -> torch.Tensor:
    """A kernel of so many seconds."""
    if SIM is not None:
        return torch.ops.sim.spin(tensor, seconds)  # type: ignore[no-any-return]
    _spin(round(seconds * _cycles_per_s()))
    return tensor


def _spin(cycles: int) -> None:
    sleep: Any = torch.cuda._sleep
    sleep(cycles)


@cache
def _cycles_per_s() -> float:
    """By the device's own clock. (To ask the driver for it took milliseconds in each call, on an H100.)"""
    begun, ended = (accelerator.event(timed=True) for _ in range(2))
    for _ in range(3):  # the first wakes the device
        begun.record()
        _spin(50_000_000)
        ended.record()
        accelerator.synchronize()
    return 50_000_000 / (1e-3 * begun.elapsed_time(ended))


def host(seconds: float) -> None:
    """The host does something else."""
    if SIM is not None:
        SIM.host_work(seconds)
    else:
        time.sleep(seconds)


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    if SIM is not None:
        SIM.virtual(True)
    yield
    accelerator.synchronize()
    if SIM is not None:
        SIM.virtual(False)


class Layer(torch.nn.Module):
    """Its forward pass takes the device `forward_s`, its backward pass `backward_s`."""

    def __init__(self, *, forward_s: float, backward_s: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.times = forward_s, backward_s

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.weight
        busy(y, self.times[0])
        y.register_hook(self._backward)  # type: ignore[no-untyped-call] # torch has no types for it
        return y

    def _backward(self, gradient: torch.Tensor) -> None:
        busy(gradient, self.times[1])


class Training:
    """A session of the probe in this process, and a model on the device."""

    def __init__(self, out: Path, *, forward_s: float = 0.004, backward_s: float = 0.006) -> None:
        plan = Plan(command=("train.py",), cwd=".", out=str(out), steps=10**8, warmup=0, profilers=("device",))
        self.session = Session(plan)
        if SIM is not None:
            self.session.device_clock._host = SIM.now
        self.patch = Patch()
        hooks.install(self.session, self.patch)
        self.model = Layer(forward_s=forward_s, backward_s=backward_s).to(KIND)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0)
        self.x = torch.ones(4, device=KIND)

    def step(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss: torch.Tensor = self.model(self.x).sum()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss

    def device_phases(self, step: Callable[[], object], *, num_steps: int = 6) -> dict[Phase, float]:
        """Mean seconds a step; of a few that came before, nothing is kept."""
        for _ in range(2):
            step()
        profiler = DevicePhases()
        profiler.install(self.session, self.patch)
        profiler.goes_on()
        for _ in range(num_steps):
            step()
        self.session.account(now=self.session.clock.now())
        profiler.close()
        found = profiler.fields()["device_phase_s"]
        assert all(column is None or len(column) == num_steps - 1 for column in found.values())
        return {phase: sum(column) / len(column) for phase, column in found.items() if column}


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    made = Training(tmp_path)
    yield made
    made.patch.undo()


def test_phases_by_the_device_are_what_its_kernels_take(training: Training) -> None:
    found = training.device_phases(training.step)
    assert found[Phase.FORWARD] == pytest.approx(0.004, rel=EXACT)
    assert found[Phase.BACKWARD] == pytest.approx(0.006, rel=EXACT)
    # The host is done in a fraction of that, and runs ahead.
    assert training.session.clock.last_spent is not None
    assert sum(training.session.clock.last_spent) < 0.002


def test_the_device_waits_for_input_only_as_far_as_its_queue_does_not_hide_it(training: Training) -> None:
    batches = iter(torch.utils.data.DataLoader(_Slow(0.003), batch_size=None))

    def step() -> None:
        next(batches)
        training.step()

    hidden = training.device_phases(step)
    assert hidden[Phase.INPUT] < 0.0001, "3 ms of loading, behind 10 ms of kernels"
    slow = iter(torch.utils.data.DataLoader(_Slow(0.025), batch_size=None))

    def starving() -> None:
        next(slow)
        training.step()

    shown = training.device_phases(starving)
    spent = training.session.clock.last_spent
    assert spent is not None
    launching_s = sum(
        spent[1:]
    )  # of the next step: its kernels run from the first launch on, and input begins after all
    assert shown[Phase.INPUT] == pytest.approx(0.025 - 0.010 + launching_s, rel=0.1)


def test_what_a_side_stream_does_takes_no_time_of_the_model(training: Training) -> None:
    side = torch.Stream(device=KIND)

    def step() -> None:
        with side:
            busy(training.x.to("cpu", non_blocking=True).to(KIND) if SIM is None else training.x, 0.008)
        training.step()

    found = training.device_phases(step)
    assert found[Phase.FORWARD] == pytest.approx(0.004, rel=EXACT)
    assert sum(found.values()) == pytest.approx(0.010, rel=0.1)


def test_a_copy_from_pageable_memory_is_waited_for_and_one_from_pinned_is_not(training: Training) -> None:
    big = torch.ones(1_000_000)  # 4 MB
    pinned = big.pin_memory()
    for batch, waits in ((big, True), (pinned, False)):

        def step(batch: torch.Tensor = batch) -> None:
            batch.to(KIND, non_blocking=True)
            training.step()

        found = training.device_phases(step)
        host_s = training.session.clock.last_spent
        assert host_s is not None
        assert found[Phase.TRANSFER] > 4e6 / 1e12, "no link is as fast"
        if SIM is not None:
            assert found[Phase.TRANSFER] == pytest.approx(4e6 / (0.5e9 if waits else 1e9), rel=EXACT)
            assert (host_s[1] > 0.004) is waits
    assert accelerator.is_pinned(pinned)


def test_a_read_value_makes_the_host_wait_and_names_its_line(training: Training) -> None:
    def step() -> None:
        training.step().item()  # waits here

    training.session.account(now=0.0)
    each = []
    for _ in range(8):
        step()
        training.session.account(now=training.session.clock.now())
        spent = training.session.clock.last_spent
        assert spent is not None
        each.append([round(1e3 * part, 2) for part in spent])
    assert each[-1][6] == pytest.approx(10.0, rel=0.2), f"sync: {each} ms"
    profiler = Syncs()
    profiler.install(training.session, training.patch)
    for _ in range(3):
        assert profiler.goes_on()
        step()
        training.x[training.x > 0]
    profiler.goes_on()
    profiler.close()
    seen = {sighting.what: sighting for sighting in profiler.fields()["sightings"]}
    item = seen["Tensor.item"]
    assert (item.kind, item.per_step, item.text) == (SightingKind.SYNC, 1, "training.step().item()  # waits here")
    assert item.path == str(Path(__file__).resolve())
    assert seen["indexing with a mask"].per_step == 1


def test_a_blocking_copy_is_found_with_its_line(training: Training) -> None:
    batch = torch.ones(64)
    profiler = Syncs()
    profiler.install(training.session, training.patch)
    for _ in range(3):
        assert profiler.goes_on()
        batch.to(KIND)  # blocks
        training.step()
    profiler.goes_on()
    profiler.close()
    (found,) = [one for one in profiler.fields()["sightings"] if one.kind is SightingKind.BLOCKING_COPY]
    assert found.text == "batch.to(KIND)  # blocks"
    assert found.num_bytes == 256


def test_all_devices_in_use_are_waited_for() -> None:
    if torch.get_device_module(KIND).device_count() < 2:
        pytest.skip("one device")
    other = torch.ones(4, device=f"{KIND}:1")
    busy(other, 0.02)
    done = accelerator.event(timed=True)
    done.record(accelerator.lane(other.device))
    assert not done.query()
    accelerator.synchronize()
    assert done.query()


def test_steps_that_are_compared_end_when_the_device_has_done_them(training: Training) -> None:
    session = training.session
    training.step()
    session.account(now=session.clock.now())
    begun = session.clock.now()
    session._drain()
    session.clock.own(begun)
    first, last = (accelerator.event(timed=True) for _ in range(2))
    first.record()
    for _ in range(10):
        training.step()
    last.record()
    session.account(now=session.clock.now())
    launched_s = sum(sum(row.spent) for row in session.ledger._rows[-10:])
    assert launched_s < 0.05, "the host is ahead"
    session._drain()
    whole_s = sum(sum(row.spent) for row in session.ledger._rows[-10:])
    assert whole_s == pytest.approx(1e-3 * first.elapsed_time(last), rel=EXACT)
    assert {row.spent[6] > 0 for row in session.ledger._rows[-10:]} == {True}, "each has its part"


def test_a_forked_child_may_ask_what_there_is() -> None:
    child = os.fork()
    if not child:
        os._exit(0 if (accelerator.in_use() is None) == (KIND == "sim" or torch.cuda._is_in_bad_fork()) else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_memory_and_names_are_those_of_the_device() -> None:
    held = torch.ones(250_000, device=KIND)
    allocated, peak = accelerator.allocated_bytes(), accelerator.peak_bytes()
    assert allocated is not None
    assert peak is not None
    assert peak >= allocated >= held.numel() * 4
    assert accelerator.name(held.device) not in ("", "cpu")
    assert accelerator.in_use() == KIND
    assert accelerator.on_device(held)


class _Slow(torch.utils.data.Dataset[torch.Tensor]):
    """The host needs `seconds` for each batch."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        host(self._seconds)
        return torch.ones(1)
