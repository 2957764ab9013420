"""What one H200 of ours showed of hosts, and what the model says of it now -> results/host.json.

    PYTHONPATH=src python benchmarks/predict/host.py

The frozen forecasts (`freeze.py`) made again with the model as it is, from the traced step alone; what an H100 took,
carried there; and bfloat16 from the FP32 step that was measured there (`reality.py`). The model has seen what was
measured: this says what its intervals hold, not how good it is.
"""

import gzip
import json
import sys
from dataclasses import replace
from math import log
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from hotlap.predict import Workload, forecast, trace, workload
from hotlap.record import Interval, Study, decode

HERE = Path(__file__).parent
RECORDED = HERE.parents[1] / "tests" / "recorded" / "nvidia-h100"
RESULTS = HERE / "results" / "host.json"
GPU = "NVIDIA H200"
TRAINING = HERE / "training"


def row(step: Interval, truth_s: float) -> dict[str, Any]:
    return {
        "low_s": step.low, "mid_s": step.mid, "high_s": step.high, "truth_s": truth_s,
        "off": round(log(step.mid / truth_s), 3), "inside": step.low <= truth_s <= step.high,
    }  # fmt: skip


def taken() -> dict[str, float]:
    """Training -> seconds of its step on that H200."""
    measured = json.loads((HERE.parent / "results" / "gpu-nvidia-h200.json").read_text())["commands"]
    return {one["name"].removeprefix("measure "): one["saw"]["step_s"] for one in measured if "saw" in one}


def again() -> dict[str, dict[str, Any]]:
    """The six trainings."""
    return {
        f"{path.stem}, from the traced step": row(forecast(workload.load(path), target=GPU).step_s, taken()[path.stem])
        for path in sorted((HERE / "traced").glob("*.json"))
    }


def from_another() -> dict[str, dict[str, Any]]:
    """What an H100 of ours took for the same trainings, carried here; another machine, so another host."""
    found = {}
    for name in ("gpt-10m", "mnist"):
        study = decode(gzip.decompress((RECORDED / f"tune-{name}.json.gz").read_bytes()), Study)
        work, here_s = workload.load(HERE / "traced" / f"{name}.json"), median(study.baseline[0].step_s)
        step = forecast(
            replace(work, host_s=None), target=GPU, measured_on="H100 SXM5 80GB", measured_step_s=here_s
        ).step_s
        found[f"{name}, from an H100's step"] = row(step, taken()[name])
    return found


def traced(name: str, batch: int) -> Workload:
    """A step of `track.py`, on tensors that hold nothing."""
    sys.path.insert(0, str(TRAINING))
    import track

    net, x, y = track.made(name, batch, "meta")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x).flatten(0, -2), y.flatten()).backward()
        optimizer.step()

    step()  # AdamW's state is made in the first
    return replace(trace.record(step, parameters=net.parameters()), name=name)


def halves() -> dict[str, dict[str, Any]]:
    """bfloat16 from the FP32 step."""
    from reality import BATCHES

    rows = json.loads((HERE / "results" / "reality-nvidia-h200.json").read_text())["rows"]
    truths = {(one["script"], one["question"]): one["truth_s"] for one in rows}
    found = {}
    for name, batch in BATCHES.items():
        here_s, there_s = truths[name, "from a CPU's step"], truths[name, "from a step here, bf16"]
        step = forecast(
            traced(name, batch), target=GPU, precision="bf16", measured_on=GPU, measured_step_s=here_s
        ).step_s
        found[f"{name}, bf16 from FP32"] = row(step, there_s)
    return found


def main() -> None:
    found = again() | from_another() | halves()
    RESULTS.write_text(json.dumps({"rows": found}, indent=1) + "\n")
    for name, one in found.items():
        print(
            f"{name:45}", *(f"{1e3 * one[key]:8.2f}" for key in ("low_s", "mid_s", "high_s", "truth_s")), one["inside"]
        )


if __name__ == "__main__":
    main()
