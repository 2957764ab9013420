"""torchvision's MNIST, a small network, five epochs: as written, with other loaders, with data levers cold and warm.

And with what else `tune` may accept for it: fused Adam, one thread, the native step. Two cases are bounds: batches that
lie ready, so that input costs nothing, with the native step and with `compile_step`, for which the loop is another one.

`python benchmarks/mnist.py [FOLDER]` (with the four `.gz` files) writes `benchmarks/results/mnist-<device>.json`. Every
case is a fresh process, in turn within each round; seconds are from the first `iter(loader)` to the last step, so the
first epoch, a cache that is filled, and workers that are started count. Losses are compared bit by bit.
"""

import argparse
import gzip
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from images import define_operators

# Beside the project, where its data lie.
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "mnist"

NUM_EPOCHS = 5
BATCH_SIZE = 64
NUM_ROUNDS = 3


def unpacked(folder: Path, root: Path) -> Path:
    """Where torchvision finds the files, as they are distributed but unpacked."""
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for file in folder.glob("*.gz"):
        (raw / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    return root


def dataset(root: Path) -> Any:
    """As most scripts have it."""
    define_operators()
    datasets: Any = import_module("torchvision.datasets")
    return datasets.MNIST(root, train=True, transform=import_module("torchvision.transforms").ToTensor())


def train(root: Path, case: str, cache: Path) -> dict[str, Any]:
    """The script; `case` says what is changed in it."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    from hotlap.data import cached
    from hotlap.small import compile_step, native_steps

    torch.manual_seed(0)
    if "one thread" in case:
        torch.set_num_threads(1)
    if "native" in case:
        native_steps()
    items = dataset(root)
    if case.startswith("cached"):
        items = cached(items, disk=cache if "disk" in case else False)
    settings: dict[str, Any] = {}
    if case.startswith("workers"):
        settings = {"num_workers": int(case.split()[1]), "persistent_workers": True}
    loader = DataLoader(items, batch_size=BATCH_SIZE, shuffle=True, **settings)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True if "fused" in case else None)
    criterion = nn.CrossEntropyLoss()
    compiled = compile_step(model, criterion, optimizer) if "compiled" in case else None
    batches = [*loader] if "ready" in case else loader
    losses, epochs = [], []
    for _ in range(NUM_EPOCHS):
        begun = perf_counter()
        for images, labels in batches:
            if compiled is not None:
                losses.append(torch.tensor(compiled.step(images.flatten(1), labels)))
                continue
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        epochs.append(perf_counter() - begun)
    digest = hashlib.sha256(torch.stack(losses).numpy().tobytes()).hexdigest()[:16]
    return {"train_s": sum(epochs), "first_epoch_s": epochs[0], "later_epoch_s": epochs[-1], "losses": digest}


CASES = {
    "baseline": "plain",
    "1 worker, persistent": "workers 1",
    "2 workers, persistent": "workers 2",
    "cached, cold": "cached",
    "cached on disk, cold": "cached disk",
    "cached on disk, warm": "cached disk warm",
    "cached on disk and fused Adam, warm": "cached disk warm fused",
    "cached on disk, fused Adam, one thread, warm": "cached disk warm fused one thread",
    "cached on disk and native step, cold": "cached disk native",
    "cached on disk and native step, warm": "cached disk warm native",
    "batches lie ready, native step": "ready native",
    "batches lie ready, compile_step": "ready compiled",
}


def measure(folder: Path, num_rounds: int) -> list[dict[str, Any]]:
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as scratch:
        root = unpacked(folder, Path(scratch) / "data")
        for number in range(num_rounds):
            for name, case in CASES.items():
                cache = Path(scratch) / ("warm" if "warm" in case else f"{case}, {number}")
                if "warm" in case and not cache.exists():
                    one(root, "cached disk", cache)
                seen[name].append(one(root, case, cache))
    plain = seen["baseline"]
    plain_s = statistics.median(run["train_s"] for run in plain)
    rows = []
    for name, runs in seen.items():
        train_s = statistics.median(run["train_s"] for run in runs)
        rows.append(
            {
                "case": name,
                "train_s": train_s,
                "first_epoch_s": statistics.median(run["first_epoch_s"] for run in runs),
                "later_epoch_s": statistics.median(run["later_epoch_s"] for run in runs),
                "speedup": plain_s / train_s,
                "lowest_speedup": min(a["train_s"] / b["train_s"] for a, b in zip(plain, runs, strict=True)),
                "same_losses": all(run["losses"] == plain[0]["losses"] for run in runs),
            }
        )
    return rows


def one(root: Path, case: str, cache: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, str(root), "--case", case, "--cache", str(cache)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--rounds", type=int, default=NUM_ROUNDS)
    parser.add_argument("--case", help="for the processes that this one starts")
    parser.add_argument("--cache", type=Path, default=Path())
    options = parser.parse_args()
    if options.case:
        print(json.dumps(train(options.folder, options.case, options.cache)))
        return
    if not options.folder.exists():
        print(f"not measured: there is no {options.folder}; give the folder with the four .gz files")
        return
    if find_spec("torchvision") is None:
        print("not measured: torchvision is not installed")
        return
    from results_file import write

    write("mnist", results=measure(options.folder, options.rounds))


if __name__ == "__main__":
    main()
