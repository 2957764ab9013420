"""Forecasts, for any workload and pair of devices."""

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.predict import Device, Workload, devices, forecast, resolve
from hotlap.record import codec

NAMES = [device.name for device in devices()]

workloads = st.builds(
    lambda flop, intensity, kernels, weights, precision: Workload.from_totals(
        flop=flop,
        memory_bytes=flop / intensity,
        num_kernels=kernels,
        parameter_bytes=weights,
        batch_bytes=1e6,
        precision=precision,
    ),
    st.floats(1e6, 1e15),
    st.floats(1, 1e3),
    st.integers(1, 10_000),
    st.floats(1e3, 1e10),
    st.sampled_from(["fp32", "tf32", "fp32-ieee", "amp", "bf16", "fp64"]),
)


@settings(max_examples=60)
@given(workloads)
def test_json_gives_back_the_workload(work: Workload) -> None:
    assert codec.decode(codec.encode(work), Workload) == work


@settings(max_examples=60)
@given(workloads, st.sampled_from(NAMES), st.sampled_from(NAMES), st.floats(1e-4, 1e2), st.sampled_from([1, 2, 4, 8]))
def test_every_question_has_a_finite_ordered_answer(
    work: Workload, here: str, there: str, step_s: float, count: int
) -> None:
    found = forecast(work, target=there, count=count, measured_on=here, measured_step_s=step_s)
    step = found.step_s
    assert 0 < step.low < step.mid < step.high < math.inf
    assert found.efficiency is not None
    assert 0 < found.efficiency <= 1.0 + 1e-9


@settings(max_examples=40)
@given(workloads, st.sampled_from(NAMES), st.sampled_from(NAMES), st.floats(1e-3, 10))
def test_a_slower_measurement_never_makes_the_forecast_faster(
    work: Workload, here: str, there: str, step_s: float
) -> None:
    once = forecast(work, target=there, measured_on=here, measured_step_s=step_s).step_s.mid
    slower = forecast(work, target=there, measured_on=here, measured_step_s=2 * step_s).step_s.mid
    assert slower > once


def better(device: Device, *, bandwidth: float = 1.0, rate: float = 1.0) -> Device:
    """`device`, with so many times its bandwidth and its rates."""
    return replace(
        device,
        name="a better one",
        bandwidth=device.bandwidth * bandwidth,
        fp32=device.fp32 * rate,
        fp16=device.fp16 * rate,
        fp64=device.fp64 * rate,
        tensor=device.tensor * rate,
        tf32=device.tf32 * rate,
    )


@settings(max_examples=60)
@given(workloads, st.sampled_from(NAMES), st.sampled_from(NAMES), st.floats(1, 4), st.floats(1, 4))
def test_a_device_with_higher_rates_is_never_predicted_slower(
    work: Workload, here: str, there: str, bandwidth: float, rate: float
) -> None:
    device = resolve(there).device
    pair = (better(device), better(device, bandwidth=bandwidth, rate=rate))
    steps = [forecast(work, target=one, measured_on=here, measured_step_s=0.1).step_s for one in pair]
    assert steps[1].mid <= steps[0].mid * (1 + 1e-9)


@settings(max_examples=60)
@given(workloads, st.sampled_from(NAMES), st.sampled_from(NAMES), st.floats(1e-4, 1e2), st.sampled_from([1, 2, 8]))
def test_no_interval_is_narrower_than_six_percent(
    work: Workload, here: str, there: str, step_s: float, count: int
) -> None:
    step = forecast(work, target=there, count=count, measured_on=here, measured_step_s=step_s).step_s
    assert math.log(step.mid / step.low) >= 0.064
    assert math.log(step.high / step.mid) >= 0.064
