"""Predicts trainings on the GPU of this machine, then runs them -> results/reality-<device>.json, side by side.

    PYTHONPATH=src python benchmarks/predict/reality.py [--quick]

Each script is traced first with the GPU hidden, as on a machine without one, and the step on the GPU is predicted from
that: once from the traced step alone, once with its time on the CPU. Then it runs on the GPU. What was measured there
in FP32 predicts the same script in bfloat16, with twice the batch, and on all GPUs of the machine, before those run.
Predictions are written to the file before the run that judges them.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from math import log
from pathlib import Path
from statistics import median

from hotlap.cli import traced
from hotlap.errors import HotlapError
from hotlap.predict import Device, Workload, forecast
from hotlap.record import Interval

HERE = Path(__file__).parent
SCRIPT = HERE / "training" / "track.py"
RESULTS = HERE / "results"
# Large enough that a GPU is busy, small enough that a few cores trace a step in seconds.
BATCHES = {"mlp": 4096, "convolutions": 128, "transformer": 16}
HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
NO_GPU = "reality.py: torch sees no GPU here, so there is nothing to compare a prediction with."


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A script that ran: one of its steps, where, and how long it took."""

    work: Workload
    device: str | Device
    step_s: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One prediction and, once it ran, the truth."""

    script: str
    question: str
    """From what it was predicted."""
    device: str
    low_s: float
    mid_s: float
    high_s: float
    truth_s: float | None = None
    off: float | None = None
    """log(predicted / measured)."""
    inside: bool | None = None

    def judged(self, truth_s: float) -> "Row":
        """With the truth beside it."""
        inside = self.low_s <= truth_s <= self.high_s
        return replace(self, truth_s=truth_s, off=round(log(self.mid_s / truth_s), 3), inside=inside)


Run = Callable[[Sequence[str], int], Seen]
"""Words of a training, and how many GPUs it may see -> what was seen."""


def slower(step_s: float, speedup: Interval) -> Interval:
    """A step of which it was predicted by how much it gets faster."""
    return Interval(low=step_s / speedup.high, mid=step_s / speedup.mid, high=step_s / speedup.low)


@dataclass(kw_only=True)
class Study:
    """Predictions and truths of one GPU; `save` is called whenever there is something new."""

    device: str
    num_gpus: int = 1
    run: Run
    save: Callable[["Study"], None]
    rows: list[Row] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def judge(self, name: str, batch: int) -> None:
        """Predict and run one script, in all the ways that it is asked."""
        words = (name, "--batch", str(batch))
        here = self.run(words, 0)
        alone = forecast(here.work, target=self.device).step_s
        timed = forecast(here.work, target=self.device, measured_on=here.device, measured_step_s=here.step_s).step_s
        told = [self._row(name, "from the traced step alone", alone), self._row(name, "from a CPU's step", timed)]
        there = self._settle(told, words, num_gpus=1)
        # Now something is known of this GPU.
        faster = forecast(
            there.work, target=self.device, precision="bf16", measured_on=self.device, measured_step_s=there.step_s
        ).step_s
        told = [self._row(name, "from a step here, bf16", faster)]
        self._settle(told, (*words, "--precision", "bf16"), num_gpus=1)
        if self.num_gpus > 1:
            several = forecast(
                there.work, target=self.device, count=self.num_gpus, measured_on=self.device,
                measured_step_s=there.step_s,
            ).step_s  # fmt: skip
            told = [self._row(name, f"from a step here, {self.num_gpus} GPUs", several)]
            self._settle(told, words, num_gpus=self.num_gpus)

    def _row(self, script: str, question: str, step: Interval) -> Row:
        return Row(
            script=script, question=question, device=self.device, low_s=step.low, mid_s=step.mid, high_s=step.high
        )

    def _settle(self, told: list[Row], words: Sequence[str], *, num_gpus: int) -> Seen:
        """Keep predictions, run, and keep them with the truth."""
        self.rows += told
        self.save(self)
        seen = self.run(words, num_gpus)
        self.rows[-len(told) :] = [row.judged(seen.step_s) for row in told]
        self.save(self)
        return seen

    def summary(self) -> dict[str, object]:
        """Errors as median and 90th percentile of |log ratio|, and coverage, of the rows that have a truth."""
        known = [row for row in self.rows if row.off is not None]
        if not known:
            return {"num": 0}
        size = sorted(abs(row.off or 0.0) for row in known)
        return {
            "num": len(known),
            "median": round(median(size), 3),
            "p90": round(size[min(len(size) - 1, int(0.9 * len(size)))], 3),
            "coverage": round(sum(bool(row.inside) for row in known) / len(known), 3),
        }


def gpus_here() -> list[str]:
    """The driver's names of the GPUs that torch sees, asked in a process of its own."""
    ask = "import torch; [print(torch.cuda.get_device_name(k)) for k in range(torch.cuda.device_count())]"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


@contextmanager
def seeing(num_gpus: int) -> Iterator[None]:
    """Only so many GPUs for processes that are started inside."""
    before = {name: os.environ.get(name) for name in HIDING}
    if num_gpus == 0:
        os.environ.update(dict.fromkeys(HIDING, ""))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def run(words: Sequence[str], num_gpus: int) -> Seen:
    """Run a training under the probe until a step is traced."""
    command = (str(SCRIPT), *words)
    if num_gpus > 1:
        together = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_gpus))
        command = (*together, *command)
    with seeing(num_gpus):
        found = traced.trace(command, timeout_s=900.0)
    if found.device is None or found.step_s is None:
        raise HotlapError(f"{' '.join(words)}: no step was timed.")
    return Seen(work=found.work, device=found.device, step_s=found.step_s)


def write(study: Study) -> None:
    """results/reality-<device>.json."""
    name = study.device.lower().replace(" ", "-")
    record = {
        "device": study.device, "summary": study.summary(), "rows": [asdict(row) for row in study.rows],
        "failed": study.failed,
    }  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"reality-{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="an eighth of the batches: proves that it runs")
    args = parser.parse_args()
    gpus = gpus_here()
    if not gpus:
        print(NO_GPU, file=sys.stderr)
        return 2
    # Several models of GPU in one machine: data-parallel training is predicted for equal ones.
    study = Study(device=gpus[0], num_gpus=len(gpus) if len(set(gpus)) == 1 else 1, run=run, save=write)
    for name, batch in BATCHES.items():
        try:
            study.judge(name, batch // (8 if args.quick else 1))
        except HotlapError as error:
            study.failed.append(f"{name}: {error}")
            write(study)
    for row in study.rows:
        truth = "not run" if row.truth_s is None else f"{1e3 * row.truth_s:.2f} ms"
        print(f"{row.script}, {row.question}: {1e3 * row.mid_s:.2f} ms ({1e3 * row.low_s:.2f} to "
              f"{1e3 * row.high_s:.2f}), measured {truth}")  # fmt: skip
    print(study.summary())
    return 1 if study.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
