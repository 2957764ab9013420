"""transformer (F0): why do the cores stay at 60%, what helps here, and what would other GPUs do?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hotlap.cli.traced import Traced
from hotlap.lab import Doing, Settings, gpus
from hotlap.lab.result import Quantity, Result
from hotlap.lab.studies import of_lab
from hotlap.record import Study
from hotlap.units import duration

TAKES = ("gpu", "budget", "html")

# The question gives the layers; batch and length are ours, so that a step takes about a second on a small machine.
SIZES = {"layers": 32, "batch": 8, "length": 32, "vocabulary": 10_000}
QUICK = {"layers": 1, "batch": 4, "length": 16, "vocabulary": 1_000}
# The GPUs that the question asks for.
COUNTS = (1, 2, 4)
BUDGET_S = 240.0


def run(settings: Settings, doing: Doing) -> Result:
    """Measure and tune the model here, and predict the GPUs."""
    targets = gpus.names(settings)
    sizes = QUICK if settings.quick else SIZES
    with of_lab("transformer.py", doing) as script:
        bench = script.asked(*(word for name, value in sizes.items() for word in (f"--{name}", str(value))))
        known = bench.traced()
        profilers = ("switches", "modules", "cpu")
        study = bench.studied(quick=settings.quick, budget_s=settings.tries_s(BUDGET_S), profilers=profilers)
    return tell(study, known, sizes, targets=targets)


def tell(study: Study, known: Traced, sizes: Mapping[str, int], *, targets: Sequence[str]) -> Result:
    """The numbers, and what they mean."""
    work = known.work
    study = replace(
        study,
        predictions=tuple(gpus.there(known, target, number=number) for target in targets for number in COUNTS),
    )
    run = study.baseline[0]
    step_s, millions = run.median_step_s(), (work.parameter_bytes or 0) / 4e6
    there = "; ".join(
        f"{one.title} {Quantity.of(one.step_s, predicted=True)}, bound by {one.bound_by}" for one in study.predictions
    )
    return Result(
        story=(
            f"A step takes {duration(step_s)} here for {work.flop / 1e9:,.0f} billion operations in "
            f"{work.num_kernels:,.0f} operators: {work.flop / step_s / 1e9:,.0f} GFLOP/s. The optimizer alone passes "
            f"over {millions:.0f} million parameters with their two averages and gradients: that is memory, not "
            "arithmetic, and more cores hardly speed it up.",
            *([study.sweep.why] if study.sweep is not None and study.sweep.why else []),
            *(
                [f"Counted while the steps went on: {run.cpu.main:.1f} of {run.cpu.usable_cores:g} cores at work."]
                if run.cpu is not None
                else []
            ),
            f"The same step, each GPU with the batch that this machine has, takes on {there}.",
        ),
        notes=(
            f"The question's model with {sizes['layers']} layers ({millions:.0f} million parameters), "
            f"{sizes['batch']} sequences of {sizes['length']} tokens a step: batch and length are ours.",
        ),
        study=study,
    )
