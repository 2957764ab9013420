"""The input side of a TensorDataset, batch 32: as written, with the best number of workers, and by whole batches.

`python benchmarks/tabular.py` writes `benchmarks/results/tabular-<device>.json`. Seconds a batch (medians over rounds;
the cases are measured in turn within each round). Nothing but the loader runs.
"""

import statistics
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from hotlap.data import batched
from results_file import write

NUM_ITEMS = 100_000
NUM_FEATURES = 16
BATCH_SIZE = 32
NUM_ROUNDS = 7
BATCHES_A_ROUND = 600


def batches(dataset: Any, num_workers: int) -> Iterator[Any]:
    settings: dict[str, Any] = {"num_workers": num_workers, "persistent_workers": num_workers > 0}
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True, **settings)
    while True:
        yield from loader


def seconds_each(source: Iterator[Any]) -> float:
    begun = perf_counter()
    for _ in range(BATCHES_A_ROUND):
        next(source)
    return (perf_counter() - begun) / BATCHES_A_ROUND


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    table = TensorDataset(torch.rand(NUM_ITEMS, NUM_FEATURES), torch.randint(0, 10, (NUM_ITEMS,)))
    cases = {
        "baseline": batches(table, 0),
        "1 worker": batches(table, 1),
        "2 workers": batches(table, 2),
        "batched": batches(batched(table), 0),
    }
    for source in cases.values():
        next(source)
    seen: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(NUM_ROUNDS):
        for name, source in cases.items():
            seen[name].append(seconds_each(source))
    plain = statistics.median(seen["baseline"])
    write(
        "tabular",
        results=[
            {"case": name, "batch_s": statistics.median(times), "speedup": plain / statistics.median(times)}
            for name, times in seen.items()
        ],
    )


if __name__ == "__main__":
    main()
