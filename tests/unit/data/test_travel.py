"""Batches on the road: who moves one is given the copy, and everybody else a tensor like any other."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from hotlap.data import overlapped
from hotlap.data.notes import Notes
from hotlap.data.overlap import send_ahead
from hotlap.data.travel import CudaLane, Lane, Road, Travelling
from hotlap.probe.evidence import Digest
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs


class ToMeta(Lane):
    """Copies without content; counts them."""

    def __init__(self) -> None:
        self.sent = 0

    def leads_to(self, device: torch.device) -> bool:
        return device.type == "meta"

    def send(self, tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
        self.sent += 1
        copy = torch.empty_like(tensor, device="meta")
        return lambda: copy


LARGE = torch.arange(65536.0)


def road() -> tuple[Road, ToMeta]:
    lane = ToMeta()
    made = Road(lambda device: lane if device.type == "meta" else None)
    made.moved(torch.device("meta"))
    return made, lane


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.to("meta"),
        lambda x: x.to("meta", non_blocking=True),
        lambda x: x.to(device=torch.device("meta")),
    ],
)
def test_who_moves_it_is_given_the_copy_once(move: Callable[[Any], Any]) -> None:
    made, lane = road()
    batch = made.send(LARGE)
    assert batch.shape == (65536,) and len(batch) == 65536 and batch.dtype == torch.float32  # looks
    first, second = move(batch), move(batch)
    assert type(first) is torch.Tensor and first.device.type == "meta"
    assert first is not second and made.num_arrived == 1 and lane.sent == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.mul_(2),
        lambda x: x.numpy(),
        lambda x: x.view(2, -1),
        lambda x: torch.stack([x, x]),
        lambda x: x[0],
        lambda x: x + 1,
        lambda x: x.__setitem__(0, 5.0),
    ],
)
def test_after_any_other_use_the_copy_is_forgotten(use: Callable[[Any], Any]) -> None:
    made, _ = road()
    batch = made.send(LARGE.clone())
    result = use(batch)
    assert type(result) is not Travelling or result is batch
    assert batch.to("meta").device.type == "meta" and made.num_arrived == 0


def test_the_gates_look_leaves_the_copy_where_it_is() -> None:
    made, _ = road()
    batch, digest, plain = made.send(LARGE), Digest(), Digest()
    digest.add([batch])
    plain.add([LARGE])
    assert digest.take() == plain.take()
    assert batch.to("meta").device.type == "meta" and made.num_arrived == 1


@pytest.mark.parametrize(
    "move", [lambda x: x.to(torch.float64), lambda x: x.to("meta", torch.float16), lambda x: x.to("cpu")]
)
def test_a_move_that_does_more_is_made_by_torch(move: Callable[[Any], Any]) -> None:
    made, _ = road()
    plain = move(LARGE)
    ours = move(made.send(LARGE))
    assert (ours.dtype, ours.device) == (plain.dtype, plain.device)
    assert made.num_arrived == 0


def test_it_is_the_tensor_that_it_was() -> None:
    made, _ = road()
    batch = made.send({"x": (LARGE, [LARGE[:10], "text"]), "n": None})
    x, (small, text) = batch["x"]
    assert isinstance(x, torch.Tensor) and torch.equal(x, LARGE) and type(x + 0) is torch.Tensor
    assert type(small) is torch.Tensor and text == "text" and batch["n"] is None


def test_the_script_tells_where_batches_go() -> None:
    lane = ToMeta()
    made = Road(lambda device: lane if device.type == "meta" else None)
    first = made.send(LARGE)
    assert lane.sent == 0
    first.to("meta")
    assert made.send(LARGE).to("meta").device.type == "meta"
    assert lane.sent == 1 and made.num_arrived == 1


def big(number: int) -> Any:
    return torch.full((4096,), float(number)), number


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
def test_batches_come_in_order_and_as_they_are(num_workers: int) -> None:
    made, lane = road()
    loader = DataLoader(Pictures(60, big), batch_size=8, num_workers=num_workers)
    iterator: Any = iter(loader)
    send_ahead(iterator, made, Notes(), looks_ahead=True)
    seen = [(x.to("meta").shape, labels.tolist()) for x, labels in iterator]
    assert [labels for _, labels in seen] == [batch[1].tolist() for batch in DataLoader(Pictures(60, big), 8)]
    assert lane.sent == made.num_arrived == len(seen)


def slow_at_0(number: int) -> Any:
    """The second worker's batch is there before the first one's."""
    if number == 0:
        time.sleep(0.5)
    if number == 27:
        raise ArithmeticError("of the data set")
    return big(number)


def breaks_off(loader: Any) -> list[Any]:
    """Labels of two epochs, the first of which is left at once; the error that the second one meets."""
    labels = [next(iter(loader))[1].tolist()]
    with pytest.raises(ArithmeticError):
        for _, found in loader:
            labels.append(found.tolist())
    return labels


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_an_epoch_that_is_broken_off_leaves_no_batch_to_the_next() -> None:
    settings: dict[str, Any] = {"batch_size": 8, "num_workers": 2, "persistent_workers": True}
    made, _ = road()
    loader = DataLoader(Pictures(60, slow_at_0), **settings)
    iterator: Any = loader._get_iterator()
    loader._iterator = iterator
    send_ahead(iterator, made, Notes(), looks_ahead=True)
    assert breaks_off(loader) == breaks_off(DataLoader(Pictures(60, slow_at_0), **settings))


def fails_at_8(number: int) -> Any:
    if number == 8:
        raise ArithmeticError("of the data set")
    return slow_at_0(number)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_an_error_that_is_met_ahead_comes_with_its_own_batch() -> None:
    made, _ = road()
    iterator: Any = iter(DataLoader(Pictures(24, fails_at_8), batch_size=8, num_workers=2))
    send_ahead(iterator, made, Notes(), looks_ahead=True)
    assert next(iterator)[1].tolist() == [*range(8)]
    with pytest.raises(ArithmeticError):
        next(iterator)
    assert next(iterator)[1].tolist() == [*range(16, 24)]


def test_batches_that_memory_has_no_room_for_are_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_MEMORY", "1000")
    made, lane = road()
    notes = Notes()
    iterator: Any = iter(DataLoader(Pictures(16, big), batch_size=8))
    send_ahead(iterator, made, notes, looks_ahead=True)
    assert len(list(iterator)) == 2 and lane.sent == 0
    assert notes.last is not None and "pinned they would take" in notes.last


@pytest.mark.skipif(torch.cuda.is_available(), reason="what is done without CUDA")
def test_without_a_gpu_nothing_is_done_and_it_is_said() -> None:
    ours = overlapped(Pictures())
    assert_same_epochs(epochs(ours), epochs(Pictures()))
    assert ours.note is not None and "no CUDA device" in ours.note


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_copies_on_a_gpu_hold_the_values() -> None:
    made = Road(CudaLane)
    made.moved(torch.device("cuda"))
    for number in range(50):
        values = (LARGE + number).pin_memory()
        moved = made.send(values).to("cuda", non_blocking=True)
        assert torch.equal(moved.cpu(), LARGE + number)
    assert made.num_arrived == 50
