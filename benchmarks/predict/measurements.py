"""../shared/data/measured -> points: what a step took, where, and what it does. Nothing here is copied into hotlap."""

import csv
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from hotlap.predict import Kind, Workload

HERE = Path(__file__).parent
DATA = HERE.parents[1].parent / "shared" / "data" / "measured"


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured step."""

    suite: str
    """Measurements made on one machine, as far as their file names tell."""
    model: str
    family: str
    precision: str
    device: str
    step_s: float
    totals: dict[str, float]
    batch: float = 1.0
    """Items of a step: memory decides how many a device was given."""

    def workload(self) -> Workload:
        return Workload.from_totals(**self.totals, precision=self.precision, kind=self.kind)

    @property
    def kind(self) -> Kind:
        """Of most of its operations."""
        convolutional = self.suite.startswith("torchvision") or self.model in ("resnet50", "ssd")
        return Kind.CONV if convolutional else Kind.MATMUL


def totals() -> dict[str, dict[str, float]]:
    return json.loads((HERE / "totals.json").read_text())


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def _columns(path: Path) -> dict[str, float]:
    """Column -> median in seconds (rows are iterations, cells milliseconds)."""
    rows = _rows(path)
    return {name: median(float(row[name]) for row in rows if row[name]) / 1e3 for name in rows[0] if name}


# suite, device, precision -> files of the same measurement; the fastest of their medians is taken.
FILES = {
    ("first", "GTX 1080 Ti", "fp32"): ("GeForce_GTX_1080_Ti_single_model_training_benchmark",),
    ("first", "GTX 1080 Ti", "fp16"): ("GeForce_GTX_1080_Ti_half_model_training_benchmark",),
    ("first", "Titan V", "fp32"): ("TITAN_V_single_model_training_benchmark",),
    ("first", "Titan V", "fp16"): ("TITAN_V_half_model_training_benchmark",),
    ("first", "RTX 2080 Ti", "fp32"): ("GeForce_RTX_2080_Ti_single_model_training_benchmark_1_",
                                       "GeForce_RTX_2080_Ti_single_model_training_benchmark_2_"),
    ("first", "RTX 2080 Ti", "fp16"): ("GeForce_RTX_2080_Ti_half_model_training_benchmark_1_",
                                       "GeForce_RTX_2080_Ti_half_model_training_benchmark_2_"),
    ("second", "RTX 2080 Ti", "fp32"): ("GeForce_RTX_2080_Ti_1_gpus__float_model_training_benchmark",
                                        "GeForce_RTX_2080_Ti_1_gpus__float_model_train_benchmark"),
    ("second", "RTX 2080 Ti", "fp16"): ("GeForce_RTX_2080_Ti_1_gpus__half_model_training_benchmark",
                                        "GeForce_RTX_2080_Ti_1_gpus__half_model_train_benchmark"),
    ("second", "Titan Xp", "fp32"): ("TITAN_Xp_1_gpus__float_model_train_benchmark",),
    ("second", "Titan Xp", "fp16"): ("TITAN_Xp_1_gpus__half_model_train_benchmark",),
}  # fmt: skip


def torchvision_points() -> Iterator[Point]:
    known = totals()
    for (suite, device, precision), names in FILES.items():
        found = [_columns(DATA / "ryujaehun" / f"{name}.csv") for name in names]
        for model in found[0]:
            facts = known.get(f"{model}/{precision}")
            if facts is None:
                continue
            step_s = min(times[model] for times in found)
            yield Point(
                suite=f"torchvision, {suite} machine", model=model, family=str(facts["family"]), precision=precision,
                device=device, step_s=step_s, totals={k: v for k, v in facts.items() if k != "family"},
            )  # fmt: skip


NEUSIGHT = {
    "Tesla_P100-PCIE-16GB": "Tesla P100 PCIe 16GB", "Tesla_P4": "Tesla P4", "Tesla_T4": "Tesla T4",
    "Tesla_V100-PCIE-32GB": "Tesla V100 PCIe 32GB",
}  # fmt: skip


def transformer_points() -> Iterator[Point]:
    known = totals()
    for row in _rows(DATA / "neusight" / "e2e_v100_p100_t4_p4.csv"):
        key = f"{row['model']}/{row['seqlen']}/{row['batch_size']}/{row['mode']}"
        if key in known:
            yield Point(
                suite="transformers", model=key, family="transformer", precision="fp32",
                device=NEUSIGHT[row["device"]], step_s=float(row["e2e_ms"]) / 1e3,
                totals={k: v for k, v in known[key].items() if k != "family"},
            )  # fmt: skip


def linear_efficiency(device: str, peak: float) -> float:
    """Median part of `peak` that FP32 matrix products reach which take a millisecond or more at it."""
    (path,) = (DATA / "neusight").glob(f"optrain_linear_*{device}*.csv.gz")
    reached = []
    with gzip.open(path, "rt") as lines:
        for row in csv.DictReader(lines):
            flop = 2 * float(row["B"]) * float(row["M"]) * float(row["N"]) * float(row["K"])
            if flop / peak >= 1e-3:
                reached.append(flop / peak / (float(row["Latency"]) / 1e3))
    return median(reached)


def timm_points() -> Iterator[Point]:
    """RTX 3090 under AMP; operations and activations from the inference tables of the same library."""
    known = {}
    for version in ("pt240-cu124", "pt113-cu117"):
        for row in _rows(DATA / "timm" / f"benchmark-infer-amp-nchw-{version}-rtx3090.csv"):
            known[row["model"]] = row
    for row in _rows(DATA / "timm" / "benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv"):
        facts = known.get(row["model"])
        if facts is None or not facts["infer_gmacs"] or float(facts["infer_gmacs"]) < 0.05:
            continue
        images = float(row["train_batch_size"])
        area = (float(row["train_img_size"]) / float(facts["infer_img_size"])) ** 2
        parameters = float(row["param_count"]) * 1e6
        yield Point(
            suite="timm", model=row["model"], family=row["model"].split("_")[0].rstrip("0123456789"),
            precision="fp16", device="RTX 3090", step_s=float(row["train_step_time"]) / 1e3,
            totals={
                "flop": 6e9 * float(facts["infer_gmacs"]) * area * images,
                # A traced ResNet-50 moves 45 bytes under autocast for each number that its layers put out.
                "memory_bytes": 45e6 * float(facts["infer_macts"]) * area * images + 20 * parameters,
                "num_kernels": 500, "parameter_bytes": 4 * parameters,
            },
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Net:
    """What Lambda's nets do for each item, and whatever the batch: their operations are counted from the models, bytes
    from traces of the same layers (`totals.py`, `transformer_xl.py`) or, where there is no trace, from their widths."""

    flop: float
    fp32_bytes: float
    parameters: float
    num_kernels: float


# An item is an image, a sequence of 384 tokens, a pair of sentences of 50 tokens together, a sequence of 192 or 128
# tokens (with as many remembered), or a clip of 8,000 samples.
LAMBDA = {
    "resnet50": Net(flop=24.3e9, fp32_bytes=0.81e9, parameters=25.6e6, num_kernels=500),
    "ssd": Net(flop=125e9, fp32_bytes=2.2e9, parameters=23e6, num_kernels=700),
    "bert_base_squad": Net(flop=212e9, fp32_bytes=3.2e9, parameters=110e6, num_kernels=560),
    "bert_large_squad": Net(flop=739e9, fp32_bytes=8.4e9, parameters=335e6, num_kernels=1114),
    "gnmt": Net(flop=50 * 0.40e9, fp32_bytes=50 * 1.3e6, parameters=160e6, num_kernels=1500),
    "transformerxlbase": Net(flop=192 * 0.532e9, fp32_bytes=192 * 15.5e6, parameters=192e6, num_kernels=1208),
    "transformerxllarge": Net(flop=128 * 1.98e9, fp32_bytes=128 * 28.2e6, parameters=283e6, num_kernels=1350),
    "waveglow": Net(flop=8000 * 0.20e9, fp32_bytes=8000 * 1.0e6, parameters=268e6, num_kernels=1500),
}
UPDATE_BYTES = 40
"""For each parameter, whatever the batch: in FP32 it is read forward and backward, its gradient is written, and a fused
Adam reads four numbers and writes three."""
MIXED_SHARE = 0.62
"""Of the bytes of FP32 that autocast leaves."""


def lambda_points() -> Iterator[Point]:
    """Ten GPUs, each with the batch that its memory holds. Rows that a note calls noise, or not what they say, are left
    out: Tacotron 2, and WaveGlow under AMP."""
    for row in _rows(DATA / "lambda_v1" / "one_gpu.csv"):
        if row["note"]:
            continue
        net, batch = LAMBDA[row["model"]], float(row["batch"])
        share = MIXED_SHARE if row["precision"] == "fp16" else 1.0
        yield Point(
            suite="lambda", model=row["model"], family=re.sub("_?(base|large)(_squad)?$", "", row["model"]),
            precision={"fp32": "fp32-ieee"}.get(row["precision"], row["precision"]), device=row["device"],
            step_s=float(row["step_s"]), batch=batch,
            totals={
                "flop": net.flop * batch, "num_kernels": net.num_kernels, "parameter_bytes": 4 * net.parameters,
                "memory_bytes": share * net.fp32_bytes * batch + UPDATE_BYTES * net.parameters,
            },
        )  # fmt: skip


def two_gpus() -> list[dict[str, str]]:
    """Two RTX 3090 without peer access: efficiency beside one, with the same batch on each."""
    return _rows(DATA / "lambda_v1" / "two_gpus.csv")
