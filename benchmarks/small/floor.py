"""How much of `NeuralODE.fit` is the field itself: a training of F4's job against its evaluations alone.

`python benchmarks/small/floor.py` writes benchmarks/results/small-floor.json; times are of one iteration. The
evaluations are those of floor.cpp, in the vectors of the core that trains: as many forward, and as many backward with
the gradients of the parameters, as a mean iteration of the same training makes. "One after the other": each takes its
state from the result of the one before, as in a solve; "at once": none does, so that the processor does several at a
time. The first iteration is a call of its own, in which the field is traced and the solver made: it is not counted in
one row, as the evaluations' compiler is not, and is in the other. In turn, in one process on one core.
"""

import ctypes
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from contest import write
from lorenz import Job
from ode import ITERATIONS, Contender, at_once, ours

from hotlap.native import core

SOURCE = Path(__file__).with_suffix(".cpp")
ROUNDS = 15
MACHINE = {"avx512": ["-march=native", "-mprefer-vector-width=512"], "avx2": ["-mavx2", "-mfma"]}
# As in CMakeLists.txt.
OPTIONS = (
    "-std=c++20 -O3 -shared -fPIC -fno-math-errno -fno-trapping-math -fno-tree-loop-distribute-patterns -Wno-psabi"
)


def compiled() -> Any:
    """floor.cpp, loaded."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "floor.so"
        compiler = (sysconfig.get_config_var("CXX") or "c++").split()
        command = [*compiler, *OPTIONS.split(), "-ffp-contract=off", *MACHINE.get(core().variant, [])]
        subprocess.run([*command, str(SOURCE), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


def timed(what: Callable[[], object]) -> float:
    """Seconds of the processor: none of them waits for anything, and other work on the machine does not count."""
    begun = process_time()
    what()
    return process_time() - begun


def main() -> None:
    torch.set_num_threads(1)
    library, fit, job = compiled(), Contender(at_once(), ours("tsit5")), Job()
    counts = fit.count()
    forward = round(counts.evaluations / ITERATIONS)
    reverse = round((6 * counts.accepted + ITERATIONS) / ITERATIONS)  # six stages a step, and the first one's slope
    first, last = job.field.net[0], job.field.net[2]
    tensors = [p.detach() for layer in (first, last) for p in (layer.weight, layer.bias)]
    states = job.target[:forward].contiguous()
    gradients = torch.randn_like(states)
    cols, hidden, num = (ctypes.c_int64(n) for n in (3, 100, forward))
    addresses = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (*tensors, states, gradients)]
    library.make(cols, hidden, *addresses[:4], num, *addresses[4:])

    def alone(waiting: bool) -> float:
        counted = (ctypes.c_int64(n) for n in (forward, reverse, ITERATIONS))
        return timed(lambda: library.run(ctypes.c_bool(waiting), *counted)) / ITERATIONS

    def trained() -> tuple[float, float]:
        """An iteration without the first, and a mean one."""
        run = fit.start()
        first_s, others_s = timed(lambda: run(1)), timed(lambda: run(ITERATIONS - 1))
        return others_s / (ITERATIONS - 1), (first_s + others_s) / ITERATIONS

    names = (
        "NeuralODE.fit",
        "NeuralODE.fit, tracing counted",
        "its evaluations alone, one after the other",
        "its evaluations alone, at once",
    )
    rounds = [(*trained(), alone(True), alone(False)) for _ in range(ROUNDS + 1)][1:]
    rows = []
    for number, (name, seconds) in enumerate(zip(names, zip(*rounds, strict=True), strict=True)):
        # In each round, so that what else the machine did is in both.
        ratios = sorted(one[number] / one[2] for one in rounds)
        rows.append(
            {
                "contender": name,
                "iteration_s": statistics.median(seconds),
                "least_s": min(seconds),
                "most_s": max(seconds),
                "of the evaluations": round(statistics.median(ratios), 3),
                "least": round(ratios[0], 3),
                "most": round(ratios[-1], 3),
            }
        )
    write("small-floor", rows, f"one core; {forward} evaluations forward and {reverse} backward an iteration")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
