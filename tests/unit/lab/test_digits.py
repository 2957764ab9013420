"""Which handwritten digits a training gets."""

import struct
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.lab import digits
from hotlap.lab.settings import Settings


def test_mnist_is_found_where_it_lies_or_where_torchvision_puts_it(tmp_path: Path) -> None:
    place = tmp_path / "MNIST" / "raw"
    place.mkdir(parents=True)
    with pytest.raises(UserError, match="has no train-images-idx3-ubyte"):
        digits.found(tmp_path)
    (place / "train-images-idx3-ubyte.gz").touch()
    (place / "train-labels-idx1-ubyte").touch()
    assert digits.found(tmp_path) == place
    assert digits.found(place) == place


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no folder"):
        digits.check(Settings(data=tmp_path / "nowhere"))


def test_bundled_digits_have_mnists_form_and_are_said_not_to_be_mnist(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    folder, about = digits.prepared(Settings(), tmp_path, count=2_000)
    assert digits.found(folder) == folder
    images = (folder / "train-images-idx3-ubyte").read_bytes()
    labels = (folder / "train-labels-idx1-ubyte").read_bytes()
    assert images[:16] == struct.pack(">4i", 2051, 2_000, 28, 28)
    assert len(images) == 16 + 2_000 * 28 * 28
    assert len(labels) == 8 + 2_000
    assert set(labels[8:]) == set(range(10))
    assert "not MNIST" in about
