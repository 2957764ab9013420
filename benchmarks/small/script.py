"""What `native_steps()` leaves to gain in a script: an MNIST perceptron's step, with torch's and with our parts.

`python benchmarks/small/script.py` writes benchmarks/results/small-script.json. 784-128-10, batch 64, Adam, float32;
each batch is another one, so it comes from memory as a loader's would. All contenders take turns, switched in one
process, on one thread and on all of torch's.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contender, contest, save

from hotlap.levers import Patch
from hotlap.small import compile_step
from hotlap.small.script_steps import Parts, known_steps

BATCH_SIZE, NUM_BATCHES = 64, 256


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


def makers(threads: int) -> dict[str, Callable[[], Contender]]:
    return {
        "torch": partial(loop, threads),
        "torch, fused Adam": partial(loop, threads, fused=True),
        "native_steps()": partial(loop, threads, parts="all"),
        'native_steps("model")': partial(loop, threads, parts="model"),
        'native_steps("optimizer")': partial(loop, threads, parts="optimizer"),
        "compile_step": partial(compiled, threads),
    }


def main() -> None:
    results = {
        f"{threads} thread{'s' * (threads > 1)}": contest(makers(threads), rounds=15, seconds=0.1)
        for threads in sorted({1, torch.get_num_threads()})
    }
    save("small-script", results, "other work ran on the machine meanwhile: read the ratios, and the least times")


if __name__ == "__main__":
    main()
