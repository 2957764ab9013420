"""`hotlap measure --full`: the training as it is, to its end, and a report of all of it afterwards."""

import argparse
import contextlib
import sys
import time
import traceback
from dataclasses import replace

from hotlap import machine
from hotlap.cli import streams
from hotlap.cli.live import whole_seconds
from hotlap.cli.workbench import Workbench
from hotlap.errors import UserError
from hotlap.launch import WholeRun, end_like
from hotlap.record import Plan, Run, State
from hotlap.tune import FULL, LOOKING
from hotlap.tune.diagnosis import ceilings, findings_of
from hotlap.units import duration

# Steps are looked at closely once, after so long: a training that is over by then is better measured without --full,
# and in one that goes on for hours these few seconds do not show.
_WINDOWS_AFTER_S = 10.0


def run(args: argparse.Namespace, bench: Workbench) -> int:
    """Run it; the exit code is the training's."""
    plan = Plan(
        command=bench.aim.command,
        cwd=str(bench.cwd),
        out="",
        seed=None,
        whole=True,
        watches=LOOKING if args.no_windows else FULL,
        windows_after_s=_WINDOWS_AFTER_S,
    )
    with WholeRun(plan) as whole:
        watching = _Watching(whole, bench)
        code = whole.run(asked=watching.tell, looked=watching.look)
        watching.close(whole.outcome(code), quiet=args.quiet)
    return end_like(code)


class _Watching:
    """Tells how far the training is, keeps what is known, and makes the report."""

    def __init__(self, whole: WholeRun, bench: Workbench) -> None:
        self._whole = whole
        self._bench = bench
        self._begun_s = self._told_s = time.monotonic()
        self._told_steps = 0

    def look(self) -> None:
        """About once a second."""
        run = self._whole.partial()
        if run is not None and run.step_s:
            self._note(run)
            # The training goes on, whatever becomes of our files.
            with contextlib.suppress(UserError):
                self._bench.save()

    def tell(self) -> None:
        """One line on standard error."""
        now_s, steps = time.monotonic(), self._whole.progress.steps
        line = f"{steps:,} steps after {whole_seconds(now_s - self._begun_s)}"
        made = steps - self._told_steps
        if made and self._told_steps:
            line += f"; {duration((now_s - self._told_s) / made)} a step of late"
        _say(line)
        self._told_s, self._told_steps = now_s, steps

    def _note(self, run: Run) -> None:
        self._bench.study = replace(self._bench.study, baseline=(run,), elapsed_s=time.monotonic() - self._begun_s)

    def close(self, run: Run, *, quiet: bool) -> None:
        """The report. What goes wrong here is told, and changes nothing of how the training ended."""
        try:
            self._note(run)
            if not run.step_s:
                why = f": {run.error}" if run.error else ""
                raise UserError(
                    f"no training step of {self._bench.aim.title} was seen{why}. There is nothing to report."
                )
            here = machine.look()
            self._bench.study = replace(
                self._bench.study,
                machine=here,
                findings=findings_of(run, here),
                ceilings=ceilings(run),
                state=State.COMPLETE,
            )
            try:
                self._bench.show_all()
            finally:  # also where the terminal was closed
                self._bench.finish()
        except UserError as error:
            if not quiet:
                _say(str(error))
        except OSError as error:
            # Of the terminal, or of the pipe in its place, most likely: nobody may be there to read it.
            _say(f"the report cannot be shown: {error.strerror}.")
        except Exception:
            # Our own fault: it is shown, but the exit code stays the training's.
            _say(f"{traceback.format_exc()}\nhotlap: this is an error of its own; please report it.")
        streams.settle()


def _say(text: str) -> None:
    # Nobody may read standard error any more; the training goes on, and its exit code stays.
    with contextlib.suppress(OSError):
        print(f"hotlap: {text}", file=sys.stderr, flush=True)
