"""`hotlap check`: is the second version of a script not slower, and does it train the same? For people, and for CI."""

import argparse
import sys
from collections.abc import Iterator

from hotlap import machine
from hotlap.cli import target, workbench
from hotlap.cli.live import Live
from hotlap.cli.options import FAILS, INCONCLUSIVE, SLOWER
from hotlap.errors import UserError
from hotlap.levers import Numerics
from hotlap.record import Study, Verdict
from hotlap.report.clean import clean_line
from hotlap.report.document import VERDICTS
from hotlap.tune import Options, StudyLog
from hotlap.tune.checking import Check, Checked, Speed
from hotlap.units import percent


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    found = _checked(args)
    _show(args, found, conclusion(args.before, args.after, found))
    return _code(found)


def _show(args: argparse.Namespace, found: Checked, last: str) -> None:
    workbench.write_json(args.json, found)
    if not args.quiet:
        print("\n".join([*_lines(found), last]), file=sys.stderr if args.json == "-" else sys.stdout)


def _checked(args: argparse.Namespace) -> Checked:
    aim = target.parse([args.before, *args.tail], command="check")
    after = aim.cwd / args.after
    target.check_script(after, args.after, command="check")
    if aim.script is None:
        raise UserError("BEFORE is a script: `hotlap check before.py after.py`.")
    options = Options(
        command=aim.command,
        cwd=str(aim.cwd),
        title=aim.title,
        budget_s=args.budget,
        timeout_s=args.timeout,
        seed=args.seed,
    )
    path = str(aim.script.resolve())
    texts, before = {path: target.source(after)}, {path: target.source(aim.script)}
    study = Study(command=tuple(args.tail), cwd=options.cwd, created="", key="", budget_s=options.budget_s)
    stream = sys.stderr if args.json == "-" else sys.stdout
    live = Live(stream, quiet=args.quiet, verbose=args.verbose, color=args.color, budget_s=options.budget_s)
    with workbench.Interrupt() as interrupt:
        check: Check | None = None
        try:
            with live, workbench.launching(aim, timeout_s=options.timeout_s, interrupt=interrupt) as launcher:
                log = StudyLog(study, options, machine.look(), launcher, live)
                weakest = Numerics(args.numerics)
                check = Check(log, texts, before=before, weakest=weakest, limit=args.max_regression)
                return check.run()
        except KeyboardInterrupt:
            if check is not None:
                _show(args, check.found, f"{interrupt.told} This is what was known until then.")
            raise


def _code(found: Checked) -> int:
    if found.verdict is Verdict.HARMED:
        return FAILS
    if found.verdict is Verdict.UNDECIDED or found.speed is Speed.INCONCLUSIVE:
        return INCONCLUSIVE
    return SLOWER if found.speed is Speed.SLOWER else 0


def _lines(found: Checked) -> Iterator[str]:
    yield from (f"! {clean_line(warning)}" for warning in found.warnings)
    yield f"training  {VERDICTS[found.verdict]:13} ({found.contract}) {clean_line(found.why)}"
    yield f"step      {_step(found)}"
    if found.total is not None:
        yield f"training time, starts of epochs included: {found.total.told}"


def conclusion(before: str, after: str, found: Checked) -> str:
    """What came of it, in a sentence."""
    sentence = _NOT_PROVED if found.verdict is Verdict.UNDECIDED else _SENTENCES[_code(found)]
    return clean_line(f"{before} -> {after}: {sentence}")


def _step(found: Checked) -> str:
    if found.step is None:
        why = "another training is not timed" if found.verdict is Verdict.HARMED else "too little of it was timed"
        return f"{found.speed.value:13} {why}"
    judged = "" if found.speed is Speed.FASTER else f"; slower is by more than {percent(found.limit)}"
    return f"{found.speed.value:13} {found.step.told}, 95% interval{judged}"


_NOT_PROVED = "inconclusive: it is not proved that it trains the same."
_SENTENCES = {
    0: "the same training, and not slower.",
    FAILS: "the gate fails it: it does not train the same.",
    INCONCLUSIVE: "the same training; its times are inconclusive: raise --budget, or measure on a quieter machine.",
    SLOWER: "the same training, and slower.",
}
