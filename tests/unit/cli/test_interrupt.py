"""Ctrl-C and the signals that ask a command to end."""

import signal
from collections.abc import Iterator

import pytest

from hotlap.cli.workbench import Interrupt


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
