"""Products of a matrix and a vector, and the step of a tiny network. Asked by hotlap.lab.launch_floor."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from hotlap.lab.child import Work, answer, timed
from hotlap.lab.launch_floor import GPU, GRAPH, NUMPY, SMALL, SMALL_STEP, TORCH, TORCH_STEP, Answer, Question
from hotlap.predict import trace
from hotlap.record import encode
from hotlap.small import compile_step
from hotlap.small.native import core
from hotlap.small.trace import trace_model

# Calls in one CUDA graph: launching the graph itself is spread over them.
_IN_A_GRAPH = 100


def main(question: Question) -> Answer:
    """Time them."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    found: dict[str, list[tuple[float, ...]]] = {}
    for rows, columns in question.shapes:
        for times in _shape(rows, columns, question, on_gpu=gpu is not None):
            for way, seconds in times.items():
                found.setdefault(way, []).append(seconds)
    steps, workload = _steps(question, on_gpu=gpu is not None)
    return Answer(
        gpu=gpu,
        times={way: tuple(times) for way, times in found.items()},
        steps=steps,
        workload=workload,
        threads=torch.get_num_threads(),
        not_native=core().why_not,
    )


def _shape(rows: int, columns: int, question: Question, *, on_gpu: bool) -> list[dict[str, tuple[float, ...]]]:
    found = [timed(_on_cpu(rows, columns), rounds=question.rounds, round_s=question.round_s)]
    if on_gpu:
        a, x = torch.randn(rows, columns, device="cuda"), torch.randn(columns, device="cuda")
        works = {GPU: lambda: torch.mv(a, x), GRAPH: _replayed(lambda: torch.mv(a, x))}
        times = timed(works, rounds=question.rounds, round_s=question.round_s)
        found.append({GPU: times[GPU], GRAPH: tuple(one / _IN_A_GRAPH for one in times[GRAPH])})
    return found


def _on_cpu(rows: int, columns: int) -> dict[str, Work]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((rows, columns), dtype=np.float32)
    x = rng.standard_normal(columns, dtype=np.float32)
    b, y = torch.from_numpy(a), torch.from_numpy(x)
    works: dict[str, Work] = {NUMPY: lambda: a @ x, TORCH: lambda: torch.mv(b, y)}
    native = _native(b, y)
    return works | ({SMALL: native} if native is not None else {})


def _native(a: torch.Tensor, x: torch.Tensor) -> Work | None:
    """The same as a layer without bias, run by the native core; None without one."""
    if core().module is None:
        return None
    layer = nn.Linear(a.shape[1], a.shape[0], bias=False)
    with torch.no_grad():
        layer.weight.copy_(a)
    program = trace_model(layer)
    net = core().module.NetFloat32(*program.description(), False)
    out = torch.empty(a.shape[0])
    held = (layer, x, out)  # the core knows addresses only
    from_, to = x.data_ptr(), out.data_ptr()

    def call(_held: Any = held) -> None:
        net.forward(from_, 1, to)

    call()
    expected = torch.mv(a, x)
    if not torch.allclose(out, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max())):
        raise RuntimeError("the native core's product is wrong")
    return call


def _replayed(work: Work) -> Work:
    new_stream: Any = torch.cuda.Stream
    stream = new_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_IN_A_GRAPH):
            work()
    return graph.replay


def _steps(question: Question, *, on_gpu: bool) -> tuple[dict[str, tuple[float, ...]], str]:
    """Seconds of a training step by way, and what it does."""
    eager, parameters, batch = _eager("cpu")
    eager()
    work = trace.record(eager, parameters=parameters, batch=batch, name="3-100-3")
    works: dict[str, Work] = {TORCH_STEP: eager}
    if core().module is not None:
        works[SMALL_STEP] = _small()
    if on_gpu:
        works[GPU] = _eager("cuda")[0]
    found = timed(works, rounds=question.rounds, round_s=question.round_s)
    # The host's part of an operator there is what it is here, where arithmetic is nothing.
    work = replace(work, host_s=min(found[TORCH_STEP]) / work.num_kernels)
    return found, encode(work).decode()


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 100), nn.Tanh(), nn.Linear(100, 3))


def _eager(device: str) -> tuple[Callable[[], None], list[torch.Tensor], list[torch.Tensor]]:
    net = _net().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    x, y = torch.randn(1, 3, device=device), torch.randn(1, 3, device=device)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step, list(net.parameters()), [x, y]


def _small() -> Work:
    net = _net()
    step = compile_step(net, nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=1e-3))
    x, y = torch.randn(1, 3), torch.randn(1, 3)
    return lambda: step.step(x, y)


if __name__ == "__main__":
    answer(Question, main)
