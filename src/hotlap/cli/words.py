"""The words of a command line that runs a training: where ours end and the training's begin, and what ours say."""

import re
from collections.abc import Mapping, Sequence

from hotlap.errors import UserError
from hotlap.units import num_bytes

VALUE_OPTIONS: Mapping[str, frozenset[str]] = {
    "tune": frozenset(
        {"--budget", "--timeout", "--json", "--html", "--levers", "--allow", "--horizon", "--seed", "--memory"}
    ),
    "run": frozenset({"--study", "--memory"}),
    "measure": frozenset(
        {
            "--steps",
            "--warmup",
            "--timeout",
            "--seed",
            "--json",
            "--html",
            "--markdown",
            "--trace",
            "--status-every",
        }
    ),
    "predict": frozenset(
        {
            "--gpu",
            "--count",
            "--precision",
            "--interconnect",
            "--devices",
            "--workload",
            "--save-workload",
            "--measured-on",
            "--measured-step",
            "--steps-per-epoch",
            "--price",
            "--timeout",
            "--json",
            "--html",
        }
    ),
    "lab": frozenset({"--gpu", "--data", "--budget", "--layers", "--batch", "--length", "--json", "--html"}),
}
"""Command -> its options that take a value. Behind the script all words are the script's."""

_OWN_WORDS: Mapping[str, int] = {"lab": 1}
"""Command -> words of its own that are no options, before those of the training: the name of the experiment."""

# Below it nothing could be done, and "8" was meant to be gigabytes.
_LEAST_MEMORY_BYTES = 1_000_000

TIMEOUT_HELP = "give up a run that makes no step for so long (default: 120s)"

MEMORY_HELP = "most that caches, batches made ahead and workers may take, as in 8GB (default: 80%% of what is free)"


def split_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Command line -> (words for hotlap, words of the training): cut at the first word that is no option of ours."""
    if not words or words[0] not in VALUE_OPTIONS:
        return list(words), []
    index = 1
    ours = _OWN_WORDS.get(words[0], 0)
    while index < len(words):
        word = words[index]
        if word in ("-m", "--"):
            break
        if not word.startswith("-"):
            if not ours:
                break
            ours -= 1
        index += 2 if word in VALUE_OPTIONS[words[0]] else 1
    return list(words[:index]), list(words[index:])


def seconds(text: str, option: str) -> float:
    """ "5m", "90s", "1.5h" or "300" -> seconds.

    Raises:
        UserError: it is none of these, or not above 0.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)?", text.strip())
    value = float(match[1]) * {"s": 1, None: 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if value <= 0:
        raise UserError(f"{option} {text} is not a time. Give one as in {option} 90s, {option} 5m or {option} 1h.")
    return value


def whole_number(text: str, option: str, *, least: int = 0) -> int:
    """A number of steps, or a seed.

    Raises:
        UserError: it is no whole number, or out of range.
    """
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise UserError(f"{option} {text} is not a whole number from {least} to 999999999.")
    return int(text)


def memory(text: str | None, environ: Mapping[str, str]) -> int | None:
    """Bytes of `--memory`, else of the variable that has the same effect; None where nothing is said.

    Raises:
        UserError: it is no size, or so small that its unit must have been forgotten.
    """
    from hotlap.data.memory import VARIABLE

    option = "--memory"
    if text is None:
        option, text = VARIABLE, environ.get(VARIABLE)
    if not text:
        return None
    found = num_bytes(text)
    if found is None or found < _LEAST_MEMORY_BYTES:
        raise UserError(f"{option} {text} is not a size from 1MB. Give one as in {option} 8GB or {option} 500MB.")
    return found


def names(text: str, option: str) -> tuple[str, ...]:
    """ "a,b" -> ("a", "b").

    Raises:
        UserError: there is none.
    """
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise UserError(f"{option} names nothing. Give names as in {option} threads,cached-dataset.")
    return found
