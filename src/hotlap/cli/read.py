"""`hotlap read`: what does a recorded GPU trace say?"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotlap.record import Study
    from hotlap.trace.reading import Reading


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about this command."""
    parser = subparsers.add_parser(
        "read",
        allow_abbrev=False,
        help="tell what a recorded GPU trace says",
        description="Reads traces that torch.profiler wrote (CUDA and ROCm; plain or gzip) and tells what each step "
        "waited for on the device, and what could be gained at best. Several traces are ranks of one job. No GPU is "
        "needed, and nothing is run.",
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="trace.json[.gz], a folder or a tar archive")
    parser.add_argument("--json", metavar="PATH", help="write the study there; - is standard output")
    parser.add_argument("--html", metavar="PATH", help="write the report page there")
    parser.add_argument("--markdown", metavar="PATH", help="write a report for a pull request there")
    parser.add_argument(
        "--gpu-timeline", metavar="PATH", help="write busy, idle and exposed times there, as CSV (of the rank shown)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    from hotlap.cli import workbench
    from hotlap.record import encode, save
    from hotlap.report import html, markdown, terminal
    from hotlap.trace import export, study

    workbench.check_writable((args.json, args.html, args.markdown, args.gpu_timeline))
    found, readings = study.read(args.traces)
    if args.json == "-":
        print(encode(found).decode())
    else:
        print(terminal.render(found), end="")
    texts: dict[str, Callable[[], str]] = {
        "html": partial(html.render, found),
        "markdown": partial(markdown.render, found),
        "gpu_timeline": lambda: export.gpu_timeline(_shown(found, readings)),
    }
    for name, text in texts.items():
        path = getattr(args, name)
        if path is not None:
            workbench.write_text(Path(path), text())
            print(f"{path} was written.", file=sys.stderr)
    if args.json not in (None, "-"):
        workbench.write(Path(args.json), partial(save, found))
    return 0


def _shown(found: "Study", readings: "tuple[Reading, ...]") -> "Reading":
    """The reading whose run the study shows."""
    rank = found.baseline[0].rank
    return next(one for one in readings if one.run.rank == rank)
