"""Several GPUs -> results/several.json: all-reduce times and efficiencies of V100 on NVLink against measured ones.

The efficiencies are published ones (DeepLearningExamples) of models whose batch is given; parameters are public model
facts. `links.py` quotes single points of the all-reduce tables; nothing was fitted to the efficiencies but the loss for
each doubling of the GPUs (`links.JITTER`), which is one number for all.
"""

import csv
import json
import re
from collections.abc import Iterator
from math import log
from pathlib import Path

import numpy as np
from measurements import DATA

from hotlap.predict import Workload, forecast, links, resolve

RESULTS = Path(__file__).with_name("results") / "several.json"
# Parameters, in millions: BERT large, SSD300 on ResNet-50, Jasper 10x5, QuartzNet 15x5, nnU-Net, FastPitch.
PARAMETERS = {
    "LanguageModeling/BERT": 336.0, "Detection/SSD": 23.0, "SpeechRecognition/Jasper": 333.0,
    "SpeechRecognition/QuartzNet": 18.9, "Segmentation/nnUNet": 41.0, "Segmentation/MaskRCNN": 44.0,
}  # fmt: skip


def reductions() -> Iterator[tuple[str, int, float, float]]:
    """Fabric, GPUs, measured and modelled seconds."""
    for row in csv.DictReader((DATA / "links" / "deepbench_allreduce.csv").read_text().splitlines()):
        if row["device"] == "NV_1080Ti" and int(row["n_gpus"]) <= 8:
            count = int(row["n_gpus"])
            over = links.fabric(resolve("GTX 1080 Ti").device, count)
            yield "pcie 3", count, float(row["time_us"]) / 1e6, links.all_reduce_s(float(row["bytes"]), count, over)
    over = links.fabric(resolve("A100 SXM4 80GB").device, 8)
    for row in csv.DictReader((DATA / "azure" / "nd_a100.csv").read_text().splitlines()):
        if row["section"] == "NCCL Bandwidth":
            number, unit = re.fullmatch(r"(\d+)([KMG])", row["c1"]).groups()  # type: ignore[union-attr]
            size = float(number) * {"K": 1e3, "M": 1e6, "G": 1e9}[unit]
            yield "nvswitch, 8 x A100", 8, 1.75 * size / (float(row["c2"]) * 1e9), links.all_reduce_s(size, 8, over)


def efficiencies() -> Iterator[dict[str, object]]:
    for row in csv.DictReader((DATA / "deeplearning_examples" / "scaling_v100.csv").read_text().splitlines()):
        known = PARAMETERS.get(row["model"])
        weak = row["batch_rule"].startswith("weak") and "ccumulation" not in row["config"]
        if row["framework"] != "PyTorch" or known is None or not weak or row["n_gpus"] not in ("2", "4", "8"):
            continue
        step_s = float(row["bs_1gpu"]) / float(row["throughput_1gpu"])
        work = Workload.from_totals(
            flop=step_s * 6e12, memory_bytes=step_s * 3e11, num_kernels=1000, parameter_bytes=known * 4e6,
            precision="amp" if row["precision"] == "AMP" else "fp32",
        )  # fmt: skip
        found = forecast(
            work, target="V100 SXM2 16GB", count=int(row["n_gpus"]), measured_on="V100 SXM2 16GB",
            measured_step_s=step_s,
        )  # fmt: skip
        yield {
            "model": row["model"], "config": row["config"], "precision": row["precision"], "count": row["n_gpus"],
            "measured": float(row["efficiency"]), "predicted": round(found.efficiency or 0.0, 3),
            "inside": found.step_s.low <= step_s / float(row["efficiency"]) <= found.step_s.high,
        }  # fmt: skip


def main() -> None:
    by_fabric: dict[str, list[float]] = {}
    for name, count, measured, modelled in reductions():
        by_fabric.setdefault(f"{name}, {count} GPUs" if "x" not in name else name, []).append(log(modelled / measured))
    rows = list(efficiencies())
    gaps = [abs(float(row["predicted"]) - float(row["measured"])) for row in rows]  # type: ignore[arg-type]
    by_precision = {
        precision: round(float(np.mean([g for g, r in zip(gaps, rows, strict=True) if r["precision"] == precision])), 3)
        for precision in ("FP32", "AMP")
    }
    result = {
        "all_reduce": {
            name: {
                "median": round(float(np.median(np.abs(gaps))), 3),
                "p90": round(float(np.percentile(np.abs(gaps), 90)), 3),
            }
            for name, gaps in by_fabric.items()
        },
        "efficiency_v100_nvlink": {
            "num": len(rows), "mean_absolute_error": round(float(np.mean(gaps)), 3), "by_precision": by_precision,
            "coverage": round(float(np.mean([bool(row["inside"]) for row in rows])), 3), "rows": rows,
        },
    }  # fmt: skip
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
