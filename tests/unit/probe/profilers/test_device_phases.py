"""Phases by the device's clock, with a device that the test moves: it runs behind the host, and at its own pace."""

import struct
from dataclasses import dataclass
from typing import Any, Self

import pytest

from hotlap.probe.clock import BACKWARD, FORWARD, LOOK, PHASES, STEP, STEP_END, Clock
from hotlap.probe.profilers.device import DeviceClock
from hotlap.record import Phase


@dataclass
class World:
    """A host, and a device that has come so far in its queue."""

    host_s: float = 10.0
    device_s: float = 0.0

    def passes(self, *, host_s: float, device_s: float) -> None:
        self.host_s += host_s
        self.device_s += device_s


@dataclass
class Stamp:
    world: World
    at_s: float | None = None

    def record(self, stream: Any, /) -> None:
        assert stream == "main"
        self.at_s = self.world.device_s

    def elapsed_time(self, other: Self, /) -> float:
        if self.at_s is None or other.at_s is None:
            raise RuntimeError("not recorded")
        # As a driver does: in float32.
        (milliseconds,) = struct.unpack("f", struct.pack("f", 1e3 * (other.at_s - self.at_s)))
        return float(milliseconds)


class Rig:
    def __init__(self) -> None:
        self.world = World()
        self.device = DeviceClock(make_event=lambda: Stamp(self.world), host=lambda: self.world.host_s)
        self.clock = Clock(self.device.now)

    def open(self) -> None:
        self.device.open(self.clock, "main")

    def step(self, *, validates: bool = False) -> None:
        """The host launches for a millisecond, the device computes for many."""
        world, clock = self.world, self.clock
        if validates:
            clock.enter(LOOK)
            world.passes(host_s=0.001, device_s=0.500)
            clock.leave()
        for what, device_s in ((FORWARD, 0.010), (BACKWARD, 0.020), (STEP, 0.005)):
            clock.enter(what)
            world.passes(host_s=0.001, device_s=device_s)
            clock.leave()
        world.passes(host_s=0.002, device_s=0.003)
        now = clock.now()
        clock.note((STEP_END, now, now))
        begin = clock.now()
        world.passes(host_s=1.0, device_s=2.0)  # hotlap's own affairs
        clock.own(begin)
        clock.read()

    def close(self) -> dict[Phase, tuple[float, ...] | None]:
        found: dict[Phase, tuple[float, ...] | None] = self.device.close(self.clock, lambda: None)["device_phase_s"]
        return found


def test_each_phase_has_a_length_by_each_clock() -> None:
    rig = Rig()
    rig.step()
    rig.open()
    for _ in range(3):
        rig.step()
    found = rig.close()
    # Where the window opened, the first step had begun already.
    assert found[Phase.FORWARD] == pytest.approx((0.010, 0.010))
    assert found[Phase.BACKWARD] == pytest.approx((0.020, 0.020))
    assert found[Phase.OPTIMIZER] == pytest.approx((0.005, 0.005))
    assert found[Phase.OTHER] == pytest.approx((0.003, 0.003))
    assert found[Phase.INPUT] is None
    assert rig.clock.last_spent is not None
    assert sum(rig.clock.last_spent) == pytest.approx(0.005)
    sums = [sum(column[i] for column in found.values() if column is not None) for i in range(2)]
    assert len(found) == len(PHASES)
    assert sums == pytest.approx([0.038] * 2), "without what is hotlap's own"


def test_a_validation_is_in_no_step_by_either_clock() -> None:
    rig = Rig()
    rig.open()
    for number in range(8):
        rig.step(validates=number == 4)
    assert rig.close()[Phase.FORWARD] == pytest.approx((0.010,) * 7)


def test_far_from_its_first_event_it_is_as_fine_as_near_it() -> None:
    rig = Rig()
    rig.open()
    for _ in range(200):
        rig.step()
    found = rig.close()[Phase.OPTIMIZER]
    assert found is not None
    assert len(found) == 199
    assert max(abs(seconds - 0.005) for seconds in found) < 20e-9


def test_a_step_with_an_event_that_cannot_be_read_is_left_out() -> None:
    rig = Rig()
    rig.open()
    for number in range(5):
        rig.device.paused = number == 2
        rig.step()
    assert len(rig.close()[Phase.FORWARD] or ()) == 2
    rig.open()
    for _ in range(4):
        rig.step()
    broken = list(rig.device._events.values())[17]
    assert isinstance(broken, Stamp)
    broken.at_s = None
    assert len(rig.close()[Phase.FORWARD] or ()) == 2


def test_without_a_whole_step_there_is_nothing_to_say() -> None:
    rig = Rig()
    rig.open()
    assert rig.device.close(rig.clock, lambda: None) == {}
    rig.open()
    rig.step()
    assert rig.device.close(rig.clock, lambda: None) == {}


def test_closed_it_leaves_no_event() -> None:
    rig = Rig()
    rig.step()
    assert not rig.device._events
    assert rig.clock.kept is None
