"""`hotlap completion`: what makes bash, zsh or fish complete commands, options and names."""

import argparse
from collections.abc import Iterable, Sequence

from hotlap import levers, rules
from hotlap.cli import build_parser, words
from hotlap.lab import EXPERIMENTS

# Each asks `hotlap completion SHELL WORDS...` for what may stand in place of the last word, and offers files besides.
_SCRIPTS = {
    "bash": """\
_hotlap() {
    mapfile -t COMPREPLY < <(hotlap completion bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _hotlap hotlap
""",
    "zsh": """\
_hotlap() {
    local -a found
    found=("${(@f)$(hotlap completion zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    [[ -n "$found" ]] && compadd -a found || _files
}
compdef _hotlap hotlap
""",
    "fish": "complete -c hotlap -a '(hotlap completion fish (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'\n",
}


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    found = candidates(args.typed, build_parser()) if args.typed else [_SCRIPTS[args.shell].rstrip()]
    print("\n".join(found))
    return 0


def candidates(typed: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """What may stand in place of the last of the words behind `hotlap`; nothing where it is the training's."""
    *before, current = typed
    ready, _, last = current.rpartition(",")
    begin = f"{ready}," if ready else ""
    return sorted(f"{begin}{one}" for one in _possible(before, current, parser) if one.startswith(last))


def _possible(before: Sequence[str], current: str, parser: argparse.ArgumentParser) -> Iterable[str]:
    known = words.commands(parser)
    command = known.get(before[0]) if before else None
    if command is None:
        return () if before else (*known, *parser._option_string_actions)
    _, tail = words.split_command(before, parser)
    if tail or (command.get_default("own_words") == 0 and current == "--"):
        return ()
    if before[-1] in words.value_options(command):
        action = command._option_string_actions[before[-1]]
        return [str(one) for one in action.choices or _names(action.dest)]
    if current.startswith("-"):
        return command._option_string_actions
    positional = [one for one in command._actions if not one.option_strings]
    return [str(one) for action in positional[:1] for one in action.choices or _names(f"{before[0]} {action.dest}")]


def _names(of: str) -> Iterable[str]:
    """What an option, or the first word of a command, may be given."""
    if of in ("levers", "skip", "only", "without"):
        return [kind.name for kind in levers.ALL]
    known = {
        "allow": [kind.name for kind in levers.RECIPES],
        "explain name": [*(kind.name for kind in (*levers.ALL, *levers.RECIPES)), *rules.ALL, "all"],
        "lab name": EXPERIMENTS,
    }
    return known.get(of, ())
