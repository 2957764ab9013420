"""Forked children and threads: the native core has no state that they could share by accident."""

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

from hotlap.native import core
from hotlap.small import CompiledStep, compile_step, odeint
from hotlap.small.updates import NativeUpdate

pytestmark = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")

X, Y = torch.randn(96, 6, generator=torch.Generator().manual_seed(0)), torch.arange(96) % 4


def made(seed: int) -> CompiledStep:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 4))
    return compile_step(net, nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=0.01))


def curve(step: CompiledStep) -> list[float]:
    generator = torch.Generator().manual_seed(5)
    return step.fit(X, Y, epochs=20, batch_size=16, generator=generator)


def wide(width: int) -> Callable[[], float]:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    step = compile_step(net, nn.MSELoss(), torch.optim.SGD(net.parameters(), lr=0.1))
    x, y = torch.ones(64, width), torch.zeros(64, width)
    return lambda: step.step(x, y)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("width", [16, 256])
def test_a_forked_child_goes_on_as_its_parent_does(width: int) -> None:
    """Also where the parent's threads, which are not in the child, had a part in its products."""
    step = wide(width)
    step()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os.write(writer, repr(step()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        said = told.read()
    assert os.waitpid(child, 0)[1] == 0
    assert float(said) == pytest.approx(step(), rel=1e-5)


def test_steps_in_threads_are_those_done_one_after_the_other() -> None:
    alone = [curve(made(seed)) for seed in range(6)]
    steps = [made(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(curve, steps))
    assert together == alone


def test_one_object_in_two_threads_is_refused_or_right_but_never_torn() -> None:
    step = made(1)

    def run(_: int) -> bool:
        try:
            return all(torch.isfinite(torch.tensor(step.fit(X, Y, epochs=3, batch_size=8, shuffle=False))))
        except RuntimeError as error:
            return "in use by another thread" in str(error)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(16)))


def test_solves_of_one_field_in_threads_are_those_alone() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 40), nn.Tanh(), nn.Linear(40, 3)).double()
    t = torch.linspace(0, 2, 30, dtype=torch.float64)
    starts = [torch.randn(3, dtype=torch.float64) for _ in range(12)]

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.net(y)
            return out

    field = Field()

    def gradient(y0: torch.Tensor) -> torch.Tensor:
        y0 = y0.clone().requires_grad_()
        (found,) = torch.autograd.grad(odeint(field, y0, t, rtol=1e-6, atol=1e-8).square().sum(), y0)
        return found

    alone = [gradient(y0) for y0 in starts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(gradient, starts))
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


# Of a machine on which many want a core, the other thread may get none while the work is done once.
_TRIES = 200


def counts_during(work: Callable[[], object]) -> bool:
    """Whether another thread of Python comes to its turn while `work` is done, again and again."""
    seen, over = [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            seen[0] += 1
            time.sleep(0)  # gives the lock away

    switch_s = sys.getswitchinterval()
    # Nobody takes the lock from who has it: the other thread counts only where it is given away.
    sys.setswitchinterval(600)
    counting = threading.Thread(target=count)
    try:
        counting.start()
        before, tries = seen[0], 0
        while seen[0] == before and tries < _TRIES:
            work()
            tries += 1
        counts = seen[0] > before
    finally:
        over.set()
        sys.setswitchinterval(switch_s)
        counting.join()
    return counts


def test_other_threads_go_on_during_a_long_step() -> None:
    net = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 256))
    step = compile_step(net, nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=0.01))
    x, y = torch.zeros(4096, 256), torch.zeros(4096, 256)
    step.step(x, y)
    assert counts_during(lambda: step.step(x, y))


def test_other_threads_go_on_during_a_long_update() -> None:
    weight = nn.Parameter(torch.zeros(4_000_000))
    weight.grad = torch.zeros_like(weight)
    optimizer = torch.optim.Adam([weight])
    update = NativeUpdate(optimizer)
    assert counts_during(update.step)


WIDE = """
import os, torch
from torch import nn
from hotlap.small import compile_step
torch.set_num_threads(2)
for width in (16, 256):
    net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    step = compile_step(net, nn.MSELoss(), torch.optim.SGD(net.parameters(), lr=0.1))
    step.step(torch.zeros(64, width), torch.zeros(64, width))
    print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.processes
@pytest.mark.skipif(
    platform.machine() != "x86_64" or not Path("/proc/self/task").exists(),
    reason="not MKL, or no threads to count here",
)
def test_the_products_of_wide_layers_take_torchs_threads() -> None:
    done = subprocess.run([sys.executable, "-c", WIDE], check=True, capture_output=True, text=True)
    small, wide = map(int, done.stdout.split())
    assert wide == small + 1
