"""Ctrl-C and the signals that ask a command to end."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap import cli
from hotlap.cli import target, workbench
from hotlap.cli.workbench import Interrupt
from hotlap.record import Purpose, State, Study
from tests import samples


@pytest.fixture
def hangup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_says_which_signal_has_ended_it_and_what_listened_before_listens_again(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as raised, Interrupt():
        signal.raise_signal(number)
    assert raised.value.args == (number,)
    assert signal.getsignal(number) is before


def test_a_second_request_does_not_disturb_the_end_and_a_second_ctrl_c_does() -> None:
    interrupt = Interrupt()
    with interrupt:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interrupt.asked is signal.SIGTERM


@pytest.mark.usefixtures("hangup")
def test_what_nohup_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGHUP)
    assert interrupt.asked is None


@pytest.mark.parametrize(
    ("purpose", "state", "says"),
    [
        (Purpose.TUNE, State.RUNNING, "Interrupted. The same command goes on from here.\n"),
        (Purpose.MEASURE, State.RUNNING, "Interrupted. `hotlap show` has what was measured until then.\n"),
        (Purpose.TUNE, State.COMPLETE, "Interrupted. `hotlap show` has what was measured until then.\n"),
    ],
)
def test_ctrl_c_again_still_says_what_was_kept_and_how_to_go_on(
    purpose: Purpose,
    state: State,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def pressed_again(study: Study) -> str:
        signal.raise_signal(signal.SIGINT)
        return ""

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hotlap.report.html.render", pressed_again)
    args = cli.parsed(["tune", "--", "true"])
    bench = workbench.Workbench(args, target.parse(args.tail), purpose=purpose, budget_s=60.0)
    with pytest.raises(KeyboardInterrupt) as raised, bench.making():
        bench.changed(replace(samples.study_full(), purpose=purpose, state=state), "noise")
        if state is State.RUNNING:
            signal.raise_signal(signal.SIGINT)
    assert raised.value.args == (signal.SIGINT,)
    assert capsys.readouterr().out.endswith(says)
    assert list(tmp_path.glob(".hotlap/*/study.json"))
