"""Photographs through RandomResizedCrop, flip, ToTensor, Normalize: samples a second of the input side alone.

`python benchmarks/images.py [FOLDER]` (with one folder of pictures for each class) writes
`benchmarks/results/images-<device>.json`. As written; with every number of workers up to twice the cores, persistent,
and several numbers of batches ahead (the best of them is what a user would find by trying); WebDataset, where it is
installed, reading the same files from a tar; and hotlap's pieces. The cases are measured in turn within each round,
each for some epochs in a process of its own; the first epoch, in which heads are computed, is told apart. Beside the
samples of a second stands what a sample costs from the third epoch on, in CPU time of all processes: that depends less
on who else computes on the machine. Pixels are compared by a digest of all batches of two epochs, for the cases whose
draws are the same: with workers, those of the loader with as many workers.
"""

import argparse
import hashlib
import io
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

# Beside the project, where its data lie.
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "clothing" / "train"

BATCH_SIZE = 32
NUM_EPOCHS = 4
NUM_ROUNDS = 3
SIZE = 224
NUM_SHARDS = 8  # so that each worker has some


DECLARED: list[Any] = []
"""The operators are gone when it is."""


def define_operators() -> None:
    """torchvision imports beside a torch of another build once the operators that it does not bring are declared."""
    import torch

    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    declared = [
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        "roi_align(Tensor a, Tensor b, float c, SymInt d, SymInt e, int f, bool g) -> Tensor",
        "roi_pool(Tensor a, Tensor b, float c, SymInt d, SymInt e) -> (Tensor, Tensor)",
        "ps_roi_align(Tensor a, Tensor b, float c, SymInt d, SymInt e, int f) -> (Tensor, Tensor)",
        "ps_roi_pool(Tensor a, Tensor b, float c, SymInt d, SymInt e) -> (Tensor, Tensor)",
        "deform_conv2d(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, SymInt f, SymInt g, SymInt h, SymInt i,"
        " SymInt j, SymInt k, SymInt l, SymInt m, bool n) -> Tensor",
        "_roi_align_backward(Tensor a) -> Tensor",
        "_roi_pool_backward(Tensor a) -> Tensor",
        "_ps_roi_align_backward(Tensor a) -> Tensor",
        "_ps_roi_pool_backward(Tensor a) -> Tensor",
        "_deform_conv2d_backward(Tensor a) -> Tensor",
    ]
    for schema in declared:
        library.define(schema)
    DECLARED.append(library)


def pipeline() -> Any:
    """The usual one of ImageNet trainings."""
    define_operators()
    transforms: Any = import_module("torchvision.transforms")

    return transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )


def loader_of(folder: Path, case: dict[str, Any], shards: Path) -> Any:
    """The loader of one case."""
    from torch.utils.data import DataLoader

    steps = pipeline()
    workers = case.get("workers", 0)
    settings: dict[str, Any] = {"batch_size": BATCH_SIZE, "num_workers": workers}
    if workers:
        settings.update(prefetch_factor=case.get("prefetch", 2), persistent_workers=case.get("persistent", False))
    if case.get("webdataset"):
        webdataset: Any = import_module("webdataset")
        tars = str(shards / f"pictures-{{000000..{NUM_SHARDS - 1:06d}}}.tar")
        stream = webdataset.WebDataset(tars, shardshuffle=NUM_SHARDS).shuffle(1000).decode("pil")
        return DataLoader(stream.to_tuple("jpg", "cls").map_tuple(steps, int), **settings)
    from hotlap.data import cached_prefix

    dataset: Any = import_module("torchvision.datasets").ImageFolder(str(folder), transform=steps)
    if case.get("prefix"):
        dataset = cached_prefix(dataset)
    return DataLoader(dataset, shuffle=True, **settings)


def run_case(folder: Path, case: dict[str, Any], shards: Path) -> dict[str, Any]:
    """In a process of its own: samples a second of each epoch, and the digest of two epochs."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = loader_of(folder, case, shards)
    rates, digest, costs_s = [], hashlib.sha256(), list[float]()
    for epoch in range(case["epochs"]):
        begun, begun_cpu_s, count, apart_s = perf_counter(), cpu_s(), 0, 0.0
        for images, labels in loader:
            count += len(labels)
            if epoch < 2:
                hashing = perf_counter()
                digest.update(images.numpy().tobytes())
                apart_s += perf_counter() - hashing
        rates.append(count / (perf_counter() - begun - apart_s))
        costs_s.append((cpu_s() - begun_cpu_s) / count)
    return {
        "first": rates[0],
        "later": statistics.median(rates[1:]),
        "cpu_ms": 1e3 * statistics.median(costs_s[2:]),
        "digest": digest.hexdigest()[:16],
        "note": getattr(loader.dataset, "note", None),
    }


def cpu_s() -> float:
    """Of this process, of workers that have ended, and of those that are there."""
    stats = [Path(f"/proc/{worker.pid}/stat").read_text() for worker in multiprocessing.active_children()]
    ticks = [int(number) for stat in stats for number in stat.rpartition(")")[2].split()[11:13]]
    return sum(os.times()[:4]) + sum(ticks) / os.sysconf("SC_CLK_TCK")


def cases(num_cores: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {"baseline": {}}
    for workers in sorted({1, 2, num_cores, 2 * num_cores}):
        for prefetch in (2, 4):
            name = f"{workers} workers, {prefetch} ahead, persistent"
            found[name] = {"workers": workers, "prefetch": prefetch, "persistent": True}
    found[f"{num_cores} workers, new each epoch"] = {"workers": num_cores}
    found["WebDataset"] = {"workers": num_cores, "persistent": True, "webdataset": True}
    found["cached_prefix"] = {"prefix": True}
    name = f"cached_prefix, {num_cores} workers, persistent"
    found[name] = {"workers": num_cores, "persistent": True, "prefix": True}
    return found


def write_shards(folder: Path, to: Path) -> None:
    """The files as they are, in some tars as WebDataset reads them."""
    classes = sorted(child for child in folder.iterdir() if child.is_dir())
    pictures = [(path, number) for number, child in enumerate(classes) for path in sorted(child.iterdir())]
    for shard in range(NUM_SHARDS):
        with tarfile.open(to / f"pictures-{shard:06d}.tar", "w") as tar:
            for place in range(shard, len(pictures), NUM_SHARDS):
                path, number = pictures[place]
                for suffix, data in (("jpg", path.read_bytes()), ("cls", str(number).encode())):
                    about = tarfile.TarInfo(f"{place:06d}.{suffix}")
                    about.size = len(data)
                    tar.addfile(about, io.BytesIO(data))


def measure(folder: Path, *, num_rounds: int, num_epochs: int) -> list[dict[str, Any]]:
    wanted = cases(len(os.sched_getaffinity(0)))
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    with tempfile.TemporaryDirectory() as scratch:
        shards = Path(scratch)
        write_shards(folder, shards)
        for _ in range(num_rounds):
            for name, case in wanted.items():
                found = one(folder, {**case, "epochs": num_epochs}, shards)
                if found is not None:
                    seen[name].append(found)
    return rows(wanted, seen)


def rows(wanted: dict[str, dict[str, Any]], seen: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    later = {name: statistics.median(run["later"] for run in runs) for name, runs in seen.items() if runs}
    tried = [name for name in later if "workers" in name and not wanted[name].get("prefix")]
    best = max(tried, key=later.__getitem__)
    table = []
    for name, runs in seen.items():
        if not runs:
            continue
        twins = [other for other, case in wanted.items() if _draws_as(wanted[name], case) and seen[other]]
        twin = twins[0] if twins else None
        table.append(
            {
                "case": name,
                "samples_per_s": later[name],
                "first_epoch_samples_per_s": statistics.median(run["first"] for run in runs),
                "over_as_written": later[name] / later["baseline"],
                "cpu_ms": statistics.median(run["cpu_ms"] for run in runs),
                "over_best_loader": later[name] / later[best],
                "is_best_loader": name == best,
                "same_pixels": None if twin is None else runs[0]["digest"] == seen[twin][0]["digest"],
                "note": runs[0]["note"],
            }
        )
    return table


def _draws_as(ours: dict[str, Any], other: dict[str, Any]) -> bool:
    """True for a plain loader whose draws are those of this case of hotlap's."""
    plain = not (other.get("prefix") or other.get("webdataset"))
    same = all(ours.get(name, 0) == other.get(name, 0) for name in ("workers", "persistent"))
    return bool(ours.get("prefix")) and plain and same


def one(folder: Path, case: dict[str, Any], shards: Path) -> dict[str, Any] | None:
    command = [sys.executable, __file__, str(folder), "--case", json.dumps(case), "--shards", str(shards)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and case.get("webdataset") and "No module named" in done.stderr:
        return None
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--rounds", type=int, default=NUM_ROUNDS)
    parser.add_argument("--epochs", type=int, default=NUM_EPOCHS)
    parser.add_argument("--case", help="for the processes that this one starts")
    parser.add_argument("--shards", type=Path, default=Path())
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run_case(options.folder, json.loads(options.case), options.shards)))
        return
    if not options.folder.exists():
        print(f"not measured: there is no {options.folder}; give a folder with one folder of pictures for each class")
        return
    from results_file import write

    write("images", results=measure(options.folder, num_rounds=options.rounds, num_epochs=options.epochs))


if __name__ == "__main__":
    main()
