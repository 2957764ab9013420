"""Batches that travel as bytes: who moves one is given its numbers over there, and everybody else numbers like any."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from hotlap.data import late
from hotlap.data.byte_road import ByteRoad
from hotlap.data.late_batches import Finisher, LateBatch, Leaf
from hotlap.data.tails import Tail, tail_of
from hotlap.data.unmade import MOST_LOOKS, Unmade
from hotlap.probe.evidence import Digest
from tests.unit.data.pictures import MEAN, STD, Normalize, ToDtype, ToTensor, usual
from tests.unit.data.sets import assert_same_epochs, epochs

BYTES = torch.randint(0, 256, (4, 6, 5, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
USUAL = tail_of([ToTensor(), Normalize(MEAN, STD)])


def road() -> ByteRoad:
    """To this very device, whose numbers can be looked at here."""
    return ByteRoad(leads_to=lambda device: device.type == "cpu")


def batch(on: ByteRoad, *, tail: Tail | None = USUAL) -> Any:
    assert tail is not None
    return Finisher(on).finish(LateBatch([BYTES.clone(), torch.arange(4)], [Leaf((0,), tail, True)]))[0]


NUMBERS = torch.stack([Normalize(MEAN, STD)(ToTensor()(picture.numpy())) for picture in BYTES])


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.to("cpu"),
        lambda x: x.to("cpu", non_blocking=True),
        lambda x: x.to(device=torch.device("cpu")),
    ],
)
def test_who_moves_it_is_given_numbers_made_over_there(move: Callable[[Any], Any]) -> None:
    on = road()
    given = batch(on)
    assert type(given) is Unmade and isinstance(given, torch.Tensor)
    first, second = move(given), move(given)
    assert type(first) is torch.Tensor and torch.equal(first, NUMBERS) and torch.equal(second, NUMBERS)
    assert first.data_ptr() != second.data_ptr() and on.num_sent == 2 and on.open
    assert given.made is None, "no number was made here"


def test_who_looks_needs_no_numbers() -> None:
    given = batch(road())
    assert given.shape == (4, 3, 6, 5) and len(given) == 4 and given.size(0) == 4 and given.dim() == given.ndim == 4
    assert given.dtype == torch.float32 and given.device.type == "cpu" and not given.is_cuda and given.numel() == 360
    assert given.is_floating_point() and not given.requires_grad
    assert given.made is None


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: x.numpy(),
        lambda x: torch.stack([x, x]),
        lambda x: x[0],
        lambda x: x.to(torch.float64),
        lambda x: x.to("cpu", torch.float64),
        lambda x: x.view(4, -1).sum(),
        torch.nn.functional.relu,
        lambda x: torch.nn.functional.conv2d(x, torch.ones(1, 3, 1, 1)),
        lambda x: x.stride(),
        lambda x: x.is_pinned(),
        repr,
        lambda x: torch.ops.aten.mul.Tensor(x, x),
        lambda x: [part.clone() for part in x],
        lambda x: x.clone().mul_(2),
    ],
)
def test_any_other_use_finds_numbers(use: Callable[[Any], Any]) -> None:
    on = road()
    used, expected = use(batch(on)), use(NUMBERS)
    assert type(used) is type(expected)
    equal = torch.equal if isinstance(used, torch.Tensor) else lambda a, b: str(a) == str(b)
    assert equal(used, expected)
    assert on.num_sent == 0


def test_pinning_waits_until_it_is_made() -> None:
    on = road()
    pinned = batch(on).pin_memory()
    assert type(pinned) is Unmade and pinned.made is None and pinned.shape == NUMBERS.shape
    assert torch.equal(pinned.to("cpu"), NUMBERS) and on.num_sent == 1 and on.open


def test_the_gates_look_is_no_use() -> None:
    on = road()
    given, plain, digest = batch(on), Digest(), Digest()
    plain.add([NUMBERS])
    digest.add([given])
    assert digest.take() == plain.take()
    assert given.made is None and torch.equal(given.to("cpu"), NUMBERS) and on.num_sent == 1 and on.open


def test_what_is_written_into_it_stays() -> None:
    on = road()
    given = batch(on)
    given.mul_(2)
    given[0] = 7
    moved = given.to("cpu")
    assert torch.equal(moved[1:], 2 * NUMBERS[1:]) and float(moved[0].min()) == 7.0 and on.num_sent == 0


def test_gradients_reach_it() -> None:
    given = batch(road()).requires_grad_(True)
    (given * 3).sum().backward()
    assert torch.equal(given.grad, torch.full_like(NUMBERS, 3.0))


def test_a_script_that_uses_batches_here_gets_numbers_at_once() -> None:
    on = road()
    for number in range(MOST_LOOKS):
        assert type(batch(on)) is Unmade, number
        batch(on).sum()
    assert type(batch(on)) is torch.Tensor


def test_other_numbers_over_there_are_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    on = road()
    given = batch(on)
    true_apply, calls = Tail.apply, []

    def apply(self: Any, bytes_: torch.Tensor, out: torch.Tensor, *, channels_last: bool) -> torch.Tensor:
        calls.append(out)
        made = true_apply(self, bytes_, out, channels_last=channels_last)
        return made.mul_(1 + 1e-6) if len(calls) == 2 else made  # the second is the device's try

    monkeypatch.setattr(Tail, "apply", apply)
    assert torch.equal(given.to("cpu"), NUMBERS) and on.num_sent == 0


@pytest.mark.parametrize("on_the_way", [True, False])
def test_an_epoch_over_such_a_road_is_the_same(on_the_way: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    on = road()
    monkeypatch.setattr(Finisher, "_way", lambda _: on)

    def loop(data: Any) -> Any:
        for (picture, label), after in epochs(data, num_epochs=2):
            moved = picture.to("cpu") if on_the_way else picture * 1
            yield [moved, label], after

    assert_same_epochs(loop(late(usual())), loop(usual()))
    assert on.num_sent == (6 if on_the_way else 0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("pin_memory", [False, True])
@pytest.mark.parametrize("steps", [[ToTensor(), Normalize(MEAN, STD)], [ToDtype(torch.float32, scale=True)]])
def test_a_gpu_makes_the_same_bits(steps: Any, pin_memory: bool) -> None:
    torch.zeros(1, device="cuda")
    tail = tail_of(steps)
    assert tail is not None
    on = ByteRoad()
    given = batch(on, tail=tail)
    assert torch.equal(given.to("cuda", non_blocking=True).cpu(), batch(road(), tail=tail).to("cpu"))
    assert on.num_sent == 1
    for picture, _ in DataLoader(late(usual()), 8, pin_memory=pin_memory):
        assert type(picture) is Unmade
        moved = picture.cuda(non_blocking=True)
        assert type(moved) is torch.Tensor and torch.equal(moved.cpu(), picture + 0)
