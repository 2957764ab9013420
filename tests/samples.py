"""Record values for tests: realistic ones, and the awkward ones that every reader of a record must survive."""

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from hotlap.record import (
    Ceiling,
    FileChange,
    Finding,
    Interval,
    LeverSpec,
    Noise,
    Number,
    Phase,
    Prediction,
    Result,
    Run,
    State,
    Status,
    Study,
    Trial,
    Verdict,
    as_number,
)
from tests.sample_runs import SCRIPT, SHA, VERSIONS, falling_loss, loader, machine, optimizer, run_with, site

__all__ = [
    "BF16",
    "CACHED",
    "FUSED",
    "HOSTILE",
    "KEPT",
    "MALLOC",
    "PATCH",
    "SCRIPT",
    "SHA",
    "THREADS",
    "VERSIONS",
    "falling_loss",
    "machine",
    "run_with",
    "study_crashed",
    "study_empty",
    "study_full",
    "study_hostile",
    "study_interrupted",
    "study_not_finite",
    "study_without_gain",
]

CACHED: LeverSpec = {"name": "cached-dataset"}
THREADS: LeverSpec = {"name": "threads", "count": 1}
FUSED: LeverSpec = {"name": "fused-optimizer"}
MALLOC: LeverSpec = {"name": "malloc", "huge_pages": False}

KEPT = "glibc.malloc.trim_threshold=68719476736:glibc.malloc.mmap_threshold=33554432"
"""What it sets `GLIBC_TUNABLES` to."""
BF16: LeverSpec = {"name": "bf16-autocast"}

# All that has hurt a page or a terminal before, in one string.
HOSTILE = (
    "</style></title><script>window.hurt=1</script><img src=x onerror=window.hurt=2>"
    '"\' onmouseover=window.hurt=3 x=" {{7*7}} {% raw %} ${7*7} [bold red]loud[/] [/] [link=http://evil.example]x[/link]'
    " \x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\ \x9b2J \x07\x08\x00\x7f "
    "\u202egnp.exe\u202c \u2028 javascript:alert(1) --></svg><svg onload=window.hurt=4>\r\nsecond line\ttab"
)


def study_empty() -> Study:
    """Nothing has been measured yet."""
    return Study(command=("digits.py",), cwd="/home/ada/digits", created="2026-05-04T09:30:00Z", key="0" * 16)


def study_crashed() -> Study:
    """The baseline raised at its third step."""
    run = Run(
        status=Status.CRASHED,
        error="The script raised ValueError at its step 3.",
        exit_code=1,
        output="loading 60,000 digits\n"
        'Traceback (most recent call last):\n  File "/home/ada/digits/digits.py", line 31, in <module>\n'
        "    loss = criterion(model(x), y)\n"
        "ValueError: Expected input batch_size (64) to match target batch_size (32).\n",
        versions=VERSIONS,
        first_steps_s=(0.0210, 0.0041),
    )
    return dataclasses.replace(study_empty(), state=State.COMPLETE, elapsed_s=4.2, machine=machine(), baseline=(run,))


def study_without_gain() -> Study:
    """All was tried, and the script is as fast as hotlap can make it."""
    full = study_full()
    trials = (
        Trial(
            levers=(THREADS,),
            speedup=Interval(low=0.985, mid=1.004, high=1.022),
            verdict=Verdict.UNHARMED,
            why="no faster: the interval includes 1",
        ),
        Trial(
            levers=(BF16,),
            speedup=Interval(low=0.60, mid=0.62, high=0.64),
            why="slower, so its effect on training was not examined",
        ),
    )
    return dataclasses.replace(
        full,
        baseline=(run_with(step_s=0.148, input_s=0.0009, num_steps=100, jitter=0.02),),
        findings=(
            Finding(
                code="compute-bound",
                cost_s=0.141,
                share=0.95,
                evidence="141 ms of each step (95%) are matrix products that already use both cores",
            ),
        ),
        ceilings=(
            Ceiling(
                name="input",
                idealised="batches replayed from memory",
                step_s=0.147,
                speedup=Interval(low=0.995, mid=1.006, high=1.017),
            ),
        ),
        trials=trials,
        result=None,
        after=None,
        patch=None,
        changes=(),
        predictions=(),
        warnings=(),
    )


def study_interrupted() -> Study:
    """Ctrl-C after the first accepted lever."""
    full = study_full()
    return dataclasses.replace(
        full, state=State.INTERRUPTED, elapsed_s=93.0, trials=full.trials[:2], result=None, after=None, patch=None,
        changes=(), predictions=(),
    )  # fmt: skip


def study_full() -> Study:
    """A complete study of a small network on digits, with a gain, in the numbers that such a study has."""
    before = dataclasses.replace(
        run_with(
            phases={
                Phase.INPUT: 0.00244,
                Phase.FORWARD: 0.00019,
                Phase.BACKWARD: 0.00023,
                Phase.OPTIMIZER: 0.00024,
                Phase.OTHER: 0.00010,
            },
            num_steps=320,
            jitter=0.08,
        ),
        loaders=(loader(),),
        optimizers=(optimizer(),),
        call_sites=(site("torch.utils.data.DataLoader", 24), site("torch.optim.Adam", 27)),
    )
    after = run_with(
        phases={
            Phase.INPUT: 0.00012,
            Phase.FORWARD: 0.00016,
            Phase.BACKWARD: 0.00019,
            Phase.OPTIMIZER: 0.00007,
            Phase.OTHER: 0.00010,
        },
        num_steps=320,
        jitter=0.08,
        seed=1,
        losses=_rounded_otherwise(before.loss),
    )
    return Study(
        command=("examples/digits.py", "--epochs", "3"),
        cwd="/home/ada/digits",
        created="2026-05-04T09:30:00Z",
        key="5d1f0a9be37c4426",
        hotlap="0.1.0",
        state=State.COMPLETE,
        elapsed_s=214.0,
        machine=machine(),
        baseline=(before,),
        noise=(
            Noise(
                scope="step",
                speedup=Interval(low=0.994, mid=1.001, high=1.008),
                smallest_gain=1.012,
                log_ratios=(0.001, -0.004, 0.006, 0.002, -0.001, 0.003),
            ),
            Noise(
                scope="process",
                speedup=Interval(low=0.981, mid=1.004, high=1.027),
                smallest_gain=1.034,
                log_ratios=(0.011, -0.022, 0.017, 0.004, -0.009, 0.021, -0.003, 0.012),
            ),
        ),
        findings=(
            Finding(
                code="input-bound",
                cost_s=0.00244,
                share=0.76,
                evidence="each step waits 2.44 ms (76%) for its batch, which the trainer's own process puts together",
                try_levers=("cached-dataset", "loader-workers"),
                risk="a cache takes memory.",
            ),
            Finding(
                code="host-bound",
                cost_s=0.00048,
                share=0.15,
                evidence="0.48 ms (15%) are spent in calls shorter than 20 us, where two threads wait for each other",
                try_levers=("threads", "malloc"),
            ),
            Finding(
                code="optimizer-bound",
                cost_s=0.00024,
                share=0.08,
                evidence="Adam takes 0.24 ms (8%) for 4 small tensors, one kernel after another",
                try_levers=("fused-optimizer",),
            ),
        ),
        ceilings=(
            Ceiling(
                name="input",
                idealised="batches replayed from memory",
                step_s=0.00077,
                speedup=Interval(low=4.02, mid=4.16, high=4.31),
            ),
            Ceiling(
                name="optimizer",
                idealised="no update at all",
                step_s=0.00296,
                speedup=Interval(low=1.06, mid=1.08, high=1.10),
            ),
        ),
        trials=_trials(),
        result=Result(
            levers=(CACHED, THREADS, FUSED),
            speedup=Interval(low=4.71, mid=4.87, high=5.04),
            total_speedup=Interval(low=3.02, mid=3.11, high=3.20),
            verdict=Verdict.UNHARMED,
            why="1,880 steps over two epochs: samples and their order are equal bit for bit, and the losses differ by "
            "at most 3e-6, where rounding alone makes 8e-6; no other seed was tried",
        ),
        after=after,
        patch=PATCH,
        changes=(
            FileChange(path="/home/ada/digits/examples/digits.py", before_sha256=SHA, after_sha256=SHA[::-1], after=""),
        ),
        predictions=(
            Prediction(
                device="NVIDIA T4",
                count=1,
                step_s=Interval(low=0.00052, mid=0.00071, high=0.00102),
                bound_by="kernel launches",
                fits=True,
                assumptions=("batches are free",),
            ),
        ),
        warnings=(
            "The cache keeps 180 MiB of decoded images in memory. If your real data set is larger, leave it out: "
            "--without cached-dataset.",
            "Another process used 30% of a core during the measurement.",
        ),
    )


def _rounded_otherwise(losses: tuple[Number, ...]) -> tuple[Number, ...]:
    """Equal formulas in another order of sums: the last digits differ."""
    return tuple(as_number(float(loss or 0) * (1 + 1e-6 * (i % 3))) for i, loss in enumerate(losses))


PATCH = '''\
--- a/examples/digits.py
+++ b/examples/digits.py
@@ -4,8 +4,11 @@
 import torch
 from torch import nn
 from torch.utils.data import DataLoader
+from hotlap.data import cached
 
 from digits_data import Digits
 
+torch.set_num_threads(1)
+
 EPOCHS = 3
 
@@ -21,8 +24,8 @@
 def main() -> None:
     """Train on digits -- the plain way."""
     train = Digits(train=True)
-    loader = DataLoader(train, batch_size=64, shuffle=True)
+    loader = DataLoader(cached(train), batch_size=64, shuffle=True)
     model = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
     criterion = nn.CrossEntropyLoss()
-    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
+    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
     for epoch in range(EPOCHS):
'''


def _trials() -> tuple[Trial, ...]:
    all_levers = (CACHED, THREADS, FUSED)
    return (
        Trial(
            levers=(CACHED,),
            scope="loader",
            speedup=Interval(low=3.94, mid=4.09, high=4.24),
            verdict=Verdict.UNHARMED,
            accepted=True,
            why="losses, samples and random states equal bit for bit over 1,880 steps",
            one_time_s=2.9,
            break_even_step=1188,
            log_ratios=(1.41, 1.39, 1.43, 1.40),
            runs=(run_with(num_steps=20),),
        ),
        Trial(
            levers=(THREADS,),
            on_top_of=(CACHED,),
            speedup=Interval(low=1.081, mid=1.093, high=1.105),
            verdict=Verdict.UNHARMED,
            accepted=True,
            why="losses differ by at most 2e-6, where rounding alone makes 8e-6",
        ),
        Trial(
            levers=(FUSED,),
            on_top_of=(CACHED, THREADS),
            speedup=Interval(low=1.062, mid=1.071, high=1.080),
            verdict=Verdict.UNHARMED,
            accepted=True,
            why="losses differ by at most 3e-6, where rounding alone makes 8e-6",
        ),
        Trial(
            levers=(MALLOC,),
            on_top_of=all_levers,
            scope="process",
            speedup=Interval(low=0.978, mid=1.011, high=1.045),
            verdict=Verdict.UNHARMED,
            why="cannot be told from no gain: the interval includes 1",
        ),
        Trial(
            levers=(BF16,),
            on_top_of=all_levers,
            speedup=Interval(low=0.604, mid=0.621, high=0.639),
            why="slower, so its effect on training was not examined",
        ),
        Trial(
            levers=({"name": "loader-workers", "count": 2},),
            on_top_of=all_levers,
            scope="loader",
            why="no timing: the run took longer than it was given (60 s)",
        ),
        Trial(
            levers=(CACHED,),
            on_top_of=(THREADS, FUSED),
            kind="leave-one-out",
            scope="loader",
            speedup=Interval(low=3.88, mid=4.05, high=4.22),
            verdict=Verdict.UNHARMED,
            accepted=True,
            why="without it the step is 4.05 times as long",
        ),
        Trial(
            levers=(THREADS,),
            on_top_of=(CACHED, FUSED),
            kind="leave-one-out",
            speedup=Interval(low=1.07, mid=1.084, high=1.098),
            verdict=Verdict.UNHARMED,
            accepted=True,
            why="without it the step is 1.08 times as long",
        ),
        Trial(
            levers=all_levers,
            kind="patch",
            scope="process",
            speedup=Interval(low=4.71, mid=4.87, high=5.04),
            verdict=Verdict.UNHARMED,
            accepted=True,
            why="the patched copy is as fast as its levers and makes the same losses",
        ),
    )  # fmt: skip


def study_not_finite() -> Study:
    """A full study whose losses went to NaN and to infinity once optimized."""
    full = study_full()
    losses = list(falling_loss(320))
    for i in range(150, 170):
        losses[i] = as_number(math.nan)
    losses[171] = as_number(math.inf)
    losses[200] = None
    assert full.after is not None
    assert full.result is not None
    return dataclasses.replace(
        full,
        after=dataclasses.replace(full.after, loss=tuple(losses)),
        result=dataclasses.replace(full.result, verdict=Verdict.HARMED, why="21 losses are not finite"),
    )


def study_hostile() -> Study:
    """A full study in which every string that a file could hold is `HOSTILE`, and the patch is a diff of such lines."""
    hostile: Study = _with_strings(study_not_finite(), HOSTILE)
    patch = f"--- {HOSTILE}\n+++ {HOSTILE}\n@@ -1,2 +1,2 @@\n-{HOSTILE}\n+{HOSTILE}\n"
    return dataclasses.replace(hostile, patch=patch)


def _with_strings(value: Any, text: str) -> Any:
    """`value` with each plain string in it, keys included, as `text`."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(_with_strings(item, text) for item in value)
    if isinstance(value, Mapping):
        return {_with_strings(key, text): _with_strings(item, text) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: _with_strings(getattr(value, part.name), text) for part in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    return value
