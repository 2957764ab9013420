"""All-reduce against published points, and the memory on each GPU."""

from dataclasses import replace

import pytest

from hotlap.predict import Workload, forecast, links, memory, resolve
from hotlap.predict.catalogue import Link
from hotlap.predict.timing import Off


@pytest.mark.parametrize(
    ("device", "count", "size", "measured_s"),
    [
        # 8 x A100, Azure ND A100 v4, nccl-tests: bus bandwidth 109, 174 and 228 GB/s.
        ("A100 SXM4 80GB", 8, 16e6, 1.75 * 16e6 / 109.22e9),
        ("A100 SXM4 80GB", 8, 134e6, 1.75 * 134e6 / 174.18e9),
        ("A100 SXM4 80GB", 8, 1e9, 1.75 * 1e9 / 228.1e9),
        # GTX 1080 Ti on PCIe 3, DeepBench with NCCL 2.0.
        ("GTX 1080 Ti", 2, 153.44e6, 12584e-6),
        ("GTX 1080 Ti", 8, 258e6, 51816.8e-6),
    ],
)
def test_all_reduce_is_within_a_quarter_of_measured_times(
    device: str, count: int, size: float, measured_s: float
) -> None:
    over = links.fabric(resolve(device).device, count)
    assert links.all_reduce_s(size, count, over) == pytest.approx(measured_s, rel=0.25)


def test_one_gpu_has_nobody_to_wait_for() -> None:
    over = links.fabric(resolve("RTX 4090").device, 1)
    assert links.all_reduce_s(1e9, 1, over) == 0.0


def test_consumer_cards_go_through_the_host_and_workstation_cards_do_not() -> None:
    assert links.fabric(resolve("RTX 4090").device, 2).link is Link.PCIE_NO_P2P
    assert links.fabric(resolve("RTX 6000 Ada").device, 2).link is Link.PCIE
    assert links.fabric(resolve("H100 SXM5 80GB").device, 8).link is Link.NVSWITCH


def holding(*, activations: float) -> Workload:
    totals = Workload.from_totals(flop=1e12, memory_bytes=1e10, num_kernels=100, parameter_bytes=2 * 2**30)
    return replace(totals, activation_bytes=activations, batch_bytes=0.0)


def test_what_fits_is_told_from_what_does_not() -> None:
    # Parameters, gradients, and two numbers of Adam: 8 GiB, besides the activations.
    need = memory.need(holding(activations=10 * 2**30))
    assert need == (8 + 10) * 2**30 * memory.FRAGMENTATION + memory.CONTEXT_BYTES
    assert resolve("RTX 3080 12GB").device.memory < need < resolve("RTX 4090").device.memory


def test_unknown_activations_are_not_guessed() -> None:
    work = Workload.from_totals(flop=1e12, memory_bytes=1e10, num_kernels=100, parameter_bytes=1e9)
    assert memory.need(work) is None


def test_two_cards_without_peer_access_hide_little_of_their_gradients() -> None:
    # Two RTX 3090, TF32, as Lambda measured them: BERT large with 16 sequences, ResNet-50 with 224 images.
    for step_s, parameters, measured in ((0.6667, 336e6, 0.79), (0.4366, 25.6e6, 0.954)):
        work = Workload.from_totals(
            flop=1e13, memory_bytes=1e11, num_kernels=500, parameter_bytes=4 * parameters, precision="tf32"
        )
        found = forecast(work, target="RTX 3090", count=2, measured_on="RTX 3090", measured_step_s=step_s)
        assert found.efficiency == pytest.approx(measured, abs=0.05)


def test_what_one_bucket_of_gradients_does_not_hide_is_waited_for() -> None:
    over = links.Fabric(link=Link.NVSWITCH, bus_bytes_s=1e9, sigma=0.1, assumption=None)
    bucket_s = links.all_reduce_s(25 * 2**20, 2, over)
    alone_s = links.together(1.0, gradient_bytes=0, count=2, over=over, off=Off())
    for full_buckets in (1, 2, 8):  # the last is complete when the backward pass ends, and finds the link free
        found_s = links.together(1.0, gradient_bytes=(1 + 25 * full_buckets) * 2**20, count=2, over=over, off=Off())
        assert found_s / alone_s == pytest.approx(1 + bucket_s)
    # A link that is never free again, from when the second bucket is complete.
    slow = replace(over, bus_bytes_s=1e8)
    exposed_s = 8 * links.all_reduce_s(25 * 2**20, 2, slow) - links.BACKWARD_SHARE * 175 / 201
    found_s = links.together(1.0, gradient_bytes=201 * 2**20, count=2, over=slow, off=Off())
    assert found_s / alone_s == pytest.approx(1 + exposed_s)


@pytest.mark.parametrize("gradient_mib", [0.5, 1, 20, 26, 40, 400.5])
@pytest.mark.parametrize("bus_bytes_s", [1e8, 5e8, 2e9, 1e11])
def test_buckets_leave_one_after_the_other_as_they_are_complete(gradient_mib: float, bus_bytes_s: float) -> None:
    over = links.Fabric(link=Link.NVSWITCH, bus_bytes_s=bus_bytes_s, sigma=0.1, assumption=None)
    complete, through_s, backward_s = 0.0, 0.0, links.BACKWARD_SHARE
    while complete < gradient_mib:
        size = min(25.0 if complete else 1.0, gradient_mib - complete)
        complete += size
        through_s = max(through_s, backward_s * complete / gradient_mib) + links.all_reduce_s(size * 2**20, 2, over)
    alone_s = links.together(1.0, gradient_bytes=0, count=2, over=over, off=Off())
    found_s = links.together(1.0, gradient_bytes=gradient_mib * 2**20, count=2, over=over, off=Off())
    assert found_s / alone_s == pytest.approx(1 + through_s - backward_s)


def test_a_model_of_any_size_is_answered_at_once() -> None:
    over = links.fabric(resolve("H100").device, 8)
    assert links.together(1.0, gradient_bytes=1e300, count=8, over=over, off=Off()) > 1e280
