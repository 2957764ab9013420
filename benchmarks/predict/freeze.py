"""Forecasts of the six trainings of benchmarks/gpu.sh for GPUs that are not here -> results/frozen.json.

    PYTHONPATH=src python benchmarks/predict/freeze.py [NAME ...]

Written by `hotlap predict` on a machine without a GPU, and committed before such a GPU runs them: what was measured is
published beside them, and they are not made again. Names: those to trace; all six are forecast from the steps that were
traced (traced/), without the time on this processor. A step of gpt-124m takes minutes there: it is traced without data.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent
SCRIPT = HERE.parent / "gpu" / "training.py"
TRACED = HERE / "traced"
RESULTS = HERE / "results" / "frozen.json"
GPUS = ("H100 SXM5 80GB", "H100 PCIe 80GB", "H200 SXM 141GB")


def predict(*words: str) -> str:
    """Standard output of `hotlap predict`."""
    asked = [word for gpu in GPUS for word in ("--gpu", gpu)]
    command = (sys.executable, "-m", "hotlap", "predict", *asked, "--json", "-", *words)
    environment = os.environ | {"HOTLAP_DEVICE": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def without_data(name: str) -> None:
    """Trace one step as `training.py` makes it, on tensors that hold nothing."""
    os.environ["HOTLAP_DEVICE"] = "meta"
    sys.path.insert(0, str(SCRIPT.parent))
    import torch
    import training

    from hotlap.predict import trace
    from hotlap.record import save

    with torch.device("meta"):
        net, batches = training.made(name)
        x, y = next(batches)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x).flatten(0, -2), y.flatten()).backward()
        optimizer.step()

    step()  # Adam's state is made in the first
    work = replace(trace.record(step, parameters=net.parameters()), name=f"training.py {name}")
    state = sum(t.nbytes for of in optimizer.state.values() for t in of.values() if isinstance(t, torch.Tensor))
    save(replace(work, optimizer_state_bytes=float(state), batch_size=len(x)), TRACED / f"{name}.json")


def main() -> None:
    TRACED.mkdir(exist_ok=True)
    for name in sys.argv[1:]:
        if name == "gpt-124m":
            without_data(name)
            continue
        predict("--save-workload", str(TRACED / f"{name}.json"), "--timeout", "60m", str(SCRIPT), name)
    found = {path.stem: json.loads(predict("--workload", str(path))) for path in sorted(TRACED.glob("*.json"))}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    for name, rows in found.items():
        print(name, *(f"{1e3 * row['step_s']['mid']:.2f} ms on {row['device']}" for row in rows), flush=True)


if __name__ == "__main__":
    main()
