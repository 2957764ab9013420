"""A step as data."""

from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.errors import RecordError, UserError
from hotlap.predict import Kind, Operator, Precision, Workload, workload
from hotlap.record import Phase, save


def totals() -> Workload:
    return Workload.from_totals(
        flop=3e12, memory_bytes=2e10, num_kernels=400, parameter_bytes=1e8, batch_bytes=5e6, precision="amp"
    )


def test_totals_are_kept() -> None:
    work = totals()
    assert work.flop == pytest.approx(3e12, rel=1e-6)
    assert work.memory_bytes == pytest.approx(2e10, rel=1e-6)
    assert work.num_kernels == pytest.approx(400)
    assert work.precision is Precision.FP16
    assert (work.parameter_bytes, work.batch_bytes) == (1e8, 5e6)


def test_work_without_operations_moves_bytes_only() -> None:
    work = Workload.from_totals(flop=0, memory_bytes=1e9, num_kernels=10)
    assert work.flop == 0
    assert work.memory_bytes == pytest.approx(1e9, rel=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"flop": -1.0},
        {"memory_bytes": float("nan")},
        {"num_kernels": 0.0},
        {"flop": float("inf")},
        {"batch_size": -5},
        {"parameter_bytes": -1.0},
        {"batch_bytes": float("nan")},
    ],
)
def test_totals_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    figures = {"flop": 1e12, "memory_bytes": 1e9, "num_kernels": 100.0, **wrong}
    with pytest.raises(UserError):
        Workload.from_totals(**figures)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["batch_bytes", "parameter_bytes", "host_s", "python_s", "input_s", "input_workers"])
def test_a_file_with_a_negative_figure_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    save(replace(totals(), **{name: -1}), tmp_path / "step.json")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"{name} is -1"):
        workload.load(tmp_path / "step.json")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(UserError, match="No precision"):
        Workload.from_totals(flop=1, memory_bytes=1, num_kernels=1, precision="fp8")


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "work.json"
    save(totals(), path)
    assert workload.load(path) == totals()


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 99}', '{"schema": 3, "operators": 3}'])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "work.json"
    path.write_text(text)
    with pytest.raises(RecordError):
        workload.load(path)


def test_a_file_with_negative_work_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "work.json"
    save(Workload(operators=(Operator(kind=Kind.MATMUL, flop=-1.0),)), path)
    with pytest.raises(UserError, match="flop of matmul is -1"):
        workload.load(path)


def test_a_larger_batch_leaves_the_optimizer_alone() -> None:
    work = Workload(
        operators=(
            Operator(kind=Kind.MATMUL, flop=10.0, moved_bytes=4.0),
            Operator(kind=Kind.VECTOR, stage=Phase.OPTIMIZER, moved_bytes=7.0),
        ),
        batch_bytes=3.0,
        batch_size=8,
    )
    twice = work.scaled(2.0)
    assert (twice.flop, twice.memory_bytes) == (20.0, 15.0)
    assert (twice.batch_bytes, twice.batch_size) == (6.0, 16)


def test_of_totals_a_larger_batch_leaves_what_moves_the_parameters() -> None:
    twice = totals().scaled(2.0)
    assert twice.flop == pytest.approx(6e12, rel=1e-6)
    assert twice.memory_bytes == pytest.approx(2 * 2e10 - workload.PARAMETER_PASSES * 1e8, rel=1e-6)


def test_parameters_that_move_all_bytes_are_no_fault() -> None:
    work = Workload.from_totals(flop=1e12, memory_bytes=1e8, num_kernels=1, parameter_bytes=1e8)
    assert (work.flop, work.memory_bytes) == pytest.approx((1e12, 1e8))
