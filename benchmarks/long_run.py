"""What `hotlap measure --full` costs over ten million steps: memory, record, time a step. `long_run.py [STEPS]`.

The steps are made up, so that the training's own memory and time are not in the figures.
"""

import random
import sys
import time
from pathlib import Path

import results_file
from hotlap.probe.clock import FORWARD, INPUT, OTHER, PHASES, StepSpans
from hotlap.probe.ledger import Ledger, Thinning
from hotlap.record import Run, Status, encode

STEPS = 10_000_000


def row(step: int, noise: list[float]) -> StepSpans:
    spent = [0.0] * len(PHASES)
    spent[FORWARD] = 0.001 * noise[step % 4093]
    spent[INPUT] = 0.0005 * noise[step % 4091]
    spent[OTHER] = 1e-5
    return StepSpans(
        spent=spent, block=step // 11, number=step, losses=[noise[step % 4079]], num_samples=16, num_updates=1,
        epoch_started=step % 1000 == 0,
    )  # fmt: skip


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    draw = random.Random(0)
    noise = [draw.lognormvariate(0, 0.4) for _ in range(4096)]
    begun = time.process_time()
    for step in range(100_000):
        row(step, noise)
    making_s = (time.process_time() - begun) / 100_000
    ledger = Ledger(Thinning())
    before, begun = resident_bytes(), time.process_time()
    for step in range(steps):
        ledger.add(row(step, noise))
    cost_s = (time.process_time() - begun) / steps - making_s
    run = Run(status=Status.ENDED, **ledger.columns(measured=frozenset({FORWARD, INPUT})))
    assert run.long is not None
    found = {
        "steps": run.long.num_steps,
        "more memory (MB)": round((resident_bytes() - before) / 1e6, 1),
        "record (MB)": round(len(encode(run)) / 1e6, 2),
        "cost a step (us)": round(1e6 * cost_s, 1),
        "steps in the sample": len(run.step_s),
    }
    print(found)
    results_file.write("long_run", results=[found])


if __name__ == "__main__":
    main()
