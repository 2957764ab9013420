"""A batch out of `hotlap.data.cached` against the raw gather, the machine's memory, and the data set as written.

`python benchmarks/gather.py` writes `benchmarks/results/gather-<device>.json`. Times are seconds a batch (medians);
each kind is measured in turn within each round, so that a busy moment of the machine hits all of them.
"""

import statistics
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import results_file
from hotlap.data import cached

NUM_ITEMS = 60_000
NUM_ROUNDS = 7
BATCHES_A_ROUND = 200


class Decoded(Dataset[Any]):
    """28x28 bytes -> PIL image -> float tensor in [0, 1] and a label: what torchvision's MNIST does with ToTensor."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        self.images = draw.integers(0, 256, (NUM_ITEMS, 28, 28), dtype=np.uint8)
        self.labels = draw.integers(0, 10, NUM_ITEMS).tolist()

    def __len__(self) -> int:
        return NUM_ITEMS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        from PIL import Image

        image = Image.fromarray(self.images[index])
        pixels = torch.from_numpy(np.array(image, copy=True)).unsqueeze(0)
        return pixels.to(torch.float32).div(255), self.labels[index]


def batches(dataset: Any, batch_size: int) -> Iterator[Any]:
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
    while True:
        yield from loader


def seconds_each(action: Callable[[], object], num_times: int) -> float:
    """Wall time of one call."""
    return both_seconds_each(action, num_times)[0]


def both_seconds_each(action: Callable[[], object], num_times: int) -> tuple[float, float]:
    """(wall time, time on a processor in all threads) of one call; the second says what a busy machine hides."""
    started, started_cpu = perf_counter(), process_time()
    for _ in range(num_times):
        action()
    return (perf_counter() - started) / num_times, (process_time() - started_cpu) / num_times


def raw_gather(images: torch.Tensor, labels: torch.Tensor, batch_size: int) -> Callable[[], object]:
    """The two gathers alone, indices at hand."""
    order: Iterator[torch.Tensor] = iter(())

    def gather() -> object:
        nonlocal order
        index = next(order, None)
        if index is None or len(index) < batch_size:
            order = iter(torch.split(torch.randperm(NUM_ITEMS), batch_size))
            index = next(order)
        return images.index_select(0, index), labels.index_select(0, index)

    return gather


def copy_bytes_per_s() -> float:
    """Reading and writing 256 MiB: what a copy can do at best on one core."""
    source = torch.ones(1 << 26)
    target = torch.empty_like(source)
    target.copy_(source)
    size = 2 * source.numel() * source.element_size()
    return size / min(seconds_each(lambda: target.copy_(source), 1) for _ in range(5))


def measure(batch_size: int) -> dict[str, float | int]:
    dataset = Decoded()
    kept = cached(dataset)
    started = perf_counter()
    for _ in DataLoader(kept, batch_size=batch_size, shuffle=True):
        pass
    fill_s = (perf_counter() - started) / -(-NUM_ITEMS // batch_size)
    assert kept.full, kept.note
    plain, warm = batches(dataset, batch_size), batches(kept, batch_size)
    gather = raw_gather(torch.rand(NUM_ITEMS, 1, 28, 28), torch.tensor(dataset.labels), batch_size)
    rounds = [
        (
            *both_seconds_each(lambda: next(plain), BATCHES_A_ROUND // 10),
            *both_seconds_each(lambda: next(warm), BATCHES_A_ROUND),
            *both_seconds_each(gather, BATCHES_A_ROUND),
        )
        for _ in range(NUM_ROUNDS)
    ]
    medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
    plain_s, plain_cpu_s, warm_s, warm_cpu_s, raw_s, raw_cpu_s = medians
    # Each byte of a batch is read once and written once.
    moved_bytes = 2 * batch_size * (28 * 28 * 4 + 8)
    return {
        "batch_size": batch_size,
        "plain_s": plain_s,
        "plain_cpu_s": plain_cpu_s,
        "fill_s": fill_s,
        "cached_s": warm_s,
        "cached_cpu_s": warm_cpu_s,
        "raw_gather_s": raw_s,
        "raw_gather_cpu_s": raw_cpu_s,
        "speedup": plain_s / warm_s,
        "cached_over_raw": warm_s / raw_s,
        "cached_bytes_per_s": moved_bytes / warm_s,
    }


def main() -> None:
    # One thread: with two, a busy second core decides what is measured.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = [measure(batch_size) for batch_size in (32, 64, 256)]
    copy = copy_bytes_per_s()
    for row in results:
        row["share_of_copy"] = row["cached_bytes_per_s"] / copy
    results_file.write("gather", threads=torch.get_num_threads(), copy_bytes_per_s=copy, results=results)


if __name__ == "__main__":
    main()
