"""For any structure of items, cached() hands out what torch would have made of them."""

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from hotlap.data import cached
from hotlap.data.item_cache import engine
from tests.unit.data.sets import Pictures, equal

Point = namedtuple("Point", ["x", "y"])
Build = Callable[[int], Any]

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.cfloat,
]


def tensor(shape: list[int], order: list[int], step: int, dtype: torch.dtype) -> Build:
    """Values of this shape, made contiguous or not by permuting and striding."""

    def build(number: int) -> Any:
        numel = int(np.prod(shape, dtype=np.int64))
        values = (torch.arange(numel * step) * 7 + number) % 251
        value: Any = values[::step].view(shape) if step == 1 else values.view([*shape, step])[..., 0]
        return value.to(dtype).permute(order) if step == 1 else value.permute(order)

    return build


@st.composite
def tensors(draw: st.DrawFn) -> Build:
    shape = draw(st.lists(st.integers(1, 3), max_size=4))
    order = draw(st.permutations(range(len(shape))))
    return tensor(shape, order, draw(st.sampled_from([1, 2])), draw(st.sampled_from(DTYPES)))


@st.composite
def arrays(draw: st.DrawFn) -> Build:
    build, dtype = draw(tensors()), draw(st.sampled_from(["f4", "f8", "i2", "u1", "?", "c8"]))
    return lambda number: build(number).real.float().numpy().astype(dtype, order="K")


LEAVES = st.one_of(
    tensors(),
    arrays(),
    st.sampled_from(
        [
            lambda number: number,
            lambda number: number / 7,
            lambda number: number % 2 == 1,
            lambda number: f"text {number}",
            lambda number: b"%d" % number,
            lambda number: np.float32(number / 7),
            lambda number: np.float64(number / 7),
            np.int16,
            lambda number: np.bool_(number % 2),
        ]
    ),
)


# For each of six items another one: of any length, and of any letters, lone surrogates too.
TEXTS = st.one_of(st.text(st.characters()), st.text(max_size=2), st.binary(), st.none())


def drawn(values: list[Any]) -> Build:
    return lambda number: values[number % len(values)]


def containers(inner: st.SearchStrategy[Build]) -> st.SearchStrategy[Build]:
    several = st.lists(inner, max_size=3)
    return st.one_of(
        several.map(lambda builds: lambda number: tuple(build(number) for build in builds)),
        several.map(lambda builds: lambda number: [build(number) for build in builds]),
        st.tuples(inner, inner).map(lambda two: lambda number: Point(two[0](number), two[1](number))),
        several.map(lambda builds: lambda number: {f"k{i}": build(number) for i, build in enumerate(builds)}),
        several.map(lambda builds: lambda number: OrderedDict((i, build(number)) for i, build in enumerate(builds))),
    )


BUILDS = st.recursive(LEAVES, containers, max_leaves=5)


@pytest.fixture(scope="module", autouse=True)
def compared_here() -> Iterator[None]:
    """What is computed twice is computed in this process, as where it cannot be copied: a copy of all that the tests
    have imported takes as long as all else of an example, and is made in the tests of tests/unit/data/item_cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "in_a_copy", lambda action: action())
        yield


@settings(max_examples=150)
@given(build=BUILDS, num_items=st.integers(1, 7), batch_size=st.integers(1, 4))
def test_batches_are_those_of_torch(build: Build, num_items: int, batch_size: int) -> None:
    kept = cached(Pictures(num_items, build))
    for _ in range(3):
        ours = list(DataLoader(kept, batch_size=batch_size))
        theirs = list(DataLoader(Pictures(num_items, build), batch_size=batch_size))
        assert equal(ours, theirs), f"{ours} is not {theirs}"
    assert num_items == 1 or kept.full, kept.note


@settings(max_examples=100)
@given(
    build=st.recursive(st.one_of(LEAVES, st.lists(TEXTS, min_size=6, max_size=6).map(drawn)), containers, max_leaves=6),
    indices=st.lists(st.integers(0, 5), max_size=8),
)
def test_texts_among_other_leaves_come_out_as_they_are(build: Build, indices: list[int]) -> None:
    kept, plain = cached(Pictures(6, build)), [build(number) for number in range(6)]
    for wanted in (list(range(6)), indices, indices):
        assert equal(kept.__getitems__(wanted), [plain[index] for index in wanted])
    assert kept.full and kept.note is None


@settings(max_examples=150)
@given(build=BUILDS, indices=st.lists(st.integers(-6, 5), max_size=8))
def test_items_are_those_of_the_data_set(build: Build, indices: list[int]) -> None:
    kept, plain = cached(Pictures(6, build)), Pictures(6, build)
    for _ in range(3):
        assert equal(kept.__getitems__(indices), [plain[index] for index in indices])
        assert equal([kept[index] for index in indices], [plain[index] for index in indices])
    assert kept.note is None
