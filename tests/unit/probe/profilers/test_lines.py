"""The sampling look: where time goes, whatever holds the interpreter meanwhile."""

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

from hotlap.probe import session
from hotlap.probe.profilers import lines
from hotlap.probe.profilers.lines import Lines, hot_lines, of_steps, place
from hotlap.probe.profilers.lines import _Place as Place
from hotlap.probe.sites import users_frame
from hotlap.record import HotLine, Phase
from tests.unit.probe.profilers.stage import Stage, play


def python_work(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_a_phase_is_shared_out_among_its_lines_by_weight_and_not_by_count() -> None:
    slow, quick = (Place(__file__, line, "step", Phase.OTHER) for line in (1, 2))
    back = Place(__file__, 3, "step", Phase.BACKWARD)
    of_no_line = Place("", 0, "", Phase.OTHER)
    seen: list[tuple[float, Place | None]] = [(0.050, slow), *[(0.001, quick)] * 20, (0.5, None), (0.9, back)]
    # Steps that are looked at are longer than those that were recorded.
    found = hot_lines([*seen, (0.030, of_no_line)], phase_s={Phase.OTHER: 0.010, Phase.BACKWARD: 0.020})
    assert [(one.line, round(one.step_s, 6)) for one in found] == [(3, 0.020), (1, 0.005), (2, 0.002)]
    assert found[1].text.startswith('"""The sampling look')


def test_a_line_that_calls_a_library_is_told_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "lingering"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from lingering.inner import wait")
    (package / "inner.py").write_text("import time\ndef wait(s):\n    time.sleep(s)")
    monkeypatch.syspath_prepend(package.parent)
    lingering = import_module("lingering")

    def step() -> None:
        lingering.wait(0.003)
        time.sleep(0.002)

    found = play(Lines(), step, num_steps=40)["hot_lines"]
    told = {one.text: one.library for one in found[:2]}
    assert told == {"lingering.wait(0.003)": "lingering", "time.sleep(0.002)": ""}


def test_samples_of_a_validation_are_in_no_step() -> None:
    before, within, behind = (Place(__file__, line, "step", Phase.OTHER) for line in (1, 2, 3))
    seen: list[tuple[float, float, Place | None]] = [(0, 1, before), (1, 5, within), (5, 8, within), (8, 11, behind)]
    assert of_steps(seen, validation=None) == [(1, before), (4, within), (3, within), (3, behind)]
    assert of_steps(seen, validation=(2, 9)) == [(1, before), (2, behind)], "one that was kept out until it was over"


def test_a_validation_ten_times_as_long_as_its_epoch_is_in_no_line() -> None:
    stage = Stage()
    made: list[None] = []

    def step() -> None:
        made.append(None)
        begun = time.perf_counter()
        if len(made) % 5 == 0:
            time.sleep(0.100)  # validates
        stage.validated((begun, time.perf_counter()) if len(made) % 5 == 0 else None)
        time.sleep(0.002)  # trains

    found = play(Lines(), step, stage=stage, num_steps=30)["hot_lines"]
    assert found[0].text.endswith("# trains")


def test_python_sleep_and_calls_that_hold_the_interpreter_are_all_found() -> None:
    stage = Stage()
    words = [b"ab", b"c"] * 150_000

    def step() -> None:
        stage.clock.now = Phase.FORWARD
        python_work(0.010)
        stage.clock.now = Phase.OTHER
        time.sleep(0.010)
        sorted(words)

    found: tuple[HotLine, ...] = play(Lines(), step, stage=stage, num_steps=40)["hot_lines"]
    for text, phase in (
        ("while time.perf_counter()", Phase.FORWARD),
        ("time.sleep(0.010)", Phase.OTHER),
        ("sorted(words)", Phase.OTHER),
    ):
        lines = [one for one in found if one.text.startswith(text)]
        # Ten milliseconds of each step; in another phase there is what a busy machine lets wait at its edge.
        there = sum(one.step_s for one in lines if one.phase is phase)
        assert there > sum(one.step_s for one in lines if one.phase is not phase), text


def test_a_loop_that_ends_in_a_condition_is_found_whole() -> None:
    """Its jump back has no line of its own in Python 3.11, and is where Python lets others in."""

    def counts() -> int:
        found = 0
        for number in range(20_000):
            if number < 0:
                found += 1
            elif number > 30_000:
                found -= 1
        return found

    found = play(Lines(), counts, num_steps=200)["hot_lines"]
    first = counts.__code__.co_firstlineno
    assert sum(one.step_s for one in found if one.line in range(first, first + 8)) > 0.5, "of one second"


def test_a_line_that_hands_over_the_interpreter_is_not_given_what_those_before_it_take() -> None:
    def step() -> None:
        for _ in range(50):
            sum(i * i for i in range(1500))  # computes
            os.stat("/")  # hands over

    found = play(Lines(), step, num_steps=400)["hot_lines"]
    lines = [one for one in found if one.text.endswith(("# computes", "# hands over"))]
    assert lines[0].text.endswith("# computes")


def test_a_comprehension_is_a_part_of_its_line() -> None:
    seen: dict[str, Any] = {"sys": sys}
    source = "def f():\n    return [(lambda: next(sys._getframe() for _ in [0]))() for _ in [0]]\nframe = f()[0]\n"
    exec(compile(source, __file__, "exec"), seen)
    found = place(seen["frame"], Phase.OTHER)
    assert found is not None and (found.line, found.function) == (2, "f")
    exec(compile("frame = [sys._getframe() for _ in [0]][0]", __file__, "exec"), seen)
    found = place(seen["frame"], Phase.OTHER)
    assert found is not None and found.function == "<module>"


def test_work_of_hotlap_within_a_line_is_not_time_of_that_line() -> None:
    seen: dict[str, Any] = {"sys": sys}
    for file in (session.__file__, torch.__file__):
        exec(compile("frame = sys._getframe()", file, "exec"), seen)
        found = place(seen["frame"], Phase.OTHER)
        assert (found is None) == (file == session.__file__)


def test_only_the_training_thread_is_looked_at() -> None:
    stop = threading.Event()

    def elsewhere() -> None:
        while not stop.wait(0.0005):
            sum(range(2000))  # another thread

    other = threading.Thread(target=elsewhere)
    other.start()
    try:
        found = play(Lines(), lambda: time.sleep(0.005), num_steps=30)["hot_lines"]
    finally:
        stop.set()
        other.join()
    assert not [one for one in found if "another thread" in one.text]


def test_it_leaves_no_thread_no_setting_and_no_random_number_behind() -> None:
    before = sys.getswitchinterval(), random.getstate(), torch.get_rng_state().tolist()
    threads = threading.active_count()
    play(Lines(), lambda: time.sleep(0.002), num_steps=5)
    assert threading.active_count() == threads
    assert (sys.getswitchinterval(), random.getstate(), torch.get_rng_state().tolist()) == before


def test_it_ends_when_it_has_seen_enough() -> None:
    made: list[float] = []

    def step() -> None:
        made.append(time.perf_counter())
        time.sleep(0.02)

    play(Lines(), step, num_steps=10_000)
    assert 3 <= len(made) < 500


def test_a_window_without_a_whole_step_says_nothing() -> None:
    profiler = Lines()
    profiler.install(Stage(), None)  # type: ignore[arg-type]
    assert profiler.goes_on()
    time.sleep(0.05)
    profiler.close()
    assert profiler.fields() == {}


def test_code_within_a_pass_is_told_from_the_line_that_calls_it() -> None:
    stage = Stage()

    def hook() -> None:
        time.sleep(0.004)  # within

    def begins(work: Callable[[], None]) -> None:
        """What our hook around `backward` is to a script."""
        stage.clock.now = Phase.BACKWARD
        work()
        stage.clock.now = Phase.OTHER

    stage.clock.callers = {Phase.BACKWARD: {begins.__code__}}

    def step() -> None:
        begins(hook)
        stage.clock.now = Phase.BACKWARD
        time.sleep(0.004)  # calls
        stage.clock.now = Phase.OTHER

    found = play(Lines(), step, stage=stage, num_steps=60)["hot_lines"]
    inside = {one.text.rpartition("# ")[2]: one.inside for one in found if one.text.startswith("time.sleep")}
    assert inside["within"] is True
    assert inside["calls"] is False


def test_what_a_frame_tells_that_went_on_meanwhile_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is over tells the line of its return: of a third of all samples, on a busy machine."""
    moments = count()

    def found_slowly(frame: FrameType | None) -> FrameType | None:
        found = users_frame(frame)
        if next(moments) % 2:
            time.sleep(0.02)  # the script goes on
        return found

    def work() -> float:
        until = time.perf_counter() + 0.01
        while time.perf_counter() < until:
            sum(range(200))
        return until  # over

    monkeypatch.setattr(lines, "users_frame", found_slowly)
    # Else a busy machine may take each core away from a look that is quick, too, and no sample is left.
    monkeypatch.setattr(lines, "_SWITCH_S", 0.005)
    found = play(Lines(), work, num_steps=60)["hot_lines"]
    assert found and not found[0].text.endswith("# over")
    assert sum(one.step_s for one in found if one.text.endswith("# over")) < 0.1


@pytest.mark.parametrize("whole", [True, False])
def test_a_training_for_real_that_compiles_is_not_sampled(whole: bool) -> None:
    stage = Stage()
    stage.plan.whole, stage.facts.compiled = whole, True
    made: list[None] = []
    play(Lines(), lambda: made.append(None), stage=stage, num_steps=3)
    assert bool(made) is not whole
