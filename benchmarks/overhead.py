"""What does measuring cost a step? The same training plain, under hotlap's probe, torch.profiler and TraceML.

In one process each, a tool and the plain training take turns in blocks, in serpentine order (A B, B A, ...), and the
first steps of a block are thrown away, so that the switch itself is not counted. A process a tool, because patches and
background threads of one would stay during the blocks of another. Five networks, from a fraction of a millisecond to
some tenths of a second a step; each gets the same time, so that short steps, whose costs are small, are looked at in
more blocks. TraceML takes part where it is installed (`pip install traceml-ai nvidia-ml-py`). torch.profiler records
what it does by default (operators, no stacks, no shapes); what it gathered is thrown away at the end of a block,
outside of the time. HOTLAP_DEVICE is the device that it trains on ("cpu" without it).

Two costs are told. `cost_s` is what a typical step takes longer, by the medians of a block's steps: others' work on the
machine, which comes in bursts, hardly moves it. It would not see what happens in few steps only; of hotlap, whose
bookkeeping between steps is such a thing (it reads thousands of steps at once, in few blocks), the time of that is
added in full, by all steps so far, though the median may hold it already.
`mean_cost_s` is the difference of the blocks' means, bursts included.
"""

import argparse
import contextlib
import math
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import results_file
from hotlap.levers import Patch
from hotlap.probe import hooks
from hotlap.probe.session import Session
from hotlap.record import Plan

DEVICE = os.environ.get("HOTLAP_DEVICE", "cpu")

# (name, widths of the network, batch)
MODELS = {
    "linear 10-10, batch 8": ([10, 10], 8),
    "MLP 784-128-10, batch 64": ([784, 128, 10], 64),
    "MLP 784-512-512-10, batch 256": ([784, 512, 512, 10], 256),
    "10 layers of 512, batch 256": ([512] * 11, 256),
    "10 layers of 1024, batch 512": ([1024] * 11, 512),
}

# A block lasts about so long, within these numbers of steps.
BLOCK_S, FEWEST, MOST = 0.1, 4, 200
# A network and a tool last about so long, within these numbers of rounds; with a tool that makes a round last for
# seconds, three times as long, and a quarter of the rounds.
LASTS_S, FEWEST_ROUNDS, MOST_ROUNDS = 30.0, 16, 256

# The probe looks closer at the first steps of a run; a training has many more, so these are made once.
SETTLED = 60

# Makes so many steps.
Tool = Callable[["Training", int], "Block"]

_SERVE = "from traceml_ai.launcher.cli import main; main()"


@dataclass
class Training:
    """An ordinary loop over a DataLoader."""

    sizes: list[int]
    batch: int

    def __post_init__(self) -> None:
        layers: list[nn.Module] = []
        for width, after in pairwise(self.sizes):
            layers += [nn.Linear(width, after), nn.ReLU()]
        self.model = nn.Sequential(*layers).to(DEVICE)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        data = TensorDataset(torch.randn(16 * self.batch, self.sizes[0]), torch.randn(16 * self.batch, self.sizes[-1]))
        self.loader = DataLoader(data, batch_size=self.batch, shuffle=True)
        self.batches = self._forever()

    def _forever(self) -> Iterator[Any]:
        while True:
            yield from self.loader

    def steps(self, number: int, around: Callable[[nn.Module], Any] | None = None) -> list[float]:
        """Seconds of each step, the loader included."""
        loss_fn = nn.functional.mse_loss
        ends = [time.perf_counter()]
        for _ in range(number):
            x, y = (part.to(DEVICE) for part in next(self.batches))
            with around(self.model) if around else contextlib.nullcontext():
                self.optimizer.zero_grad()
                loss = loss_fn(self.model(x), y)
                loss.backward()
                self.optimizer.step()
            loss.item()
            ends.append(time.perf_counter())
        return [end - begin for begin, end in pairwise(ends)]


@dataclass(frozen=True, slots=True)
class Block:
    """Seconds of a step: of a typical one, with what a tool does between the steps now and then; and in the mean."""

    typical_s: float
    mean_s: float


def block_of(steps: list[float], rare_s: float = 0.0) -> Block:
    """`rare_s`: seconds a step that few steps bear."""
    return Block(statistics.median(steps) + rare_s, statistics.mean(steps))


def plain(training: Training, block: int) -> Block:
    training.steps(FEWEST)
    return block_of(training.steps(block))


class Hotlap:
    """One session for all blocks; its hooks are there only during its own."""

    def __init__(self, training: Training) -> None:
        self._out = tempfile.TemporaryDirectory()
        self._session = Session(Plan(command=("x",), cwd=".", out=self._out.name, steps=10**8, warmup=0))
        patch = Patch()
        hooks.install(self._session, patch)
        training.steps(SETTLED)
        patch.undo()
        self._settled_s = self._session.own_s

    def __call__(self, training: Training, block: int) -> Block:
        patch = Patch()
        hooks.install(self._session, patch)
        try:
            training.steps(FEWEST)
            steps = training.steps(block)
            return block_of(steps, (self._session.own_s - self._settled_s) / (self._session.steps - SETTLED))
        finally:
            patch.undo()


def under_torch_profiler(training: Training, block: int) -> Block:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        training.steps(FEWEST)
        return block_of(training.steps(block))


def under_traceml(training: Training, block: int) -> Block:
    import traceml_ai

    training.steps(FEWEST, traceml_ai.trace_step)
    return block_of(training.steps(block, traceml_ai.trace_step))


@contextlib.contextmanager
def traceml_service() -> Iterator[bool]:
    """Starts what TraceML needs; False where it, or a package that it needs, is not installed."""
    try:
        import traceml_ai
        from traceml_ai.runtime import lifecycle  # noqa: F401 - what `init` imports, and needs pynvml
    except ImportError as error:
        print(f"without TraceML: {error}", file=sys.stderr)
        yield False
        return
    with socket.socket() as free, tempfile.TemporaryDirectory() as logs:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        service = subprocess.Popen(
            [sys.executable, "-c", _SERVE, "serve", "--aggregator-port", str(port)],
            cwd=logs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            traceml_ai.init(aggregator_port=port, logs_dir=logs, connect_timeout_sec=30, on_missing_aggregator="raise")
            yield True
        finally:
            service.terminate()
            service.wait()


def measure(name: str, begin: Callable[[Training], Tool]) -> list[tuple[Block, Block]]:
    """Neighbouring blocks: (plain, with the tool)."""
    training = Training(*MODELS[name])
    training.steps(20)
    tool = begin(training)
    block = max(FEWEST, min(MOST, round(BLOCK_S / statistics.median(training.steps(10)))))
    found = []
    begun = time.perf_counter()
    for k in range(MOST_ROUNDS):
        lasted_s = time.perf_counter() - begun
        if lasted_s > (LASTS_S if k >= FEWEST_ROUNDS else 3 * LASTS_S) and k >= FEWEST_ROUNDS // 4:
            break
        pair = {arm: arm(training, block) for arm in ((plain, tool) if k % 2 == 0 else (tool, plain))}
        found.append((pair[plain], pair[tool]))
    return found


def between(differences: list[float]) -> tuple[float, float, float]:
    """Their median, and its 95% interval from their quartiles: (low, mid, high)."""
    low, mid, high = statistics.quantiles(differences, n=4)
    half = 1.96 * 1.2533 * (high - low) / 1.349 / math.sqrt(len(differences))
    return mid - half, mid, mid + half


def row(name: str, tool: str, found: list[tuple[Block, Block]]) -> dict[str, Any]:
    """What the tool costs a step."""
    low, mid, high = between([with_it.typical_s - base.typical_s for base, with_it in found])
    mean_low, mean_mid, mean_high = between([with_it.mean_s - base.mean_s for base, with_it in found])
    step_s = statistics.median(base.typical_s for base, _ in found)
    return {
        "model": name,
        "tool": tool,
        "step_s": step_s,
        "cost_s": mid,
        "low_s": low,
        "high_s": high,
        "cost_percent": 100 * mid / step_s,
        "mean_cost_s": mean_mid,
        "mean_low_s": mean_low,
        "mean_high_s": mean_high,
        "rounds": len(found),
    }


def claim(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "claim": f"{found['tool']}, per step of {1e3 * found['step_s']:.2g} ms ({found['model']})",
        "mid": 1e6 * found["cost_s"],
        "low": 1e6 * found["low_s"],
        "high": 1e6 * found["high_s"],
        "unit": " us",
    }


TOOLS: dict[str, Callable[[Training], Tool]] = {
    "hotlap": Hotlap,
    "torch.profiler": lambda _: under_torch_profiler,
    "TraceML": lambda _: under_traceml,
}


def of_tool(tool: str, threads: int | None) -> list[dict[str, Any]]:
    """A row for each network; none where the tool is not installed. Runs in a process of its own."""
    if threads:
        torch.set_num_threads(threads)
    with traceml_service() if tool == "TraceML" else contextlib.nullcontext(True) as present:
        return [row(name, tool, measure(name, TOOLS[tool])) for name in MODELS] if present else []


def main() -> None:
    """One row a network and tool."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=None, help="torch's threads (default: torch's own choice)")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS), help="default: all")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for tool in args.tools:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            found = process.apply(of_tool, (tool, args.threads))
        rows += found
        for one in found:
            print(
                f"{one['model']:32s} {one['tool']:15s} {1e3 * one['step_s']:8.2f} ms "
                f"{claim(one)['mid']:9.1f} us [{claim(one)['low']:.1f}, {claim(one)['high']:.1f}]"
            )
        rows.sort(key=lambda one: list(MODELS).index(one["model"]))
        # After each tool: a run that is cut off keeps what it has.
        results_file.write(
            "overhead",
            threads=args.threads or torch.get_num_threads(),
            environment={"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS")},
            results=rows,
            claims=[claim(one) for one in rows],
        )


if __name__ == "__main__":
    main()
