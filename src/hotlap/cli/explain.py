"""`hotlap explain`: what a finding or a lever is."""

import argparse
import inspect

from hotlap import levers, rules
from hotlap.errors import UserError


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    known = {kind.name: f"{kind.name}: {inspect.cleandoc(kind.__doc__ or '')}" for kind in levers.ALL + levers.RECIPES}
    known |= {code: inspect.cleandoc(text) for code, text in rules.EXPLANATIONS.items()}
    if args.name == "all":
        print("\n".join(sorted(known)))
        return 0
    if args.name not in known:
        raise UserError(f"There is no finding or lever {args.name!r}. `hotlap explain all` lists them.")
    print(f"{known[args.name]}\n")
    if args.name in rules.ALL:
        print("Where it costs you time: hotlap measure train.py")
    else:
        print(f"To try it alone: hotlap tune --levers {args.name} train.py")
    return 0
