"""The file of the last spans: what a process wrote is read as it was, the newest of it where there was too much."""

from math import isnan
from pathlib import Path

import pytest

from hotlap.record import Phase, Run, Status, spans
from hotlap.record.spans import OWN, SpanRing, Step, excerpt, with_steps

INPUT, FORWARD, BACKWARD, OTHER = (
    spans.PHASES.index(Phase(name)) for name in ("input", "forward", "backward", "other")
)


def step(number: int, *, begin: float, length: float = 10.0, recorded: bool = True, own: float = 0.0) -> Step:
    """Hotlap's own work first, a batch, 1 s of nothing, and a forward pass with a draw within; the rest is other."""
    at = begin + own
    pieces = [(OWN, begin, at, own)] if own else []
    pieces += [(INPUT, at, at + 2, 2.0), (INPUT, at + 4, at + 5, 1.0), (FORWARD, at + 3, at + 7, 3.0)]
    return Step(number=number, begin=begin, end=at + length, recorded=recorded, pieces=pieces, num_samples=8)


def test_what_was_written_is_read_by_another_process(tmp_path: Path) -> None:
    ring = SpanRing(tmp_path / "spans")
    made = [step(i, begin=10.0 * i, recorded=i > 1) for i in range(5)]
    made[3].epoch_started, made[3].num_samples, made[3].num_updates, made[3].num_forwards = True, None, 2, 3
    for one in made:
        ring.add(one)
    assert SpanRing(tmp_path / "spans").steps() == made


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
def test_the_newest_overwrite_the_oldest(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_CAPACITY", 8 * 5)  # a step takes five
    ring = SpanRing(tmp_path / "spans")
    for i in range(count):
        ring.add(step(i, begin=10.0 * i))
    found = ring.steps()
    assert [one.number for one in found][-7:] == list(range(count))[-7:]
    assert all(one == step(one.number, begin=10.0 * one.number) for one in found)
    assert len(found) == count if count <= 8 else len(found) in (7, 8)


def test_of_a_step_with_very_many_spans_the_sums_are_kept(tmp_path: Path) -> None:
    ring = SpanRing(tmp_path / "spans")
    many = [(FORWARD, float(i), i + 0.5, 0.5) for i in range(3000)]
    ring.add(Step(number=0, begin=0.0, end=3001.0, recorded=True, pieces=many))
    (found,) = ring.steps()
    assert len(found.pieces) < 10
    assert all(isnan(begin) for _, begin, _, _ in found.pieces)
    assert found.sums()[FORWARD] == 1500.0
    assert found.sums()[OTHER] == 1501.0
    assert excerpt([found]) is None


def test_an_excerpt_is_what_was_written_in_its_order_without_our_own_work() -> None:
    found = excerpt([step(20, begin=100.0), step(21, begin=110.0, own=5.0)])
    assert found is not None
    assert (found.first, found.ends_s) == (20, (10.0, 20.0))
    told = [(one.lane, one.phase.value, one.begin_s, one.end_s) for one in found.spans]
    once = [
        ("loader", "input", 0.0, 2.0),
        ("host", "other", 2.0, 3.0),
        ("host", "forward", 3.0, 7.0),
        ("loader", "input", 4.0, 5.0),
        ("host", "other", 7.0, 10.0),
    ]
    assert told == [*once, *((lane, phase, begin + 10, end + 10) for lane, phase, begin, end in once)]


def test_an_excerpt_is_of_recorded_usual_steps_on_end() -> None:
    lengths = [10.0] * 40 + [90.0] + [10.0] * 10
    steps, begin = [], 0.0
    for i, length in enumerate(lengths):
        steps.append(step(i, begin=begin, length=length, recorded=i > 4))
        begin += length
    usual, last = excerpt(steps), excerpt(steps, last=True)
    assert usual is not None and last is not None
    assert (usual.first, len(usual.ends_s), usual.ends_s[-1]) == (5, 24, 240.0)
    assert (last.first, len(last.ends_s), last.ends_s[-1]) == (27, 24, 320.0)
    del steps[20:30]
    short = excerpt(steps)
    assert short is not None
    assert (short.first, len(short.ends_s)) == (30, 21), "the longest stretch on end, though an odd step is in it"


def test_a_record_from_the_way_gets_the_steps_that_came_after_it() -> None:
    partial = Run(status=Status.KILLED, step_index=(2,), step_s=(1.0,), loss=(0.5,), device="cpu")
    steps = [step(i, begin=10.0 * i, recorded=2 <= i < 5) for i in range(7)]
    steps[3].epoch_started = True
    run = with_steps(partial, steps)
    assert run.step_index == (2, 3, 4)
    assert run.step_s == (10.0, 10.0, 10.0)
    assert run.first_steps_s == (10.0, 10.0)
    assert run.phase_s[Phase.FORWARD] == (3.0,) * 3
    assert run.phase_s[Phase.OTHER] == (4.0,) * 3
    assert run.phase_s[Phase.BACKWARD] is None, "never seen"
    assert run.loss == (0.5, None, None)
    assert run.epoch_starts == (1,)
    assert run.excerpt is not None
    assert run.excerpt.first == 2
