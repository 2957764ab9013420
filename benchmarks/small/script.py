"""What `native_steps()` leaves to gain in a script: an MNIST perceptron's step, with torch's and with our parts.

`python benchmarks/small/script.py` writes benchmarks/results/small-script.json. 784-128-10, batch 64, Adam, float32;
each batch is another one, so it comes from memory as a loader's would. All contenders take turns, switched in one
process, on one thread and on all of torch's. Then where a step under `native_steps()` goes, on one thread: each of the
script's lines, and what of it is in native calls, beside a step of `compile_step` in turn (small-script-parts.json);
and the same of 3-100-3 with one row, whose data leave Python's in the caches.
"""

import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contender, contest, save, write

from hotlap.levers import Patch
from hotlap.small import compile_step
from hotlap.small.losses import NativeLoss
from hotlap.small.network import Network
from hotlap.small.script_steps import Parts, known_steps

BATCH_SIZE, NUM_BATCHES, NUM_STEPS = 64, 256, 4000

Rows = list[dict[str, Any]]


def job() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """(model, images, labels); labels that can be learned, so that no unit dies."""
    torch.manual_seed(0)
    images = torch.rand(NUM_BATCHES, BATCH_SIZE, 784)
    labels = images.reshape(NUM_BATCHES, BATCH_SIZE, 14, 56).mean(3)[:, :, :10].argmax(2)
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), images, labels


def loop(threads: int, *, parts: Parts | None = None, fused: bool = False) -> Contender:
    """The script's own loop; `parts` of it natively."""
    model, images, labels = job()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=fused)
    loss = nn.CrossEntropyLoss()

    def run(n: int) -> None:
        torch.set_num_threads(threads)
        patch = Patch()
        if parts is not None:
            known_steps().install(patch.set, parts)
        for step in range(n):
            optimizer.zero_grad()
            loss(model(images[step % NUM_BATCHES]), labels[step % NUM_BATCHES]).backward()
            optimizer.step()
        patch.undo()

    return run


def compiled(threads: int) -> Contender:
    """The bound: no autograd, no loss of torch's."""
    model, images, labels = job()
    step = compile_step(model, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=1e-4))

    def run(n: int) -> None:
        torch.set_num_threads(threads)
        for number in range(n):
            step.step(images[number % NUM_BATCHES], labels[number % NUM_BATCHES])

    return run


class Timed:
    """A native object whose calls are timed."""

    def __init__(self, native: Any) -> None:
        self.native = native

    def __getattr__(self, name: str) -> Any:
        return partial(in_native, getattr(self.native, name))


native_s: list[float] = []
"""What each native call took."""


def in_native(call: Callable[..., Any], *args: Any) -> Any:
    begun = perf_counter()
    result = call(*args)
    native_s.append(perf_counter() - begun)
    return result


@contextmanager
def natively() -> Iterator[None]:
    """native_steps() at work, its calls into the core timed."""
    fill, lease = NativeLoss.fill, Network.lease

    def timed_lease(network: Network, input_gradient: bool) -> Any:
        leased = lease(network, input_gradient)
        if type(leased.native) is not Timed:
            leased.native = Timed(leased.native)
        return leased

    patch = Patch()
    known_steps().install(patch.set, "all")
    patch.set(NativeLoss, "fill", lambda *args: in_native(fill, *args))
    patch.set(Network, "lease", timed_lease)
    yield
    patch.undo()


def parts(name: str, model: nn.Module, loss: nn.Module, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> Rows:
    """Median seconds of each line of a step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    twin = deepcopy(model)
    compiled = compile_step(twin, loss, torch.optim.Adam(twin.parameters(), lr=1e-4))
    seconds: dict[str, list[tuple[float, float]]] = {}

    def line(what: str, run: Callable[[], Any]) -> Any:
        native_s.clear()
        begun = perf_counter()
        result = run()
        seconds.setdefault(what, []).append((perf_counter() - begun, sum(native_s)))
        return result

    with natively():
        for number in range(NUM_STEPS):
            x, y = batches[number % len(batches)]
            line("optimizer.zero_grad()", optimizer.zero_grad)
            prediction = line("model(x)", lambda x=x: model(x))
            value = line("criterion(...)", lambda p=prediction, y=y: loss(p, y))
            line("loss.backward()", value.backward)
            line("optimizer.step()", optimizer.step)
            del prediction, value
            if not number:  # it was made by the first step
                update: Any = known_steps()._updates.get(optimizer)
                update._optimizer.native = Timed(update._optimizer.native)
            x, y = batches[(number + len(batches) // 2) % len(batches)]
            line("compile_step", lambda x=x, y=y: in_native(compiled.step, x, y))
    rows = []
    for what, times in seconds.items():
        whole, native = (statistics.median(column) for column in zip(*times[NUM_STEPS // 10 :], strict=True))
        rows.append({"job": name, "line": what, "median_s": whole, "native_s": native, "beside_s": whole - native})
    print(*rows, sep="\n")
    return rows


def makers(threads: int) -> dict[str, Callable[[], Contender]]:
    return {
        "torch": partial(loop, threads),
        "torch, fused Adam": partial(loop, threads, fused=True),
        "native_steps()": partial(loop, threads, parts="all"),
        'native_steps("model")': partial(loop, threads, parts="model"),
        'native_steps("optimizer")': partial(loop, threads, parts="optimizer"),
        "compile_step": partial(compiled, threads),
    }


def lines() -> None:
    """Where a step goes."""
    torch.set_num_threads(1)
    model, images, labels = job()
    small = nn.Sequential(nn.Linear(3, 100), nn.Tanh(), nn.Linear(100, 3))
    rows = parts("784-128-10, batch 64", model, nn.CrossEntropyLoss(), list(zip(images, labels, strict=True)))
    rows += parts("3-100-3, batch 1", small, nn.MSELoss(), [(torch.randn(1, 3), torch.randn(1, 3))])
    write("small-script-parts", rows, f"one thread; medians of {NUM_STEPS} steps")


def main() -> None:
    all_threads = torch.get_num_threads()
    lines()
    results = {
        f"{threads} thread{'s' * (threads > 1)}": contest(makers(threads), rounds=15, seconds=0.1)
        for threads in sorted({1, all_threads})
    }
    save("small-script", results, "other work ran on the machine meanwhile: read the ratios, and the least times")


if __name__ == "__main__":
    main()
