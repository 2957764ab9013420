"""Matrix products in NumPy, in torch on the CPU, on the GPU with and without copies. Asked by hotlap.lab.transfer."""

import numpy as np
import torch

from hotlap.lab.child import Work, answer, timed
from hotlap.lab.transfer import GPU, NUMPY, PAGEABLE, PINNED, TORCH, Answer, Question

# So small that all of its time is dispatching.
_SMALL = 8


def main(question: Question) -> Answer:
    """Time them."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    found: dict[str, list[tuple[float, ...]]] = {}
    for side in question.sides:
        works = _on_cpu(side) | (_on_gpu(side) if gpu else {})
        for way, seconds in timed(works, rounds=question.rounds, round_s=question.round_s).items():
            found.setdefault(way, []).append(seconds)
    a, out = torch.ones(_SMALL, _SMALL), torch.empty(_SMALL, _SMALL)
    call = timed({"call": lambda: torch.mm(a, a, out=out)}, rounds=5, round_s=0.005)["call"]
    times = {way: tuple(times) for way, times in found.items()}
    return Answer(gpu=gpu, times=times, call_s=min(call), threads=torch.get_num_threads())


def _on_cpu(side: int) -> dict[str, Work]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((side, side), dtype=np.float32) for _ in range(2))
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    return {NUMPY: lambda: a @ b, TORCH: lambda: x @ y}


def _on_gpu(side: int) -> dict[str, Work]:
    here = [torch.randn(side, side) for _ in range(2)]
    pinned = [one.pin_memory() for one in here]
    back = torch.empty(side, side, pin_memory=True)
    x, y = (one.to("cuda") for one in here)

    def with_copies() -> None:
        (here[0].to("cuda") @ here[1].to("cuda")).cpu()

    def with_pinned_copies() -> None:
        a, b = (one.to("cuda", non_blocking=True) for one in pinned)
        back.copy_(a @ b, non_blocking=True)
        # The result is needed before the next product, as it is with pageable memory.
        torch.cuda.current_stream().synchronize()

    return {GPU: lambda: x @ y, PAGEABLE: with_copies, PINNED: with_pinned_copies}


if __name__ == "__main__":
    answer(Question, main)
