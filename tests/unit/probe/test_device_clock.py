"""Phases by the device's clock, with a device that the test moves: it runs behind the host, and at its own pace."""

from dataclasses import dataclass, field
from typing import Self

import pytest

from hotlap.probe.clock import BACKWARD, FORWARD, LAP, OTHER, PHASES, STEP, Clock
from hotlap.probe.device_clock import DeviceClock, wanted
from hotlap.record import Phase, Plan


@dataclass
class World:
    """A host, and a device that has come so far in its queue."""

    host_s: float = 10.0
    device_s: float = 0.0
    in_use: bool = True

    def event(self) -> "Stamp":
        return Stamp(self)

    def passes(self, *, host_s: float, device_s: float) -> None:
        self.host_s += host_s
        self.device_s += device_s


@dataclass
class Stamp:
    world: World
    at_s: float = field(default=0.0)

    def record(self) -> None:
        self.at_s = self.world.device_s

    def elapsed_time(self, other: Self, /) -> float:
        return 1e3 * (other.at_s - self.at_s)


@pytest.fixture
def world() -> World:
    return World()


def clocks(world: World) -> tuple[DeviceClock, Clock]:
    device = DeviceClock(make_event=world.event, in_use=lambda: world.in_use, host=lambda: world.host_s)
    return device, Clock(device.now, keep=True)


def step(world: World, clock: Clock) -> None:
    """The host launches for a millisecond, the device computes for many."""
    for what, device_s in ((FORWARD, 0.010), (BACKWARD, 0.020), (STEP, 0.005)):
        clock.enter(what)
        world.passes(host_s=0.001, device_s=device_s)
        clock.leave()
    world.passes(host_s=0.002, device_s=0.003)
    clock.note((LAP, clock.now(), clock.now()))
    begin = clock.now()
    world.passes(host_s=1.0, device_s=2.0)  # hotlap's own affairs
    clock.own(begin)


def test_each_phase_has_a_length_by_each_clock(world: World) -> None:
    device, clock = clocks(world)
    clock.own(clock.now())
    for _ in range(3):
        step(world, clock)
    host = clock.read()
    device.recorded += [False, True, True]
    found = device.phases(clock)
    assert [lap.spent[FORWARD] for lap in host] == pytest.approx([0.001] * 3)
    assert found[Phase.FORWARD] == pytest.approx((0.010, 0.010))
    assert found[Phase.BACKWARD] == pytest.approx((0.020, 0.020))
    assert found[Phase.OPTIMIZER] == pytest.approx((0.005, 0.005))
    assert found[Phase.INPUT] is None
    assert host[1].spent[OTHER] == pytest.approx(0.002)


def test_reading_in_pieces_changes_nothing(world: World) -> None:
    device, clock = clocks(world)
    for _ in range(4):
        step(world, clock)
        clock.read()
    device.recorded += [False, False, True, True]
    assert device.phases(clock)[Phase.BACKWARD] == pytest.approx((0.020, 0.020))


def test_steps_before_the_device_was_used_are_not_in_it(world: World) -> None:
    world.in_use = False
    device, clock = clocks(world)
    step(world, clock)
    world.in_use = True
    for _ in range(2):
        step(world, clock)
    clock.read()
    device.recorded += [False, True, True]
    assert len(device.phases(clock)[Phase.FORWARD] or ()) == 2


def test_a_recorded_step_that_was_not_seen_whole_leaves_nothing_to_say(world: World) -> None:
    world.in_use = False
    device, clock = clocks(world)
    step(world, clock)
    world.in_use = True
    step(world, clock)
    clock.read()
    device.recorded += [True, True]
    assert device.phases(clock) == {}


def test_without_the_device_there_are_no_phases_of_it(world: World) -> None:
    world.in_use = False
    device, clock = clocks(world)
    step(world, clock)
    clock.read()
    device.recorded.append(True)
    assert device.phases(clock) == {}


def test_phases_of_the_device_sum_to_its_time_without_our_own(world: World) -> None:
    device, clock = clocks(world)
    for _ in range(3):
        step(world, clock)
    clock.read()
    device.recorded += [False, True, True]
    found = device.phases(clock)
    sums = [sum(column[i] for column in found.values() if column is not None) for i in range(2)]
    assert len(found) == len(PHASES)
    assert sums == pytest.approx([0.038] * 2)


def test_only_a_close_look_is_worth_the_events() -> None:
    assert not wanted(Plan(command=("x",), cwd=".", out="o"))
    assert not wanted(Plan(command=("x",), cwd=".", out="o", watches=("cpu",), whole=True))
