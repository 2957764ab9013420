"""Which elements of a large parameter stand for all of them, and what is seen of an update by them."""

import math

import pytest
import torch

from hotlap.gate import Evidence, judge
from hotlap.probe.evidence import Updates
from hotlap.probe.sampling import MAX_ELEMENTS, sampled
from hotlap.record import Run, Status, Update, Verdict, as_number

ROWS, COLUMNS = 2000, 256
NUM_STEPS = 40


def numbered(*shape: int) -> torch.Tensor:
    return torch.arange(math.prod(shape)).view(shape)


@pytest.mark.parametrize("shape", [(ROWS, COLUMNS), (4096, 1024), (70_001,), (3, 5, 7, 1000)])
def test_every_part_of_a_large_tensor_is_met_with_its_last_element(shape: tuple[int, ...]) -> None:
    found = sampled(numbered(*shape))
    numel = math.prod(shape)
    assert len(found) == len(set(found.tolist())) == MAX_ELEMENTS
    assert int(found[-1]) == numel - 1
    gaps = found.sort().values.diff()
    assert int(gaps.max()) <= 2 * math.ceil(numel / MAX_ELEMENTS)
    # No column is passed over, as it would be by a stride that divides their number.
    assert len(set((found % shape[-1]).tolist())) == min(shape[-1], MAX_ELEMENTS)


def test_a_small_tensor_is_taken_whole() -> None:
    assert sampled(numbered(10, 6_500)).tolist() == list(range(MAX_ELEMENTS))


def test_gaps_in_memory_do_not_change_which_elements_are_met() -> None:
    tensor = numbered(ROWS, 2 * COLUMNS)[:, ::2]
    assert not tensor.is_contiguous()
    assert torch.equal(sampled(tensor), sampled(tensor.contiguous()))
    assert torch.equal(sampled(tensor.t().contiguous().t()), sampled(tensor.contiguous()))


def test_an_update_is_as_large_in_the_sample_as_in_the_whole() -> None:
    """But for the share of elements that is looked at."""
    update = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    share = MAX_ELEMENTS / update.numel()
    assert float(sampled(update).norm() / update.norm()) == pytest.approx(share**0.5, rel=0.02)


def updates(*, missed: slice) -> tuple[Update, ...]:
    """Of an SGD whose update does not reach some rows of a strided parameter."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(ROWS, 2 * COLUMNS)[:, ::2])
    optimizer = torch.optim.SGD([weight], lr=0.1)
    seen = Updates()
    for step in range(NUM_STEPS):
        weight.grad = torch.randn_like(weight)
        if seen.wanted(step):
            seen.before([optimizer], None)
        old = weight.detach()[missed].clone()
        optimizer.step()
        weight.data[missed] = old
        seen.after(step)
    return tuple(seen.seen)


def run(*, missed: slice) -> Run:
    same = tuple(map(str, range(NUM_STEPS)))
    return Run(
        status=Status.COMPLETE,
        step_index=tuple(range(NUM_STEPS)),
        loss=tuple(as_number(1 / (1 + k)) for k in range(NUM_STEPS)),
        num_samples=(8,) * NUM_STEPS,
        num_updates=(1,) * NUM_STEPS,
        batch_digest=same,
        rng_digest=same,
        settings_digest=same,
        learning_rates=((0.1,),) * NUM_STEPS,
        updates=updates(missed=missed),
    )


@pytest.mark.parametrize("missed", [slice(-40, None), slice(0, 40), slice(None, None, 50)])
def test_some_rows_of_a_large_parameter_that_stay_are_seen(missed: slice) -> None:
    """As in `fused` Adam on the CPU, which misses rows of a parameter with gaps in memory: here one row in fifty."""
    written = run(missed=slice(0, 0))
    ruling = judge("exact", Evidence(base=(written, written), lever=(run(missed=missed),)))
    assert ruling.verdict is Verdict.HARMED
    assert "stay as they are" in ruling.why
