"""Answers and results in realistic numbers, for the tests of the lab."""

from collections.abc import Callable

from hotlap.lab import launch_floor, transfer
from hotlap.lab.lorenz import Answer as Training
from hotlap.predict import Kind, Operator, Workload
from hotlap.predict.workload import Stage
from hotlap.record import encode


def nothing(text: str) -> None:
    """Told what is being done."""


def spread(seconds: float) -> tuple[float, ...]:
    """Rounds that lie some percent apart."""
    return tuple(seconds * (1 + 0.01 * k) for k in range(-3, 4))


def transfer_answer(*, gpu: str | None = None) -> transfer.Answer:
    """A CPU of 100 GFLOP/s with 2 us a call; the GPU a hundred times as fast, with 10 us a call and 10 us a copy."""

    def way(seconds: Callable[[int], float]) -> tuple[tuple[float, ...], ...]:
        return tuple(spread(seconds(side)) for side in transfer.SIDES)

    times: dict[str, tuple[tuple[float, ...], ...]] = {
        transfer.NUMPY: way(lambda n: 2e-6 + 2 * n**3 / 100e9),
        transfer.TORCH: way(lambda n: 4e-6 + 2 * n**3 / 110e9),
    }
    if gpu is not None:
        times |= {
            transfer.GPU: way(lambda n: 10e-6 + 2 * n**3 / 10e12),
            transfer.PAGEABLE: way(lambda n: 50e-6 + 2 * n**3 / 10e12 + 12 * n**2 / 6e9),
            transfer.PINNED: way(lambda n: 40e-6 + 2 * n**3 / 10e12 + 12 * n**2 / 20e9),
        }
    return transfer.Answer(gpu=gpu, times=times, call_s=3e-6, threads=2)


def floor_answer(*, gpu: str | None = None) -> launch_floor.Answer:
    """Calls with floors of 0.5, 1.5 and 0.3 us, and a step of 200 us in torch, 5 us natively."""
    shapes = (*launch_floor.FOUNDING, *((side, side) for side in launch_floor.SIDES))

    def way(floor_s: float, rate: float) -> tuple[tuple[float, ...], ...]:
        return tuple(spread(floor_s + 2 * rows * columns / rate) for rows, columns in shapes)

    times = {
        launch_floor.NUMPY: way(0.5e-6, 5e9),
        launch_floor.TORCH: way(1.5e-6, 6e9),
        launch_floor.SMALL: way(0.3e-6, 4e9),
    }
    steps = {launch_floor.TORCH_STEP: spread(200e-6), launch_floor.SMALL_STEP: spread(5e-6)}
    if gpu is not None:
        times |= {launch_floor.GPU: way(8e-6, 400e9), launch_floor.GRAPH: way(2e-6, 400e9)}
        steps |= {launch_floor.GPU: spread(600e-6)}
    return launch_floor.Answer(gpu=gpu, times=times, steps=steps, workload=encode(workload()).decode(), threads=2)


def workload(*, num_operators: int = 40, flop: float = 1e5, host_s: float | None = 5e-6) -> Workload:
    """A step of small products."""
    operator = Operator(
        kind=Kind.MATMUL,
        name="aten::addmm",
        stage=Stage.FORWARD,
        flop=flop,
        read_bytes=4e3,
        written_bytes=4e3,
        count=num_operators,
    )
    return Workload(
        operators=(operator,),
        parameter_bytes=4e5,
        gradient_bytes=4e5,
        activation_bytes=1e5,
        batch_bytes=2e5,
        batch_size=64,
        host_s=host_s,
    )


def training(each_s: float, losses: tuple[float, ...], *, native: bool = True, gpu: str | None = None) -> Training:
    """A neural ODE that was trained."""
    return Training(
        iteration_s=spread(each_s),
        losses=losses,
        first_s=0.1,
        workload=encode(workload(num_operators=4000)).decode(),
        gpu=gpu,
        native=native,
    )
