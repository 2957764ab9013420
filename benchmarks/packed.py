"""Formats for data sets that were computed once: which of them gives the very same items, in any order, and how soon.

`python benchmarks/packed.py [FOLDER]` (with photographs somewhere below it) writes
`benchmarks/results/packed-<device>.json`. Two data sets: photographs decoded and brought to 224 x 224, and rows of 16
numbers with a label. Each format that is installed here writes them once; then all are read in turn within each round,
in order and shuffled, in one process and with the files in the page cache. `hotlap` is `hotlap.data.packed`; the others
(`datasets`, `litdata`, `webdataset`) read what they wrote with their own means; of `ffcv` it is only said whether it is
installed, for it has a loader of its own and no items. What a format gives is made a (tensor, int) where it is
something else, and compared bit for bit.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

# Beside the project, where its data lie.
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "clothing"

SIZE = 224
NUM_FEATURES = 16
NUM_ROUNDS = 5
NUM_PHOTOGRAPHS, NUM_ROWS = 500, 20_000
READ_A_ROUND = {"photographs": 200, "rows": 2_000}


class Photographs(Dataset[Any]):
    def __init__(self, folder: Path, num_items: int) -> None:
        self.files = sorted(folder.rglob("*.jpg"))[:num_items]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        from PIL import Image

        with Image.open(self.files[index]) as file:
            picture = file.convert("RGB").resize((SIZE, SIZE))
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous(), index % 10


class Rows(Dataset[Any]):
    def __init__(self, num_items: int) -> None:
        self.values = torch.rand(num_items, NUM_FEATURES, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        return self.values[index].clone(), index % 10


def dataset_of(name: str, folder: Path, num_items: int) -> Any:
    return Photographs(folder, num_items) if name == "photographs" else Rows(num_items)


class Reader:
    """What was written, open for reading: items in order, and by number where the format can."""

    in_order: Callable[[], Iterable[Any]]
    by_number: Callable[[int], Any] | None = None


def computed(dataset: Any, folder: Path) -> Reader:
    reader = Reader()
    reader.by_number = dataset.__getitem__
    reader.in_order = lambda: (dataset[number] for number in range(len(dataset)))
    return reader


def with_hotlap(dataset: Any, folder: Path) -> Reader:
    from hotlap.data import pack, packed

    pack(dataset, folder / "hotlap", verify=1)
    found = packed(folder / "hotlap")
    reader = Reader()
    reader.by_number = found.__getitem__
    reader.in_order = lambda: iter(found)
    return reader


def with_datasets(dataset: Any, folder: Path) -> Reader:
    # Nothing is to be fetched, and nothing kept outside of the scratch folder.
    os.environ.update(HF_DATASETS_CACHE=str(folder / "hf"), HF_HOME=str(folder / "hf"), HF_HUB_OFFLINE="1")
    datasets: Any = import_module("datasets")
    datasets.disable_progress_bars()
    values, _ = dataset[0]
    kind = str(values.dtype).removeprefix("torch.")
    flat = datasets.Sequence(datasets.Value(kind), length=values.numel())

    def items() -> Iterable[Any]:
        for number in range(len(dataset)):
            one, label = dataset[number]
            yield {"values": one.flatten().numpy(), "label": label}

    features = datasets.Features({"values": flat, "label": datasets.Value("int64")})
    made = datasets.Dataset.from_generator(items, features=features, cache_dir=str(folder / "hf"))
    made.save_to_disk(str(folder / "datasets"))
    shutil.rmtree(folder / "hf", ignore_errors=True)
    # Unless it is told, its arrays of whole numbers are int64 (datasets/formatting/np_formatter.py).
    found = datasets.load_from_disk(str(folder / "datasets")).with_format("numpy", dtype=values.numpy().dtype)

    def item(row: Any) -> Any:
        return torch.from_numpy(row["values"].reshape(values.shape)), int(row["label"])

    reader = Reader()
    reader.by_number = lambda number: item(found[number])
    reader.in_order = lambda: map(item, found)
    return reader


def with_litdata(dataset: Any, folder: Path) -> Reader:
    # It writes with processes of its own, which import this file.
    asked = {"kind": type(dataset).__name__, "num": len(dataset), "to": str(folder / "litdata")}
    if isinstance(dataset, Photographs):
        asked["files"] = [str(path) for path in dataset.files]
    command = [sys.executable, __file__, "--litdata", json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise SystemExit(done.stderr)
    found = import_module("litdata").StreamingDataset(str(folder / "litdata"))
    reader = Reader()
    reader.by_number = lambda number: tuple(found[number])
    reader.in_order = lambda: map(tuple, found)
    return reader


def write_litdata(asked: dict[str, Any]) -> None:
    dataset: Any = Rows(asked["num"])
    if asked["kind"] == "Photographs":
        dataset = Photographs(Path(), 0)
        dataset.files = [Path(name) for name in asked["files"]]
    import_module("litdata").optimize(
        fn=dataset.__getitem__,
        inputs=list(range(asked["num"])),
        output_dir=asked["to"],
        chunk_bytes="64MB",
        num_workers=1,
        keep_data_ordered=True,
    )


def with_webdataset(dataset: Any, folder: Path) -> Reader:
    webdataset: Any = import_module("webdataset")
    (folder / "webdataset").mkdir()
    path = str(folder / "webdataset" / "items.tar")
    with webdataset.TarWriter(path) as tar:
        for number in range(len(dataset)):
            values, label = dataset[number]
            tar.write({"__key__": f"{number:08d}", "values.npy": values.numpy(), "label.cls": label})

    def item(sample: Any) -> Any:
        return torch.from_numpy(sample["values.npy"]), sample["label.cls"]

    reader = Reader()
    reader.in_order = lambda: map(item, webdataset.WebDataset(path, shardshuffle=False, empty_check=False).decode())
    return reader


FORMATS: dict[str, tuple[str, Callable[[Any, Path], Reader]]] = {
    "as computed": ("torch", computed),
    "hotlap": ("pyarrow", with_hotlap),
    "datasets": ("datasets", with_datasets),
    "litdata": ("litdata", with_litdata),
    "webdataset": ("webdataset", with_webdataset),
}


def rate_in_order(reader: Reader, num_items: int) -> float:
    begun, count = perf_counter(), 0
    for _ in reader.in_order():
        count += 1
        if count == num_items:
            break
    return count / (perf_counter() - begun)


def rate_shuffled(reader: Reader, numbers: list[int]) -> float | None:
    if reader.by_number is None:
        return None
    begun = perf_counter()
    for number in numbers:
        reader.by_number(number)
    return len(numbers) / (perf_counter() - begun)


def same_items(reader: Reader, dataset: Any) -> bool:
    from hotlap.data.items import same

    return all(same(found, dataset[number]) for number, found in enumerate(reader.in_order()))


def measure(name: str, dataset: Any, scratch: Path, num_rounds: int) -> list[dict[str, Any]]:
    readers: dict[str, Reader] = {}
    written: dict[str, tuple[float, int]] = {}
    for form, (module, make) in FORMATS.items():
        if find_spec(module) is None:
            print(f"{form}: not installed")
            continue
        before, begun = num_bytes(scratch), perf_counter()
        readers[form] = make(dataset, scratch)
        written[form] = perf_counter() - begun, num_bytes(scratch) - before
    same = {form: same_items(reader, dataset) for form, reader in readers.items()}
    in_order: dict[str, list[float]] = {form: [] for form in readers}
    shuffled: dict[str, list[float]] = {form: [] for form in readers}
    count = min(len(dataset), READ_A_ROUND[name])
    for number in range(num_rounds):
        numbers = random.Random(number).sample(range(len(dataset)), count)
        for form, reader in readers.items():
            in_order[form].append(rate_in_order(reader, count))
            rate = rate_shuffled(reader, numbers)
            if rate is not None:
                shuffled[form].append(rate)
    plain = shuffled["as computed"]
    return [
        {
            "data": name,
            "format": form,
            "write_s": None if form == "as computed" else written[form][0],
            "item_bytes": None if form == "as computed" else written[form][1] / len(dataset),
            "in_order_items_per_s": statistics.median(in_order[form]),
            "shuffled_items_per_s": statistics.median(shuffled[form]) if shuffled[form] else None,
            "over_computed": ratio(shuffled[form], plain),
            "same_items": same[form],
        }
        for form in readers
    ]


def ratio(rates: list[float], plain: list[float]) -> float | None:
    """Median of the rounds' own ratios."""
    return statistics.median(one / other for one, other in zip(rates, plain, strict=True)) if rates else None


def num_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--rounds", type=int, default=NUM_ROUNDS)
    parser.add_argument("--photographs", type=int, default=NUM_PHOTOGRAPHS)
    parser.add_argument("--rows", type=int, default=NUM_ROWS)
    parser.add_argument("--litdata", help="for the process that this one starts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.litdata:
        write_litdata(json.loads(options.litdata))
        return
    results = []
    for name, wanted in (("photographs", options.photographs), ("rows", options.rows)):
        dataset = dataset_of(name, options.folder, wanted)
        if not len(dataset):
            print(f"not measured: there are no photographs below {options.folder}")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            results += measure(name, dataset, Path(scratch), options.rounds)
    from results_file import write

    installed = {module: find_spec(module) is not None for module in ("datasets", "litdata", "webdataset", "ffcv")}
    write("packed", results=results, installed=installed, rounds=options.rounds)


if __name__ == "__main__":
    main()
