"""Forecasts: directions that physics fixes, intervals, and what is refused."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.predict import Device, Kind, Operator, Precision, Workload, devices, forecast, resolve, workload
from hotlap.predict.catalogue import cpu
from hotlap.predict.prediction import apart
from hotlap.record import Phase, Prediction

I5 = cpu("i5", cores=12)
TRACED = Path(__file__).parents[3] / "benchmarks" / "predict" / "traced"


def work(*, precision: str = "fp32", scale: float = 1.0) -> Workload:
    """ResNet-50 with 96 images, or `scale` times that."""
    return Workload.from_totals(
        flop=2.3e12 * scale,
        memory_bytes=7.7e10 * scale,
        num_kernels=500,
        parameter_bytes=1.02e8,
        batch_bytes=5.8e7 * scale,
        precision=precision,
    )


def on(target: str, *, count: int = 1, precision: str = "fp32", interconnect: str | None = None) -> Prediction:
    return forecast(
        work(precision=precision),
        target=target,
        count=count,
        measured_on="V100 SXM2 16GB",
        measured_step_s=0.25,
        interconnect=interconnect,
    )


def test_the_same_device_takes_what_was_measured() -> None:
    assert on("V100 SXM2 16GB").step_s.mid == pytest.approx(0.25, rel=0.02)


def test_twice_the_measured_time_doubles_the_forecast() -> None:
    once = forecast(work(), target="RTX 3090", measured_on="V100 SXM2 16GB", measured_step_s=0.25)
    twice = forecast(work(scale=2.0), target="RTX 3090", measured_on="V100 SXM2 16GB", measured_step_s=0.5)
    assert twice.step_s.mid / once.step_s.mid == pytest.approx(2.0, rel=0.06)


@pytest.mark.parametrize(
    ("slower", "faster"),
    [("RTX 3080", "RTX 3090"), ("RTX 3090", "RTX 4090"), ("A100 SXM4 40GB", "A100 SXM4 80GB"), ("A100", "H100"),
     ("Tesla K80", "GTX 1080 Ti"), ("L4", "L40S"), ("Tesla T4", "RTX 2080 Ti")],
)  # fmt: skip
@pytest.mark.parametrize("precision", ["fp32", "amp"])
def test_a_device_that_is_better_in_everything_is_faster(slower: str, faster: str, precision: str) -> None:
    assert on(faster, precision=precision).step_s.mid < on(slower, precision=precision).step_s.mid


def test_tiny_work_is_bound_by_the_host_and_gains_little_from_a_faster_device() -> None:
    tiny = Workload.from_totals(flop=1e7, memory_bytes=1e6, num_kernels=400)
    one = forecast(tiny, target="RTX 3090", measured_on="RTX 2080 Ti", measured_step_s=4e-3)
    assert one.bound_by == "host"
    assert one.step_s.mid == pytest.approx(4e-3, rel=0.1)


def test_large_products_are_bound_by_computing() -> None:
    heavy = Workload.from_totals(flop=5e13, memory_bytes=2e10, num_kernels=300)
    assert forecast(heavy, target="RTX 3090").bound_by == "compute"


def test_moving_much_is_bound_by_memory() -> None:
    moving = Workload.from_totals(flop=1e11, memory_bytes=5e11, num_kernels=300)
    assert forecast(moving, target="RTX 3090").bound_by == "memory"


def test_intervals_are_never_narrower_than_six_percent_and_hold_the_middle() -> None:
    for device in devices():
        step = on(device.name).step_s
        assert step.low < step.mid < step.high
        assert math.log(step.mid / step.low) >= 0.064
        assert math.log(step.high / step.mid) >= 0.064


def test_an_interval_is_wider_where_the_host_has_a_say() -> None:
    spans = []
    for num_kernels in (300, 60_000):
        step = Workload.from_totals(flop=4e12, memory_bytes=1.3e11, num_kernels=num_kernels, precision="fp32")
        found = forecast(step, target="GTX 1080 Ti", measured_on="GTX 1080", measured_step_s=0.6).step_s
        spans.append(math.log(found.high / found.low))
    assert spans[1] > 1.25 * spans[0]


def test_without_a_measurement_the_interval_is_wider() -> None:
    known, guessed = on("RTX 3090").step_s, forecast(work(), target="RTX 3090").step_s
    assert guessed.high / guessed.low > 1.3 * known.high / known.low


def from_cpu(
    work: Workload, *, target: str | Device = "RTX 3090", precision: str | None = None, step_s: float = 10.0
) -> Prediction:
    """Of a step that took `step_s` on a processor of 12 threads."""
    return forecast(work, target=target, precision=precision, measured_on=I5, measured_step_s=step_s)


def test_a_cpu_run_gives_a_wide_interval() -> None:
    known = on("RTX 3090").step_s
    found = from_cpu(work()).step_s
    assert found.high / found.low > 1.5 * known.high / known.low


def small(kind: Kind = Kind.MATMUL) -> Workload:
    """A hundred products of a few numbers: the host sets the step."""
    one = Operator(kind=kind, stage=Phase.BACKWARD, flop=1e3, moved_bytes=2e3, count=100.0)
    return Workload(operators=(one,), matmul_tf32=False, parameter_bytes=1e3, host_s=5e-6)


@pytest.mark.parametrize(("name", "measured_s"), [("lstm", 6.55e-3), ("mnist", 1.57e-3), ("ode", 28.6e-3)])
def test_intervals_of_trainings_that_wait_for_the_host_hold_what_an_h200_showed(name: str, measured_s: float) -> None:
    # benchmarks/results/gpu-nvidia-h200.json; forecast from steps that were traced on another machine.
    found = forecast(workload.load(TRACED / f"{name}.json"), target="H200").step_s
    assert found.low < measured_s < found.high


def test_that_the_host_is_not_known_is_said_where_it_sets_the_step() -> None:
    found = [forecast(one, target="H200") for one in (small(), work())]
    assert [any("host beside the target" in note for note in one.assumptions) for one in found] == [True, False]


def test_half_precision_gives_a_busy_host_more_to_do() -> None:
    measured = {"measured_on": "H200", "measured_step_s": 2e-3}
    halved = forecast(small(), target="H200", precision="bf16", **measured)  # type: ignore[arg-type]
    assert halved.step_s.mid > 1.2 * forecast(small(), target="H200", **measured).step_s.mid  # type: ignore[arg-type]


def test_half_precision_is_less_certain_where_the_measured_step_ran_on_lanes() -> None:
    spans = []
    for precision in ("fp16", "tf32", "fp32-ieee"):
        measured = {"measured_on": "A100", "measured_step_s": 0.25}
        step = forecast(work(precision=precision), target="A100", precision="fp16", **measured).step_s  # type: ignore[arg-type]
        spans.append(math.log(step.high / step.low))
    assert spans[0] < spans[1] < spans[2]


def test_convolutions_gain_less_from_matrix_units_than_products() -> None:
    gains = []
    for kind in (Kind.CONV, Kind.MATMUL):
        net = Workload.from_totals(flop=2e13, memory_bytes=1e11, num_kernels=500, precision="fp32-ieee", kind=kind)
        gains.append(forecast(net, target="A100", precision="tf32", measured_on="V100", measured_step_s=2.0).step_s.mid)
    assert gains[0] > 1.2 * gains[1]


def products(precision: str, *, target: str, measured_on: str, kind: Kind = Kind.MATMUL) -> float:
    """Speed-up of a step that is all products."""
    net = Workload.from_totals(flop=5e13, memory_bytes=1e9, num_kernels=100, precision=precision, kind=kind)
    return 1 / forecast(net, target=target, measured_on=measured_on, measured_step_s=1.0).step_s.mid


def test_lanes_are_no_matrix_units_where_both_have_one_rate() -> None:
    # GeForce runs TF32 at the rate of FP32; the RTX A6000 has more of the same chip, and TF32 at twice that rate.
    assert products("fp32-ieee", target="RTX A6000", measured_on="RTX 3090") == pytest.approx(1.09, abs=0.02)


@pytest.mark.parametrize("kind", [Kind.CONV, Kind.MATMUL])
def test_switching_tf32_off_makes_no_board_faster(kind: Kind) -> None:
    net = Workload.from_totals(flop=5e13, memory_bytes=1e9, num_kernels=100, precision="tf32", kind=kind)
    for device in devices():
        asked = {"target": device.name, "measured_on": device.name, "measured_step_s": 1.0}
        assert forecast(net, precision="fp32-ieee", **asked).step_s.mid >= 0.999  # type: ignore[arg-type]


def test_a_small_module_is_not_slowed_by_the_power_that_a_board_takes_idle() -> None:
    # 5.3 TFLOP/s at 60 W, and 2.1 at 25 W.
    gain = products("fp32-ieee", target="Jetson AGX Orin 64GB", measured_on="Jetson Orin Nano Super 8GB")
    assert gain == pytest.approx(2.5, rel=0.1)


def test_double_precision_goes_by_its_own_units_whatever_lanes_reach() -> None:
    # 0.30 to 0.47 TFLOP/s; lanes of the former reach more of their peak, and the T4's hold less of their clock.
    assert products("fp64", target="RTX 3080 10GB", measured_on="Titan Xp") == pytest.approx(1.22, abs=0.03)
    assert products("fp64", target="GTX 1070 Ti", measured_on="Tesla T4") == pytest.approx(1.01, abs=0.03)


def test_convolutions_gain_less_from_half_precision_than_products() -> None:
    steps = []
    for kind in (Kind.CONV, Kind.MATMUL):
        net = Workload.from_totals(flop=2e13, memory_bytes=1e10, num_kernels=500, precision="tf32", kind=kind)
        measured = {"measured_on": "A100", "measured_step_s": 0.3}
        steps.append(forecast(net, target="A100", precision="amp", **measured).step_s.mid)  # type: ignore[arg-type]
    assert steps[0] > 1.1 * steps[1]


def test_a_card_with_much_bandwidth_for_each_multiprocessor_gains_less_of_it_in_half_precision() -> None:
    gains = []
    for precision in ("fp32", "amp"):
        moving = Workload.from_totals(flop=1e9, memory_bytes=5e11, num_kernels=300, precision=precision)
        found = forecast(moving, target="H200", measured_on="RTX 4090", measured_step_s=1.0)
        gains.append(1 / found.step_s.mid)
    assert gains[1] < 0.97 * gains[0]


def test_cards_whose_multiprocessors_have_other_bandwidths_are_farther_apart() -> None:
    a6000, a100, ada = (resolve(name).device for name in ("RTX A6000", "A100 SXM4 80GB", "RTX 6000 Ada"))
    assert apart(a6000, a100, 2.0) > 1.1 * apart(a6000, ada, 2.0)
    assert apart(a6000, a100, 2.0) == apart(a100, a6000, 0.5)


def test_a_card_older_than_tf32_is_farther_from_newer_ones() -> None:
    turing, ampere, ada = (resolve(name).device for name in ("RTX 2080 Ti", "RTX 3080 10GB", "RTX 4080"))
    assert apart(turing, ampere, 1.5) ** 2 > 1 + abs(math.log(1.5))
    assert apart(ampere, ada, 1.5) ** 2 < 1


def test_half_precision_is_as_certain_as_full_within_an_architecture() -> None:
    spans = {}
    for source in ("RTX 3060 12GB", "Titan RTX"):
        for precision in ("tf32", "amp"):
            measured = {"measured_on": source, "measured_step_s": 0.25}
            step = forecast(work(precision=precision), target="RTX 3090", **measured).step_s  # type: ignore[arg-type]
            spans[source, precision] = math.log(step.high / step.low)
    assert spans["RTX 3060 12GB", "amp"] < 1.15 * spans["RTX 3060 12GB", "tf32"]
    assert spans["Titan RTX", "amp"] > 1.3 * spans["RTX 3060 12GB", "amp"]


def test_an_interval_within_an_architecture_grows_with_how_much_smaller_a_board_is() -> None:
    spans = []
    for target in ("RTX 4080", "RTX 4050 Laptop"):
        step = forecast(work(precision="tf32"), target=target, measured_on="RTX 4090", measured_step_s=0.1).step_s
        spans.append(math.log(step.high / step.low))
    assert spans[1] > 1.3 * spans[0]


def test_an_interval_grows_with_how_much_faster_a_device_is_and_in_half_precision() -> None:
    spans = {}
    for precision in ("tf32", "amp"):
        for target in ("RTX A6000", "RTX 5090", "B200"):
            measured = {"measured_on": "RTX 6000 Ada", "measured_step_s": 0.25}
            step = forecast(work(precision=precision), target=target, **measured).step_s  # type: ignore[arg-type]
            spans[target, precision] = math.log(step.high / step.low)
    assert spans["RTX A6000", "tf32"] < spans["RTX 5090", "tf32"] < spans["B200", "tf32"]
    assert all(spans[target, "amp"] > spans[target, "tf32"] for target, _ in spans)


def test_the_same_question_gets_the_same_answer() -> None:
    assert on("RTX 4090") == on("RTX 4090")


def test_assumptions_name_the_variant_that_was_taken() -> None:
    assert any("was taken for" in note for note in on("A100").assumptions)


def test_bfloat16_without_a_unit_for_it_is_said() -> None:
    notes = forecast(work(), target="RTX 2080 Ti", precision="bf16").assumptions
    assert any("no bfloat16 unit" in note for note in notes)


def test_mixed_precision_is_faster_where_there_are_matrix_units() -> None:
    plain = forecast(work(), target="RTX 3090", precision="fp32-ieee").step_s.mid
    assert forecast(work(), target="RTX 3090", precision="fp16").step_s.mid < 0.8 * plain


def test_waiting_for_input_bounds_the_step() -> None:
    slow = replace(work(), input_s=2.0, input_workers=4)
    one = forecast(slow, target="H100", measured_on="V100", measured_step_s=0.5)
    assert one.bound_by == "input"


def test_a_faster_cpu_run_says_a_little_more_than_nothing() -> None:
    slow, fast = from_cpu(work(), step_s=10.0).step_s.mid, from_cpu(work(), step_s=2.5).step_s.mid
    assert fast == pytest.approx(slow / 4**0.25, rel=0.05)


def test_a_slow_processor_does_not_lengthen_the_python_that_was_measured_on_it() -> None:
    found = from_cpu(replace(work(), python_s=2.0), step_s=2000.0)
    assert found.bound_by == "python"
    assert 2.0 < found.step_s.mid < 4.0


@pytest.mark.parametrize("target", ["H100", "RTX 3090"])
def test_no_device_shortens_the_scripts_own_python(target: str) -> None:
    plain, slow = work(), replace(work(), python_s=20.0)
    found = forecast(slow, target=target)
    assert found.bound_by == "python"
    assert found.step_s.mid == pytest.approx(forecast(plain, target=target).step_s.mid + 20, rel=0.01)
    assert forecast(slow, target=target, measured_on="V100", measured_step_s=20.5).bound_by == "python"


@pytest.mark.parametrize("target", ["RTX 4090", "A100 SXM4 80GB", "V100 SXM2 16GB", "RTX 3090"])
def test_efficiency_falls_with_the_number_of_gpus(target: str) -> None:
    found = [on(target, count=count).efficiency or 0.0 for count in (1, 2, 4, 8)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 1.0
    assert found[-1] > 0.5


def test_a_faster_link_is_more_efficient() -> None:
    efficiency = {
        link: on("RTX 3090", count=2, interconnect=link).efficiency or 0.0 for link in ("nvlink", "pcie", "pcie-no-p2p")
    }
    assert efficiency["nvlink"] > efficiency["pcie"] > efficiency["pcie-no-p2p"]


def test_cards_without_peer_access_come_with_a_warning() -> None:
    assert any("host's memory" in note for note in on("RTX 4090", count=2).assumptions)


def test_sharing_the_batch_shortens_the_step_but_by_less_than_the_number_of_gpus() -> None:
    measured = {"measured_on": "V100", "measured_step_s": 0.25}
    steps = [
        forecast(work(), target="A100", count=count, batch_factor=1 / count, **measured).step_s.mid  # type: ignore[arg-type]
        for count in (1, 2, 4, 8)
    ]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] / steps[-1] < 8


def test_what_does_not_fit_is_told_from_what_does() -> None:
    big = replace(work(), activation_bytes=40 * 2**30, parameter_bytes=2**30)
    assert [forecast(big, target=name).fits for name in ("RTX 4090", "H100")] == [False, True]
    assert forecast(work(), target="H100").fits is None


def test_what_autocast_asks_of_a_gpu_is_predicted_there_and_not_here() -> None:
    asked = replace(work(), autocast=Precision.FP16)
    there = from_cpu(asked, target="V100")
    assert there.step_s == from_cpu(work(), target="V100", precision="fp16").step_s
    assert any("autocast computes in fp16" in note for note in there.assumptions)
    assert from_cpu(asked, target=I5).step_s == from_cpu(work(), target=I5).step_s
    settled = from_cpu(asked, target="V100", precision="fp32")
    assert settled.step_s.mid > there.step_s.mid


def test_a_cpu_run_is_said_to_know_little() -> None:
    assert any("measured on a CPU" in note for note in from_cpu(work()).assumptions)


def test_large_gradients_on_slow_links_are_bound_by_communication() -> None:
    heavy = Workload.from_totals(flop=1e11, memory_bytes=1e9, num_kernels=100, parameter_bytes=4e9)
    one = forecast(heavy, target="RTX 4090", count=4, measured_on="RTX 4090", measured_step_s=0.02)
    assert one.bound_by == "communication"
    assert one.efficiency is not None
    assert one.efficiency < 0.2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"measured_on": "V100"}, "belong together"),
        ({"measured_on": "V100", "measured_step_s": -1.0}, "not a step time"),
        ({"count": 0}, "not a number of GPUs"),
        ({"count": 1.5}, "not a number of GPUs"),
        ({"count": 2, "interconnect": "nvlink"}, 'no "nvlink"'),
        ({"count": 2, "interconnect": "wifi"}, 'no "wifi"'),
        ({"count": 2, "target": I5}, "no known pcie rate"),
        ({"precision": "fp7"}, "No precision"),
    ],
)
def test_questions_that_make_no_sense_are_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        forecast(work(), **{"target": "RTX 4090"} | arguments)  # type: ignore[arg-type]


def test_weights_and_gradients_alone_may_be_too_large() -> None:
    fits = [forecast(replace(work(), parameter_bytes=size), target="H100").fits for size in (1e9, 50e9)]
    assert fits == [None, False]
