"""A command that is run to its end and only watched: its exit code, its environment, and signals."""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.launch import WholeRun, end_like
from hotlap.record import Plan, Run, Status, save


def plan(code: str, *words: str) -> Plan:
    command = (sys.executable, "-I", "-S", "-c", code, *words)
    return Plan(command=command, cwd=os.getcwd(), out="", seed=None, whole=True)


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> Iterator[WholeRun]:
    with WholeRun(plan(request.param)) as run:
        yield run


def nothing() -> None:
    """Nobody looks."""


def ends(whole: WholeRun) -> int:
    return whole.run(looked=nothing)


@pytest.mark.parametrize("whole", ["raise SystemExit(5)"], indirect=True)
def test_the_exit_code_is_the_commands_own(whole: WholeRun) -> None:
    assert ends(whole) == 5
    assert whole.outcome(5).status is Status.CRASHED
    assert end_like(5) == 5


@pytest.mark.parametrize("whole", ["import os, signal; os.kill(os.getpid(), signal.SIGKILL)"], indirect=True)
def test_a_signal_that_ended_it_is_told(whole: WholeRun) -> None:
    code = ends(whole)
    assert code == -signal.SIGKILL
    run = whole.outcome(code)
    assert run.status is Status.KILLED
    assert "SIGKILL" in (run.error or "")


@pytest.mark.parametrize(
    "whole",
    ["import os; raise SystemExit('PYTHONHASHSEED' in os.environ or 'WANDB_MODE' in os.environ)"],
    indirect=True,
)
def test_nothing_of_the_users_environment_is_changed(whole: WholeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    assert ends(whole) == 0


@pytest.mark.parametrize("whole", ["import time; time.sleep(600)"], indirect=True)
def test_a_request_to_end_is_passed_on_and_our_own_handlers_come_back(whole: WholeRun) -> None:
    before = signal.getsignal(signal.SIGTERM)
    when_it_listens(signal.SIGTERM)
    assert ends(whole) == -signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def when_it_listens(number: signal.Signals) -> None:
    """Send this process a signal when it waits for the command: it has a handler of its own then."""
    before = signal.getsignal(number)

    def send() -> None:
        while signal.getsignal(number) is before:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()


def test_what_cannot_be_started_is_the_users_to_mend() -> None:
    with WholeRun(Plan(command=("no-such-program",), cwd="/", out="", whole=True)) as whole:
        with pytest.raises(UserError, match="no-such-program cannot be started"):
            ends(whole)
        place = whole.out
        assert place.exists()
    assert not place.exists()


def test_what_a_killed_one_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = os.fork()
    if child == 0:
        WholeRun(plan(""))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert [path.name for path in tmp_path.glob("*/plan.json")] == ["plan.json"]
    with WholeRun(plan("")) as whole:
        assert list(tmp_path.iterdir()) == [whole.out]


def test_what_was_written_on_the_way_stands_in_for_a_record_that_never_came() -> None:
    with WholeRun(plan("")) as whole:
        assert whole.partial() is None
        save(Run(status=Status.KILLED, step_s=(0.1, 0.2)), whole.out / "partial-0.json")
        assert whole.partial() is not None
        assert whole.partial() is None, "it is told once"
        assert whole.outcome(-signal.SIGKILL).step_s == (0.1, 0.2)
        save(Run(status=Status.ENDED, step_s=(0.1, 0.2, 0.3)), whole.out / "run-0.json")
        run = whole.outcome(0)
        assert run.status is Status.COMPLETE
        assert len(run.step_s) == 3
        assert whole.outcome(3).error == "it left with exit code 3"
