"""A trace as one step to forecast: what shapes tell, what times tell, what is left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from hotlap.errors import UserError
from hotlap.predict import forecast
from hotlap.predict.precision import Precision
from hotlap.predict.workload import Kind
from hotlap.record import Phase
from hotlap.trace import table, workload
from hotlap.trace.files import TraceFile
from hotlap.trace.reading import Reading, reading
from tests.unit.trace.written import Written

US = 1e-6
STEPS = 4


def document(*, device: str = "Tesla V100-SXM2-32GB", loading: str = "", talk_us: float = 0.0) -> dict[str, Any]:
    """Steps of 1 ms on a V100: a product of known shape for 400 us, elementwise work for 200 us."""
    made = Written()
    for number in range(STEPS):
        at = number * 1000.0
        made.step(number, at, 1000)
        if loading:
            made.host("user_annotation", f"enumerate(DataLoader)#{loading}.__next__", at, 300)
        made.launch(at + 301, at=at + 310, length=400, name="volta_sgemm_128x64_nn")
        made.events[-3]["args"] |= {"Input Dims": [[1000, 100], [100, 500]], "Input type": ["float", "float"]}
        made.launch(at + 320, at=at + 710, length=200, name="vectorized_elementwise_kernel", operator="aten::add")
        if talk_us:
            made.launch(at + 340, at=at + 910, length=talk_us, name="ncclKernel_AllReduce", operator="c10d::allreduce_")
    return made.document() | {"deviceProperties": [{"id": 0, "name": device}]}


def traced(folder: Path, *, device: str = "Tesla V100-SXM2-32GB", loading: str = "", talk_us: float = 0.0) -> Reading:
    """What is read of it."""
    path = folder / "trace.json"
    path.write_text(json.dumps(document(device=device, loading=loading, talk_us=talk_us)))
    return reading(table.read(TraceFile(path)))


def test_products_by_their_shapes_and_all_else_by_time(tmp_path: Path) -> None:
    step = workload.workload(traced(tmp_path))
    product, add = step.operators
    assert (product.kind, product.stage, product.count) == (Kind.MATMUL, Phase.FORWARD, 1.0)
    assert product.flop == 2.0 * 1000 * 100 * 500
    assert add.kind is Kind.VECTOR
    # 900 GB/s for 200 us, three quarters of it.
    assert add.moved_bytes == pytest.approx(0.75 * 900e9 * 200 * US, rel=0.01)
    assert step.precision is Precision.IEEE


def test_the_exchange_of_ranks_is_left_out(tmp_path: Path) -> None:
    one = traced(tmp_path, talk_us=90)
    assert workload.step_s(one) == pytest.approx(910 * US)
    assert {operator.kind for operator in workload.workload(one).operators} == {Kind.MATMUL, Kind.VECTOR}


def test_batches_are_what_is_copied_within_the_steps(tmp_path: Path) -> None:
    told = document()
    for number, (at, inside) in enumerate([(50.0, True), (STEPS * 1000.0 + 50, False)]):
        host = {"ph": "X", "pid": 100, "tid": 100, "dur": 5}
        told["traceEvents"] += [
            {**host, "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "ts": at, "args": {"correlation": 900 + number}},
            {
                **host, "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "ts": at + 10,
                "args": {"device": 0, "stream": 9, "correlation": 900 + number, "bytes": 4000 if inside else 9000},
            },
        ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(told))
    step = workload.workload(reading(table.read(TraceFile(path))))
    assert step.batch_bytes == 4000 / STEPS


@pytest.mark.parametrize(
    ("loading", "seconds", "workers"),
    [("_SingleProcessDataLoaderIter", 300 * US, 0), ("_MultiProcessingDataLoaderIter", 1000 * US, 1), ("", None, None)],
)
def test_a_loader_that_is_waited_for_goes_along(
    loading: str, seconds: float | None, workers: int | None, tmp_path: Path
) -> None:
    step = workload.workload(traced(tmp_path, loading=loading))
    assert (step.input_s, step.input_workers) == (pytest.approx(seconds) if seconds else None, workers)


def test_on_the_device_of_the_trace_a_step_takes_what_it_took(tmp_path: Path) -> None:
    one = traced(tmp_path)
    found = forecast(
        workload.workload(one), target=one.run.device, measured_on=one.run.device, measured_step_s=workload.step_s(one)
    )
    assert found.step_s.mid == pytest.approx(1000 * US, rel=0.05)


def test_a_device_that_nobody_knows_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Some GPU"):
        workload.workload(traced(tmp_path, device="Some GPU"))
