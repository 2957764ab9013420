"""Answers and results in realistic numbers, for the tests of the lab."""

from collections.abc import Callable

from hotlap.cli.traced import Traced
from hotlap.lab import launch_floor, products, transfer
from hotlap.predict import Kind, Operator, Workload, catalogue
from hotlap.record import Phase


def nothing(text: str) -> None:
    """Told what is being done."""


def spread(seconds: float) -> tuple[float, ...]:
    """Rounds that lie some percent apart."""
    return tuple(seconds * (1 + 0.01 * k) for k in range(-3, 4))


def transfer_answer(*, gpu: str | None = None) -> products.Answer:
    """A CPU of 100 GFLOP/s with 2 us a call; the GPU a hundred times as fast, with 10 us a call and 10 us a copy."""

    def way(seconds: Callable[[int], float]) -> tuple[tuple[float, ...], ...]:
        return tuple(spread(seconds(side)) for side, _, _ in transfer.SHAPES)

    times: dict[str, tuple[tuple[float, ...], ...]] = {
        products.NUMPY: way(lambda n: 2e-6 + 2 * n**3 / 100e9),
        products.TORCH: way(lambda n: 4e-6 + 2 * n**3 / 110e9),
    }
    if gpu is not None:
        times |= {
            products.GPU: way(lambda n: 10e-6 + 2 * n**3 / 10e12),
            products.COPIES: way(lambda n: 50e-6 + 2 * n**3 / 10e12 + 12 * n**2 / 6e9),
        }
    return products.Answer(gpu=gpu, times=times)


def floor_answer(*, gpu: str | None = None) -> products.Answer:
    """Calls with floors of 0.5 and 1.5 us."""

    def way(floor_s: float, rate: float) -> tuple[tuple[float, ...], ...]:
        return tuple(spread(floor_s + 2 * rows * columns / rate) for rows, columns, _ in launch_floor.SHAPES)

    times = {products.NUMPY: way(0.5e-6, 5e9), products.TORCH: way(1.5e-6, 6e9)}
    if gpu is not None:
        times[products.GPU] = way(8e-6, 400e9)
    return products.Answer(gpu=gpu, times=times)


def workload(*, num_operators: int = 40, flop: float = 1e5, host_s: float | None = 5e-6) -> Workload:
    """A step of small products."""
    operator = Operator(
        kind=Kind.MATMUL,
        name="aten::addmm",
        stage=Phase.FORWARD,
        flop=flop,
        moved_bytes=8e3,
        count=num_operators,
    )
    return Workload(
        operators=(operator,),
        parameter_bytes=4e5,
        activation_bytes=1e5,
        batch_bytes=2e5,
        batch_size=64,
        host_s=host_s,
    )


def traced(step_s: float = 0.004) -> Traced:
    """That step, timed on a CPU."""
    return Traced(work=workload(), device=catalogue.cpu("Some CPU", cores=2), step_s=step_s)
