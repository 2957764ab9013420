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

from hotlap.record import Finding, Machine, Run
from hotlap.rules.advice import calls
from hotlap.rules.change import file_name
from hotlap.rules.step import finding, share_of, spent

# As for a straggler, which it looks like.
MIN_SHARE = 0.10

EXPLAINS = frozenset({"communication-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """By the elements that the model of each process is given, and how its compute grows with them."""
    seen = run.unequal_work
    if seen is None or share_of(run, seen.cost_s) < MIN_SHARE:
        return None
    return finding(
        run,
        seen.cost_s,
        f"The process with most elements in a step has {seen.most:.2f} times the mean of the {len(seen.work)} "
        f"processes to compute: all wait {spent(run, seen.cost_s, ' of each step')} for it, the most that equal work "
        f"would bring{_fed(run)}.",
    )


def _fed(run: Run) -> str:
    """Where batches are made."""
    for script, call in calls(run, "torch.utils.data.DataLoader"):
        return f"; batches are made in line {call.lineno} of {file_name(script.path)}"
    return ""
