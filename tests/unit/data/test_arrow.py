"""batched(): batches of a Hugging Face data set are gathered from its Arrow table, and are the same.

`datasets` comes with `pip install datasets`; without it these tests are skipped.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, Subset

from hotlap.data import batched
from hotlap.data.gathering import BatchedDataset
from hotlap.errors import UserError
from hotlap.levers import BatchedFetch, Patch
from tests.unit.data.sets import assert_same_epochs, epochs

datasets: Any = pytest.importorskip("datasets")
pa: Any = pytest.importorskip("pyarrow")

N = 50


@pytest.fixture(autouse=True, scope="module")
def no_progress_bars() -> Iterator[None]:
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def table() -> Any:
    return datasets.Dataset.from_dict(
        {
            "tokens": [[number, number + 1, 2] for number in range(N)],
            "label": list(range(N)),
            "weight": [number / 3 for number in range(N)],
            "even": [number % 2 == 0 for number in range(N)],
        }
    )


def typed() -> Any:
    value = datasets.Value
    features = datasets.Features(
        {
            "fixed": datasets.Sequence(value("float32"), length=3),
            "byte": value("uint8"),
            "double": value("float64"),
            "class": datasets.ClassLabel(num_classes=7),
            "short": datasets.Sequence(value("int16")),
        }
    )
    columns = {
        "fixed": [[number, 1.1, 2.5] for number in range(N)],
        "byte": list(range(N)),
        "double": [number / 7 for number in range(N)],
        "class": [number % 7 for number in range(N)],
        "short": [[number] * 4 for number in range(N)],
    }
    return datasets.Dataset.from_dict(columns, features=features)


def texts() -> Any:
    return datasets.Dataset.from_dict({"text": [f"n\u00e4{number}" for number in range(N)], "label": list(range(N))})


def chunks() -> Any:
    return datasets.concatenate_datasets([table().select(range(7)), table(), table().select(range(3, 9))])


DATA: dict[str, Callable[[], Any]] = {
    "numbers": table,
    "types": typed,
    "chunks": chunks,
    "shuffled": lambda: chunks().shuffle(seed=3),
    "chosen": lambda: table().select([4, 3, 9, 9, 20, 1, 0, 45, 44]),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("form", [None, "torch", "numpy"])
def test_gives_the_same_batches_without_making_rows(name: str, form: str | None, monkeypatch: Any) -> None:
    ours = batched(DATA[name]().with_format(form))
    settings: list[dict[str, Any]] = [{"num_epochs": 2}, {"shuffle": False, "batch_size": 7, "num_epochs": 1}]
    for given in settings:
        assert_same_epochs(epochs(ours, **given), epochs(DATA[name]().with_format(form), **given))
    monkeypatch.setattr("hotlap.data.gathering.fetch", None)
    assert len(epochs(ours, num_epochs=1)) > 0
    assert ours.note is None


@pytest.mark.parametrize("form", [None, "torch"])
def test_texts_come_through(form: str | None) -> None:
    ours = batched(texts().with_format(form))
    assert_same_epochs(epochs(ours), epochs(texts().with_format(form)))
    assert ours.note is None


def test_columns_are_those_of_the_format() -> None:
    for chosen in ({"columns": ["label", "tokens"]}, {"columns": ["label"], "output_all_columns": True}):
        ours = batched(table().with_format("torch", **chosen))
        assert_same_epochs(epochs(ours), epochs(table().with_format("torch", **chosen)))
        assert ours.note is None


def test_a_subset_of_one_is_served() -> None:
    ours = batched(Subset(table().with_format("torch"), [3, 1, 4, 1, 5]))
    assert_same_epochs(epochs(ours), epochs(Subset(table().with_format("torch"), [3, 1, 4, 1, 5])))


def test_a_format_set_between_two_epochs_counts() -> None:
    ours, plain = table(), table()
    wrapped = batched(ours)
    for form in (None, "torch", "pandas", "numpy"):
        ours.set_format(form)
        plain.set_format(form)
        if form == "pandas":
            continue
        assert_same_epochs(epochs(wrapped), epochs(plain))
    ours.set_format("torch", columns=["label"])
    assert all(list(batch) == ["label"] for batch, _ in epochs(wrapped, num_epochs=1))


def test_a_memory_mapped_file_is_served(tmp_path: Path) -> None:
    table().save_to_disk(str(tmp_path / "saved"))
    ours = batched(datasets.load_from_disk(str(tmp_path / "saved")).with_format("torch"))
    assert_same_epochs(epochs(ours), epochs(table().with_format("torch")))
    assert ours.note is None


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "empty places": (lambda: datasets.Dataset.from_dict({"a": [None, *range(N)]}), "'a' has empty places"),
    "nested": (lambda: datasets.Dataset.from_dict({"a": [[[1]]] * N}), "'a' holds list"),
    "a transform": (lambda: table().with_transform(lambda batch: batch), "its format is 'custom'"),
    "settings": (lambda: table().with_format("torch", dtype=__import__("torch").int32), "settings of its own"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_gather_is_fetched_as_before_and_it_says_why(name: str) -> None:
    make, reason = REFUSED[name]
    ours = batched(make())
    assert_same_epochs(epochs(ours, collate_fn=list, num_epochs=1), epochs(make(), collate_fn=list, num_epochs=1))
    try:
        expected = epochs(make(), num_epochs=1)
    except (TypeError, RuntimeError) as error:  # an empty place, which torch does not collate
        with pytest.raises(type(error)):
            epochs(ours, num_epochs=1)
    else:
        assert_same_epochs(epochs(ours, num_epochs=1), expected)
    assert reason in str(ours.note)


def test_lists_that_differ_in_length_fail_as_they_would() -> None:
    data = datasets.Dataset.from_dict({"a": [[1]] * 8 + [[1, 2]] * 3 + [[1]] * 5})
    for form in (None, "torch"):
        with pytest.raises(RuntimeError) as plain:
            epochs(data.with_format(form), shuffle=False)
        with pytest.raises(RuntimeError) as ours:
            epochs(batched(data.with_format(form)), shuffle=False)
        assert str(ours.value) == str(plain.value)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_gives_the_same_batches_in_workers() -> None:
    settings: dict[str, Any] = {"num_workers": 1, "num_epochs": 1}
    ours = epochs(batched(table().with_format("torch")), **settings)
    assert_same_epochs(ours, epochs(table().with_format("torch"), **settings))


def test_a_table_has_no_items_of_its_own() -> None:
    for data in (pa.table({"a": [1, 2]}), pa.array([1, 2])):
        with pytest.raises(UserError, match="columns"):
            batched(data)


def test_the_lever_wraps_it() -> None:
    patch = Patch()
    BatchedFetch().install(patch)
    try:
        assert type(DataLoader(table()).dataset) is BatchedDataset
    finally:
        patch.undo()
