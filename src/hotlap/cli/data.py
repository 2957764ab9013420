"""`hotlap data pack`: a data set into a folder from which its items are read instead of computed."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from hotlap import units
from hotlap.cli import words
from hotlap.errors import UserError

if TYPE_CHECKING:
    from hotlap.data.pack_estimate import Estimate
    from hotlap.data.pack_writing import Packing

_USAGE = "hotlap data pack DATASET:FACTORY (--to DIR | --estimate) [options]"

# How often a long packing says how far it is.
_EVERY_S = 5.0


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about this command."""
    parser = subparsers.add_parser(
        "data", allow_abbrev=False, help="convert a data set into a form that is read sooner"
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    pack = actions.add_parser(
        "pack",
        usage=_USAGE,
        allow_abbrev=False,
        help="write all items of a data set into a folder, as they are computed",
        description="Computes each item once and writes it into an Arrow table, from which hotlap.data.packed(DIR) "
        "gives the very same items. Items that draw random numbers are refused. DIR appears when all was written and "
        "compared; whatever goes wrong before leaves nothing there.",
    )
    pack.add_argument(
        "factory",
        metavar="DATASET:FACTORY",
        help="module:callable or file.py:callable that gives a map-style Dataset, or the name of one. The module is "
        "imported, so a script needs its `if __name__ == '__main__':`",
    )
    pack.add_argument("--to", metavar="DIR", help="folder to make; it must not be there yet")
    pack.add_argument(
        "--arg", metavar="NAME=VALUE", action="append", default=[], help="for the callable; JSON, or text"
    )
    pack.add_argument("--verify", metavar="N", help="items to compute again and compare, or all (10000, evenly spaced)")
    pack.add_argument("--workers", metavar="N", help="processes that compute the items (0: this one)")
    pack.add_argument("--estimate", action="store_true", help="write nothing: measure on some items what it would give")
    pack.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    from hotlap.cli.factory import dataset_of
    from hotlap.cli.workbench import Interrupt

    if not (args.to or args.estimate):
        raise UserError("Say where to with --to DIR, or ask with --estimate what packing would give.")
    verify = _num_verified(args.verify)
    num_workers = words.whole_number(args.workers, "--workers") if args.workers else 0
    Interrupt().listen()
    try:
        if args.estimate:
            from hotlap.data.pack_estimate import estimate

            _show_estimate(args, estimate(dataset_of(args.factory, args.arg), target=args.to, name=args.factory))
            return 0
        _pack(args, verify=verify, num_workers=num_workers)
    except KeyboardInterrupt:
        print("hotlap: interrupted; nothing was packed.", file=sys.stderr)
        return 130
    return 0


def _pack(args: argparse.Namespace, *, verify: int | None, num_workers: int) -> None:
    from pathlib import Path

    from hotlap.cli.factory import dataset_of
    from hotlap.data.pack_draft import check_target
    from hotlap.data.pack_writing import pack

    # Before the data set is made, which may take long.
    check_target(Path(args.to).absolute())
    dataset = dataset_of(args.factory, args.arg)
    packing = pack(dataset, args.to, name=args.factory, verify=verify, num_workers=num_workers, progress=_Progress())
    _show(args, packing)


def _num_verified(text: str | None) -> int | None:
    if text is None:
        return None
    return sys.maxsize if text == "all" else words.whole_number(text, "--verify", least=1)


class _Progress:
    """A line on standard error now and then."""

    def __init__(self) -> None:
        self._told_s = time.monotonic()

    def __call__(self, what: str, done: int, count: int) -> None:
        """So many items are done."""
        now_s = time.monotonic()
        if now_s - self._told_s > _EVERY_S:
            self._told_s = now_s
            print(f"hotlap: {what}: {done:,} of {count:,} items ...", file=sys.stderr)


def _show(args: argparse.Namespace, packing: "Packing") -> None:
    compared = (
        "all" if packing.num_verified == packing.num_items else f"{packing.num_verified:,} of them, evenly spaced,"
    )
    print(f"{packing.num_items:,} items of {args.factory} in {packing.folder}, {units.size(packing.num_bytes)}.")
    print(f"Each was read back whole; {compared} were computed again and are equal bit for bit.")
    if packing.num_others:
        print(f"{packing.num_others:,} items are built otherwise than the rest, and are kept as bytes.")
    print(f"Read them with:\n\n    from hotlap.data import packed\n\n    dataset = packed({str(packing.folder)!r})")


def _show_estimate(args: argparse.Namespace, found: "Estimate") -> None:
    low, high = found.speedup
    print(
        f"{args.factory}: {found.num_items:,} items; {found.num_measured} of them, {found.num_rounds} rounds in turn,"
    )
    print("in one process, with the files in the page cache:\n")
    print(f"  computed      {_rate(found.before_s)}")
    print(f"  read packed   {_rate(found.after_s)}")
    print(f"  speed-up      {units.factor(found.before_s / found.after_s)} ({low:.2f}-{high:.2f} over the rounds)")
    print(f"  on disk       {units.size(found.num_bytes)}, of {units.size(found.free_bytes)} free\n")
    print(_advice(found))


def _rate(item_s: float) -> str:
    return f"{1 / item_s:,.0f} items/s, {units.duration(item_s)} each"


def _advice(found: "Estimate") -> str:
    """What follows from it. Never that training gets faster by so much: items are only a part of a step."""
    if found.speedup[0] <= 1:
        return "Packing gains nothing that can be told from none here: items are quick to compute as they are."
    if found.num_bytes > found.free_bytes:
        return "There is no room for it there; --to names a folder on another disk."
    return "A training gains that only on the time it waits for items; `hotlap measure` tells how much that is."
