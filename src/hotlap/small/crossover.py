"""Whether a step is faster natively or with torch's own matrix products: measured once on this machine, and kept."""

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter

import torch

from hotlap.folders import cache_folder
from hotlap.small.native import core

ROUNDS = 5
ROUND_S = 0.004
"""Both sides take turns, so many rounds of this length; the best round of each counts."""

LEAST_PRODUCTS = 300_000
"""Multiplications of a forward below which torch's products cannot win: natively they take some 30 us with their
gradients."""

MARGIN = 0.97
"""torch has to need less than this part of the native time: at the crossover itself the native path stays."""


Both = tuple[Callable[[], object], Callable[[], object]]
"""The same work natively, and by torch."""


def kept_at() -> Path:
    """The file of what was measured, in the user's cache folder."""
    return cache_folder() / "crossover.json"


def size_of(rows: int) -> int:
    """Batches are told apart by powers of two."""
    return 1 << (rows - 1).bit_length()


def where() -> tuple[str, str, int]:
    """What every answer depends on."""
    return torch.__version__, core().variant, torch.get_num_threads()


def torch_is_faster(key: str, both: Callable[[], Both]) -> bool:
    """The answer for `key`, from the file, or measured now, on `both()`, and written there."""
    known = _read()
    if key not in known:
        native, by_torch = both()
        known[key] = _best_s(by_torch, native)
        _write(known)
    torch_s, native_s = known[key]
    return torch_s < MARGIN * native_s


def _best_s(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    for work in (one, other):
        work()
    rounds = [(_round_s(one), _round_s(other)) for _ in range(ROUNDS)]
    return min(a for a, _ in rounds), min(b for _, b in rounds)


def _round_s(work: Callable[[], object]) -> float:
    """Seconds for one, over a round."""
    start, count = perf_counter(), 0
    while (spent := perf_counter() - start) < ROUND_S or not count:
        work()
        count += 1
    return spent / count


def _read() -> dict[str, tuple[float, float]]:
    """What is known; a file that cannot be read is as good as none."""
    try:
        found = json.loads(kept_at().read_text())
        return {str(key): (float(pair[0]), float(pair[1])) for key, pair in found.items()}
    except (OSError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        return {}


def _write(known: dict[str, tuple[float, float]]) -> None:
    """All of it, in one move; where the folder cannot be written, it is measured again next time."""
    path = kept_at()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            file = Path(scratch) / path.name
            file.write_text(json.dumps(known, indent=1))
            file.replace(path)
