"""Progress is plain lines where there is no terminal, and one line that renews itself where there is one."""

import os
import pty
from io import StringIO, TextIOWrapper

import pytest
from rich.table import Table
from rich.text import Text

from hotlap.cli.console import show
from hotlap.cli.live import Live
from hotlap.report import document, terminal
from tests import samples


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def all_of(controller: int) -> str:
    """What was written to a terminal that is closed by now; Linux ends it with an error, others with nothing."""
    shown = b""
    try:
        while part := os.read(controller, 1 << 16):
            shown += part
    except OSError:
        pass
    finally:
        os.close(controller)
    return shown.decode()


def test_a_line_of_the_patch_is_not_cut() -> None:
    patch = f"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-x\n+{'y' * 300}\n"
    live, shown = StringIO(), StringIO()
    Live(live).show(terminal.patch(patch))
    show(shown, [terminal.patch(patch)])
    assert f"  +{'y' * 300}\n" in live.getvalue()
    assert f"  +{'y' * 300}\n" in shown.getvalue()


def test_lines_of_a_table_do_not_end_in_spaces_in_a_pipe() -> None:
    table, shown = Table(box=None), StringIO()
    table.add_column("what")
    table.add_row("a")
    table.add_row("a longer one")
    show(shown, [table])
    assert [line.strip() for line in shown.getvalue().splitlines()] == ["what", "a", "a longer one", ""]
    assert not any(line.endswith(" ") for line in shown.getvalue().splitlines())


def test_without_a_terminal_each_change_is_one_plain_line() -> None:
    out, clock = StringIO(), Clock()
    with Live(out, budget_s=300.0, clock=clock) as live:
        live.doing("measuring the baseline")
        clock.now_s += 12
        live.doing("measuring the baseline")
        live.doing("trial: threads count=1")
        live.show(terminal.draw(document.findings(samples.study_full())))
        live.show()
    text = out.getvalue()
    assert text.startswith("[0 s of 5 min] measuring the baseline\n[12 s of 5 min] trial: threads count=1\n")
    assert text.count("measuring") == 1
    assert "input-bound" in text
    assert "\x1b" not in text
    assert "\r" not in text


def test_a_study_that_goes_on_counts_the_time_it_has_used() -> None:
    out = StringIO()
    live = Live(out, clock=Clock())
    live.go_on(90.0)
    live.doing("going on")
    assert out.getvalue() == "[1 min 30 s] going on\n"


@pytest.mark.parametrize(
    ("environment", "color", "coloured"),
    [
        ({}, "auto", False),
        ({"FORCE_COLOR": "1"}, "auto", True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False),
        ({"CI": "1"}, "auto", False),
        ({"FORCE_COLOR": "1"}, "never", False),
        ({"NO_COLOR": "1"}, "always", True),
    ],
)
def test_a_log_has_colours_where_they_are_asked_for(
    environment: dict[str, str], color: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (environment | {"COLUMNS": "30"}).items():
        monkeypatch.setenv(name, value)
    out = StringIO()
    with Live(out, color=color, clock=Clock()) as live:
        live.doing("at work")
        live.show(terminal.patch(samples.PATCH))
    assert ("\x1b[32m" in out.getvalue()) == coloured
    assert "\x1b[2K" not in out.getvalue(), "each change is a line of its own all the same"
    assert "    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 256)" in out.getvalue(), "whatever COLUMNS says"


def test_quiet_shows_nothing() -> None:
    out = StringIO()
    with Live(out, quiet=True) as live:
        live.doing("at work")
        live.show(Text("a section"))
    assert out.getvalue() == ""


def test_what_is_being_done_cannot_control_the_terminal() -> None:
    out = StringIO()
    Live(out, clock=Clock()).doing(samples.HOSTILE)
    assert all(char == "\n" or char.isprintable() for char in out.getvalue())
    assert "[bold red]loud[/]" in out.getvalue().replace("\n", "")


def test_letters_that_the_stream_has_not_do_not_end_the_study() -> None:
    raw = open(os.devnull, "wb")  # noqa: SIM115 - the wrapper closes it
    with TextIOWrapper(raw, encoding="ascii") as stream:
        Live(stream).doing("training gr\u00fc\u00df.py")


def test_on_a_terminal_sections_stay_and_the_status_line_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    controller, terminal_fd = pty.openpty()
    with os.fdopen(terminal_fd, "w", encoding="utf-8") as stream:
        with Live(stream, budget_s=300.0) as live:
            live.doing("trial: threads count=1")
            live.show(Text("a finished section"))
            live.doing("trial: fused-optimizer")
        live.close()
    shown = all_of(controller)
    assert "a finished section" in shown
    assert "threads count=1" in shown
    hide, show = shown.index("\x1b[?25l"), shown.rindex("\x1b[?25h")
    assert hide < show, "the cursor is given back"
    assert shown.rindex("\x1b[2K") > shown.rindex("fused-optimizer"), "the status line is erased in the end"


@pytest.mark.parametrize(
    ("environment", "color", "coloured"),
    [({}, "auto", True), ({}, "never", False), ({"NO_COLOR": "1"}, "auto", False), ({"NO_COLOR": "1"}, "always", True)],
)
def test_on_a_terminal_lines_are_as_wide_as_it_is_and_coloured_as_asked(
    environment: dict[str, str], color: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (environment | {"TERM": "xterm-256color", "COLUMNS": "150"}).items():
        monkeypatch.setenv(name, value)
    controller, terminal_fd = pty.openpty()
    with (
        os.fdopen(terminal_fd, "w", encoding="utf-8") as stream,
        Live(stream, verbose=True, color=color, clock=Clock()) as live,
    ):
        live.doing("at work")
        live.show(Text("-" * 140, "green"))
    shown = all_of(controller)
    assert "-" * 140 in shown
    assert ("\x1b[32m" in shown) == coloured
    assert "at work" in shown
    assert "\x1b[2K" not in shown, "with -v what was done stays"


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    controller, terminal_fd = pty.openpty()
    with os.fdopen(terminal_fd, "w", encoding="utf-8") as stream, Live(stream, clock=Clock()) as live:
        live.doing("at work")
    shown = all_of(controller)
    assert shown == "[0 s] at work\r\n"
