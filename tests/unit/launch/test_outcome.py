"""What became of a process: one status, and a sentence that a person can use."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.launch.outcome import outcome
from hotlap.launch.workplace import Workplace
from hotlap.probe.bootstrap import tell_why_not
from hotlap.record import Phase, Plan, Run, Status, save
from hotlap.record.progress import REACHED, STEPS
from hotlap.record.spans import SpanRing, Step
from tests.sample_runs import run_with


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    plan = Plan(command=("python", "train.py"), cwd=str(tmp_path), out="", arms=(({"name": "threads", "count": 1},),))
    made = Workplace(plan, base=tmp_path, number=1, folders=())
    yield made
    made.remove()


def end(
    place: Workplace,
    *,
    recorded: Run | None = None,
    status: Status | None = None,
    exit_code: int = 0,
    stdout: str = "",
    stderr: str = "",
) -> Run:
    """The run of a process that ended like that."""
    if recorded is not None:
        save(recorded, place.out / "run-0.json")
    return outcome(place, status=status, exit_code=exit_code, stdout=stdout, stderr=stderr)


def test_a_complete_record_is_taken_as_it_is(place: Workplace) -> None:
    run = end(place, recorded=run_with(), stdout="epoch 1\n")
    assert replace(run, output="") == run_with()
    assert run.output == "epoch 1"


def test_how_a_complete_run_was_ended_does_not_matter(place: Workplace) -> None:
    run = end(place, recorded=run_with(), exit_code=-signal.SIGKILL)
    assert run.status is Status.COMPLETE
    assert run.error is None


def test_a_script_that_came_to_its_end(place: Workplace) -> None:
    run = end(place, recorded=replace(run_with(), status=Status.ENDED))
    assert (run.status, run.exit_code, run.error) == (Status.ENDED, 0, "it came to its end")


def test_a_crash_keeps_the_probes_own_words(place: Workplace) -> None:
    crashed = replace(run_with(), status=Status.CRASHED, error="ValueError: no")
    run = end(place, recorded=crashed, exit_code=1, stderr="Traceback ...\nValueError: no\n")
    assert (run.status, run.exit_code, run.error) == (Status.CRASHED, 1, "ValueError: no")
    assert run.output == "Traceback ...\nValueError: no"


def test_a_crash_in_the_first_steps_counts_more_than_what_was_written_on_the_way(place: Workplace) -> None:
    save(replace(run_with(num_steps=0), first_steps_s=(0.1,), status=Status.KILLED), place.out / "partial-0.json")
    SpanRing(place.out / "spans-1").add(Step(begin=0.0, end=1.0))
    early = replace(run_with(num_steps=0), first_steps_s=(0.1,) * 3, status=Status.CRASHED, error="ValueError: no")
    run = end(place, recorded=early, exit_code=1)
    assert (len(run.first_steps_s), run.error) == (3, "ValueError: no")


def test_a_crash_before_the_probe_is_told_by_its_last_line(place: Workplace) -> None:
    run = end(place, exit_code=1, stderr="Traceback ...\nModuleNotFoundError: No module named 'datas'\n\n")
    assert run.status is Status.CRASHED
    assert run.error == "ModuleNotFoundError: No module named 'datas'"
    assert run.arms == place.plan.arms


def test_a_long_last_line_is_cut_between_words_and_says_so(place: Workplace) -> None:
    error = end(place, exit_code=1, stderr=f"Traceback ...\nRuntimeError: {'no such key ' * 100}\n").error or ""
    assert error.startswith("RuntimeError: no such key") and error.endswith((" no [...]", " such [...]", " key [...]"))


def test_a_crash_without_a_word_is_told_by_its_code(place: Workplace) -> None:
    assert end(place, exit_code=7).error == "it left with exit code 7"


def test_what_a_killed_process_wrote_on_its_way_is_told_up_to_its_last_steps(place: Workplace) -> None:
    save(replace(run_with(num_steps=2), status=Status.KILLED), place.out / "partial-0.json")
    (place.out / "spans-0").touch()  # of one that was killed while it made it
    ring = SpanRing(place.out / "spans-1")
    for i in range(40):
        ring.add(Step(number=i, begin=float(i), end=i + 1.0, recorded=i >= 20))
    place.progress.words[STEPS] = 40
    place.progress.words[REACHED] = 1 + list(Phase).index(Phase.FORWARD)
    run = end(place, exit_code=-signal.SIGKILL)
    assert run.status is Status.KILLED
    assert run.step_index == tuple(range(20, 40))
    assert run.error is not None
    assert "SIGKILL after 40 training steps, in or after a forward pass; " in run.error
    assert end(place, recorded=run_with(), exit_code=-signal.SIGKILL).status is Status.COMPLETE


def test_out_of_memory_is_what_a_kill_means_most_often(place: Workplace) -> None:
    run = end(place, exit_code=-signal.SIGKILL)
    assert run.status is Status.KILLED
    assert run.error is not None
    assert "SIGKILL" in run.error
    assert "memory" in run.error


def test_another_signal_is_named(place: Workplace) -> None:
    assert end(place, exit_code=-signal.SIGSEGV).error == "it was ended by SIGSEGV"
    assert end(place, exit_code=-250).error == "it was ended by signal 250"


def test_where_native_code_failed_is_told_by_the_line_of_the_script(place: Workplace) -> None:
    stderr = """step 3
Fatal Python error: Aborted

Thread 0x00007f1 (most recent call first):
  File "/home/me/other.py", line 3 in waits

Current thread 0x00007f2 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/nn/functional.py", line 9 in linear
  File "/home/me/train.py", line 14 in step
  File "/home/me/train.py", line 30 in <module>

Extension modules: numpy (total: 1)
"""
    run = end(place, exit_code=-signal.SIGABRT, stderr=stderr)
    assert run.error == "it was ended by SIGABRT, in train.py, line 14"


def test_a_run_that_hung_says_how_far_it_came(place: Workplace) -> None:
    assert end(place, status=Status.HUNG, exit_code=-9).error == "it made no training step in time"
    place.progress.words[STEPS] = 12
    run = end(place, status=Status.HUNG, exit_code=-9)
    assert run.error == "it made 12 training steps and then none for too long"
    assert run.exit_code is None, "it was hotlap that ended it"


@pytest.mark.parametrize(
    ("reached", "says"),
    [
        (Phase.INPUT, "it made no training step in time, in or after drawing a batch"),
        # With one optimizer alone its first step would have been a training step: others have not stepped.
        (Phase.OPTIMIZER, "it made no whole training step in time, in which each of its optimizers steps"),
    ],
)
def test_a_run_that_hung_before_its_first_step_is_over_says_what_it_did(
    place: Workplace, reached: Phase, says: str
) -> None:
    place.progress.words[REACHED] = tuple(Phase).index(reached) + 1
    assert end(place, status=Status.HUNG, exit_code=-9).error == says


def test_a_run_whose_time_was_over_says_so(place: Workplace) -> None:
    place.progress.words[STEPS] = 3
    assert end(place, status=Status.LAPSED).error == "its time was over after 3 steps"
    place.progress.words[STEPS] = 1
    assert end(place, status=Status.LAPSED).error == "its time was over after 1 step"


def test_a_command_without_torch_is_silent(place: Workplace) -> None:
    run = end(place)
    assert run.status is Status.SILENT
    assert run.error == "it never imported torch in a Python that hotlap could reach"


def test_a_python_without_hotlap_is_told_to_install_it(place: Workplace) -> None:
    (place.out / "no-probe").write_text("/opt/bin/python: No module named 'msgspec'\n")
    error = end(place).error
    assert error is not None
    assert "No module named 'msgspec'" in error
    assert "install hotlap there" in error


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_why_there_is_no_record_may_hold_any_bytes(place: Workplace, encoding: str) -> None:
    (place.out / "no-probe").write_text("/opt/tools-\u00e9/python: No module named 'msgspec'\n", encoding=encoding)
    assert "install hotlap there" in (end(place).error or "")


def test_why_there_is_no_record_is_told_with_names_that_are_not_utf8(place: Workplace) -> None:
    tell_why_not(place.out, "hotlap could not write train-\udce9.py")
    assert end(place).error == "hotlap could not write train-\\udce9.py (please report it)"


def test_a_record_that_could_not_be_written_is_no_kill_by_the_system(place: Workplace) -> None:
    (place.out / "no-probe").write_text("hotlap could not write what it recorded: TypeError: no number\n")
    place.progress.leave(0)
    run = end(place, exit_code=-signal.SIGKILL)
    assert run.status is Status.SILENT
    assert run.error == "hotlap could not write what it recorded: TypeError: no number (please report it)"


def test_a_record_that_is_damaged_is_as_good_as_none(place: Workplace) -> None:
    (place.out / "run-0.json").write_bytes(b'{"status": "comp')
    assert end(place, exit_code=1, stderr="MemoryError\n").status is Status.CRASHED


def test_of_endless_output_the_end_is_kept(place: Workplace) -> None:
    run = end(place, exit_code=1, stderr="noise\n" * 100_000 + "KeyError: 'x'\n")
    assert run.output.endswith("KeyError: 'x'")
    assert len(run.output) <= 8000


def test_what_went_to_standard_output_is_shown_when_nothing_else_did(place: Workplace) -> None:
    assert end(place, exit_code=2, stdout="usage: train.py\n").output == "usage: train.py"
