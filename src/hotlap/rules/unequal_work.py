"""unequal-work: processes that train together are given unequal amounts to compute.

What it says: in each step the process with most elements in its batch computes so much longer than the mean, and the
others wait for it.
Why it is bad: all go on when the last one is done; the others' hardware idles, though none of it is slow.
Example: sequences of random length, sorted shards, a smaller batch on the process that also logs.
Risk: samples of like length meet in one batch, which no shuffled order gives; an incomplete last batch is left out.

Before:

    sampler = DistributedSampler(texts)

After:

    by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # reads each sample once
    class ByLength(DistributedSampler):  # in each step like lengths for all processes
        def __iter__(self):
            size = 32 * self.num_replicas  # samples of a step
            steps = [by_length[i : i + size] for i in range(0, len(by_length) - size + 1, size)]
            random.Random(self.seed + self.epoch).shuffle(steps)
            return (i for step in steps for i in step[self.rank :: self.num_replicas])
    sampler = ByLength(texts)
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from textwrap import dedent

from hotlap.record import Finding, Machine, Run, UnequalWork
from hotlap.rules.advice import calls, replaced
from hotlap.rules.step import Change, file_name, finding, share_of, spent
from hotlap.source import is_name

# As for a straggler, which it looks like.
MIN_SHARE = 0.10

# Below it the means of the ranks are the same for people, and another one has most in each step.
_SAME = 1.1

# What the example puts in front of the sampler; a script has another base, size and data set.
_CLASS = dedent((__doc__ or "").partition("\nAfter:\n\n")[2]).partition("sampler = ")[0]

EXPLAINS = frozenset({"communication-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """By the elements that the model of each process is given, and how its compute grows with them."""
    seen = run.unequal_work
    if seen is None or share_of(run, seen.cost_s) < MIN_SHARE:
        return None
    return finding(
        run,
        seen.cost_s,
        f"{_whose(seen)} in a step has {seen.most:.2f} times the mean of the {len(seen.work)} processes to compute: "
        f"all wait {spent(run, seen.cost_s, ' of each step')} for it, "
        f"the most that equal work would bring{_fed(run)}.",
        change=_by_length(run),
    )


def _whose(seen: UnequalWork) -> str:
    most = max(seen.work, key=lambda rank: seen.work[rank])
    mean = sum(seen.work.values()) / len(seen.work)
    if seen.work[most] < _SAME * mean:
        return "The process with most elements (another one from step to step)"
    return f"The process with most elements (mostly rank {most})"


def _fed(run: Run) -> str:
    """Where batches are made."""
    for script, call in calls(run, "torch.utils.data.DataLoader"):
        return f"; batches are made in line {call.lineno} of {file_name(script.path)}"
    return ""


def _by_length(run: Run) -> Change | None:
    """Where equally many samples go to each process, so that only their lengths can differ."""
    names = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")
    for script, call in calls(run, *names):
        dataset = call.args[0] if call.args else None
        if dataset is None or not is_name(dataset):
            continue
        change, sampler = replaced(script, call.func, "ByLength"), script.code(call.func)
        size = next((str(one.batch_size) for one in run.loaders if one.trained_on and one.batch_size), "batch_size")
        own = {"DistributedSampler": sampler, "32": size, "texts": script.code(dataset)}
        return replace(change, after=_with(own) + change.after)
    return None


def _with(own: Mapping[str, str]) -> str:
    """The example with the script's own words."""
    return re.sub("|".join(own), lambda found: own[found[0]], _CLASS)
