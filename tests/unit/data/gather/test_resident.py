"""Items that lie on a device as a whole: batches gathered there, the same, and given up without a trace."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from hotlap import accelerator, at_work
from hotlap.data import batched, cached, resident
from hotlap.data.gather.resident import MOST_LOOKS, NUM_MOVES_FIRST, DeviceStore, LazyTensor
from hotlap.errors import UserError
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs, seed


class Here(DeviceStore):
    """On this very device, whose numbers can be looked at here."""

    free = 1 << 30

    def __init__(self) -> None:
        super().__init__()
        self.brought: list[int] = []

    def may_be_used(self) -> bool:
        return True

    def resolved(self, device: torch.device) -> torch.device | None:
        return device if device.type == "cpu" else None

    def free_bytes(self) -> int:
        return self.free

    def bring(self, tensor: torch.Tensor) -> torch.Tensor:
        self.brought.append(tensor.nbytes)
        return tensor.clone()


def there(dataset: Any, room: Here | None = None) -> tuple[Any, Here]:
    """(the data set, on this device; where it lies)."""
    room = room or Here()
    kept: Any = resident(dataset)
    kept.__dict__["_hotlap_devices"] = room
    return kept, room


def device_store(kept: Any) -> DeviceStore:
    found: DeviceStore = kept._hotlap_devices
    return found


def moved(data: Any, **settings: Any) -> Any:
    """Epochs of a loop that moves its batches, and the states after each."""
    for batch, after in epochs(data, **settings):
        yield [part.to("cpu") for part in batch], after


PLAIN = [
    {},
    {"shuffle": True},
    {"shuffle": True, "drop_last": True},
    {"num_workers": 2},
    {"num_workers": 2, "persistent_workers": True, "shuffle": True},
]


@pytest.mark.parametrize("settings", PLAIN, ids=str)
def test_batches_come_from_the_device_and_are_the_same(settings: dict[str, Any]) -> None:
    kept, room = there(Pictures(40))
    loop = {"batch_size": 4, "num_epochs": 8, **settings}
    assert_same_epochs(moved(kept, **loop), moved(Pictures(40), **loop))
    assert device_store(kept).num_given > 40 and kept.note is None
    assert room.brought[:2] == [40 * 16 * 4, 40 * 8]


def test_an_epoch_needs_one_copy_of_its_order() -> None:
    kept, room = there(Pictures(40))
    for _ in moved(kept, batch_size=4, num_epochs=12, shuffle=True):
        pass
    # Two columns, then an order for each epoch, the one that was under way included.
    num_epochs_there = 12 - 1 - NUM_MOVES_FIRST // 2 // 10
    assert len(room.brought) == 2 + num_epochs_there and set(room.brought[2:]) == {40 * 8}


def test_a_call_that_is_timed_by_where_its_tensor_lies_is_no_use_of_it_here() -> None:
    """As hotlap does with each `Tensor.to` of a script that it measures."""
    kept, _ = there(Pictures(40))
    for _ in range(8):
        for batch in DataLoader(kept, batch_size=4):
            assert not any(accelerator.on_device(part) for part in batch)
            assert [part.to("cpu") for part in batch]
    assert device_store(kept).num_given > 40 and kept.note is None


def test_a_batch_sampler_is_served_as_well() -> None:
    def loop(data: Any) -> Any:
        seed()
        loader = DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 4, drop_last=False))
        return [[part.to("cpu") for part in batch] for _ in range(8) for batch in loader]

    kept, _ = there(Pictures(40))
    for mine, theirs in zip(loop(kept), loop(Pictures(40)), strict=True):
        assert torch.equal(mine[0], theirs[0]) and torch.equal(mine[1], theirs[1])
    assert device_store(kept).num_given > 40


def test_pictures_in_another_order_of_dimensions_keep_it() -> None:
    def picture(number: int) -> torch.Tensor:
        return torch.full((1, 3, 4, 5), float(number)).to(memory_format=torch.channels_last)[0]

    kept, _ = there(Pictures(12, picture))
    for (mine, theirs), _ in zip(
        zip(DataLoader(kept, 4), DataLoader(Pictures(12, picture), 4), strict=True), range(3), strict=True
    ):
        assert mine.to("cpu").stride() == theirs.stride()
    batches = [batch.to("cpu") for _ in range(30) for batch in DataLoader(kept, 4)]
    expected = [batch for _ in range(30) for batch in DataLoader(Pictures(12, picture), 4)]
    assert all(
        torch.equal(mine, theirs) and mine.stride() == theirs.stride()
        for mine, theirs in zip(batches, expected, strict=True)
    )
    assert device_store(kept).num_given > 0


@pytest.mark.parametrize(
    ("move", "from_there"),
    [
        (lambda x: x.to("cpu"), True),
        (lambda x: x.to("cpu", non_blocking=True), True),
        (lambda x: x.to(device=torch.device("cpu")), True),
        (lambda x: x.to(torch.float64), False),
        (lambda x: x.to("cpu", torch.float16), False),
        (lambda x: x.to(x), False),
    ],
)
def test_only_a_plain_move_takes_rows_from_the_device(move: Callable[[Any], Any], from_there: bool) -> None:
    kept, _ = there(Pictures(40))
    for _ in range(5):
        list(moved(kept, num_epochs=1))
    before = device_store(kept).num_given
    (picture, _), (plain, _) = next(iter(DataLoader(kept, 4))), next(iter(DataLoader(Pictures(40), 4)))
    found, wanted = move(picture), move(plain)
    assert torch.equal(found, wanted) and found.dtype == wanted.dtype
    assert device_store(kept).num_given == before + from_there


def test_what_is_written_into_a_batch_reaches_nothing() -> None:
    kept, _ = there(Pictures(8))
    for _ in range(40):
        for number, (picture, _) in enumerate(DataLoader(kept, 4)):
            here = picture.to("cpu")
            assert float(here[1].mean()) == 4 * number + 1
            here.zero_()
    assert device_store(kept).num_given > 0


def test_a_script_that_works_on_its_batches_here_gets_them_at_once() -> None:
    kept, room = there(Pictures(40))
    used = [picture * 2 for _ in range(4) for picture, _ in DataLoader(kept, 4)]
    assert len(used) == 40 and not room.brought
    assert "uses its batches on the CPU" in kept.note
    assert not device_store(kept).open and device_store(kept)._num_looks == MOST_LOOKS
    assert all(type(picture) is torch.Tensor for picture, _ in DataLoader(kept, 4))


def test_without_room_batches_come_from_the_cpu() -> None:
    full = Here()
    full.free = 2 * 40 * (16 * 4 + 8) - 2
    kept, _ = there(Pictures(40), full)
    loop = {"batch_size": 4, "num_epochs": 6}
    assert_same_epochs(moved(kept, **loop), moved(Pictures(40), **loop))
    assert not full.brought and "of the device may be used" in kept.note
    full = Here()
    full.free += 2
    kept, _ = there(Pictures(40), full)
    list(moved(kept, **loop))
    assert kept.note is None and full.brought


def test_a_device_that_has_less_than_it_said_is_no_error() -> None:
    class Liar(Here):
        def bring(self, tensor: torch.Tensor) -> torch.Tensor:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 KiB.\nmore")

    kept, _ = there(Pictures(40), Liar())
    loop = {"batch_size": 4, "num_epochs": 6}
    assert_same_epochs(moved(kept, **loop), moved(Pictures(40), **loop))
    assert kept.note is not None and kept.note.endswith("(CUDA out of memory. Tried to allocate 2.50 KiB.)")


def test_a_changed_data_set_is_put_there_anew() -> None:
    other = Pictures(40)
    kept, room = there(Pictures(40))
    loop = {"batch_size": 4, "num_epochs": 6}
    assert_same_epochs(moved(kept, **loop), moved(Pictures(40), **loop))
    kept.scale = other.scale = 3.0
    assert_same_epochs(moved(kept, **loop), moved(other, **loop))
    assert room.brought.count(40 * 16 * 4) == 2


def test_it_stands_where_cached_does() -> None:
    pictures = Pictures(8)
    inner = cached(pictures)
    assert resident(inner) is inner and cached(resident(pictures)).note is None
    with pytest.raises(UserError, match="one of the two"):
        resident(batched(torch.utils.data.TensorDataset(torch.zeros(4, 2))))


def test_a_trial_waits_until_all_is_there() -> None:
    kept, far = there(Pictures(40))
    loader = DataLoader(kept, 4)
    settled = [[picture.to("cpu") for picture, _ in loader] and at_work.settled() for _ in range(5)]
    assert settled[0] is False and settled[-1] is True and not at_work.notes()
    assert far.brought
    for picture, _ in loader:
        picture.sum()
    assert at_work.settled() and any("uses its batches on the CPU" in note for note in at_work.notes())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("pin_memory", [False, True])
def test_on_a_gpu(pin_memory: bool) -> None:
    torch.zeros(1, device="cuda")
    kept = resident(Pictures(40))
    for number in range(12):
        seed(number)
        mine = list(DataLoader(kept, 4, shuffle=True, pin_memory=pin_memory))
        seed(number)
        theirs = list(DataLoader(Pictures(40), 4, shuffle=True))
        if number:
            assert all(type(picture) is LazyTensor for picture, _ in mine)
        for (picture, label), (other, name) in zip(mine, theirs, strict=True):
            there_, named = picture.cuda(non_blocking=True), label.to("cuda")
            assert there_.is_cuda and torch.equal(there_.cpu(), other) and torch.equal(named.cpu(), name)
    assert device_store(kept).num_given > 100
    assert device_store(kept).free_bytes() > 0
