"""lorenz (F4): a neural ODE of the Lorenz system: how long does an iteration take, and with what?"""

from importlib.util import find_spec

from hotlap import machine
from hotlap.errors import UserError
from hotlap.lab import Doing, Settings, gpus
from hotlap.lab.result import Quantity, Result
from hotlap.lab.studies import gain, of_lab
from hotlap.predict import Workload
from hotlap.record import Study
from hotlap.units import duration

TAKES = ("gpu", "budget", "html")

NUM_ITERATIONS = 1000
LEVERS = ("native-ode", "native-step", "fused-optimizer")
BUDGET_S = 180.0


def run(settings: Settings, doing: Doing) -> Result:
    """Tune torchdiffeq's loop here; time it on the GPU, or predict that.

    Raises:
        UserError: torchdiffeq is not installed.
    """
    if find_spec("torchdiffeq") is None:
        raise UserError("The question's training is one of torchdiffeq's: pip install torchdiffeq.")
    gpu = gpus.chosen(settings, machine.look().gpus)
    with of_lab("lorenz.py", doing, levers=LEVERS) as script:
        bench = script.asked(total_steps=NUM_ITERATIONS)
        known = bench.traced()
        study = bench.studied(quick=True, budget_s=settings.tries_s(BUDGET_S), profilers=("modules",))
        if gpu.predicted:
            there = Quantity.of(gpus.there(known, gpu.name).step_s, predicted=True)
        else:
            there = Quantity(value=bench.asked("--device", "cuda").traced().step_s or 0.0)
    return tell(study, known.work, gpu=gpu, there=there)


def tell(study: Study, work: Workload, *, gpu: gpus.Gpu, there: Quantity) -> Result:
    """The numbers, and what they mean. `there`: an iteration on the GPU."""
    step_s = study.baseline[0].median_step_s()
    return Result(
        story=(
            f"An iteration (solve, gradient, update) takes {duration(step_s)} with torchdiffeq on this machine. "
            f"{gain(study)} (The question: orders of magnitude faster on a CPU with a lean path for small networks "
            "than on a Tesla K40c.)",
            f"It is {work.num_kernels:,.0f} operators, {duration(step_s / work.num_kernels)} each with the Python "
            f"around them; all their arithmetic ({work.flop / 1e6:.2g} million operations) would take a core some "
            f"{duration(work.flop / 1e10)}. So what counts is not how fast a device computes but how little is done "
            f"around each call. That is why a GPU does not help: the same loop takes {there} an iteration on the "
            f"{gpu.name}, for its host has the same calls to make and each costs a launch.",
        ),
        notes=(
            *gpu.notes,
            "dy/dt = net(y), net = 3-100-3 with tanh; t in (0, 1), 101 points, u0 = (1, 0, 0), sigma 10, rho 28, beta "
            "8/3; sum of squares, Adam(0.01); tolerances 1e-3 and 1e-6, float32, one thread.",
        ),
        study=study,
    )
