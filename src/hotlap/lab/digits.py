"""Which handwritten digits a training gets: MNIST's files where the user has them, else those that are bundled."""

import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hotlap.errors import UserError
from hotlap.lab.settings import Settings

NUM_ITEMS = 60_000
BATCH_SIZE = 64
_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
# Where torchvision puts what it downloads.
_WITHIN = ("", "MNIST/raw", "raw")


def check(settings: Settings) -> None:
    """Refuse before anything runs what could not be trained on.

    Raises:
        UserError: the folder has no MNIST, or a package is missing.
    """
    if find_spec("PIL") is None:
        raise UserError("Pillow is needed for the images: pip install pillow.")
    if settings.data is not None:
        found(settings.data)
    elif find_spec("sklearn") is None:
        raise UserError("Give --data DIR with MNIST's files, or pip install scikit-learn for its digits.")


def prepared(settings: Settings, folder: Path, *, count: int) -> tuple[Path, str]:
    """The folder with the files of a training, and the sentence that says which data they are.

    Arguments:
        folder: where the bundled digits are put, as MNIST is distributed.
        count: of them.
    """
    if settings.data is not None:
        return found(settings.data).resolve(), f"The data are MNIST, from {settings.data}."
    images, labels = _bundled(count)
    header = struct.pack(">4i", 2051, len(images), *images.shape[1:])
    (folder / _FILES[0]).write_bytes(header + images.tobytes())
    (folder / _FILES[1]).write_bytes(struct.pack(">2i", 2049, len(labels)) + labels.tobytes())
    return folder, (
        "The data are not MNIST but scikit-learn's 1,797 digits, enlarged to 28 x 28 and shifted to as many images: "
        "as much work, an easier task. --data DIR takes MNIST's own files."
    )


def _bundled(count: int) -> tuple[Any, Any]:
    """Images (N, 28, 28) and labels (N,), bytes both."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    large = [Image.fromarray((one * 15.9).astype(np.uint8)).resize((28, 28)) for one in digits.images]
    images = np.stack([np.asarray(one) for one in large])
    shifts = [(y, x) for y in range(-3, 4) for x in range(-3, 4)]
    needed = -(-count // len(images))
    moved = [np.roll(images, shifts[k % len(shifts)], axis=(1, 2)) for k in range(needed)]
    return np.concatenate(moved)[:count], np.tile(digits.target, needed)[:count].astype(np.uint8)


def found(folder: Path) -> Path:
    """The folder with the files, at `folder` or where torchvision has them below it.

    Raises:
        UserError: there are none.
    """
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}. Give the one with {_FILES[0]}.gz.")
    for part in _WITHIN:
        place = folder / part
        if all((place / name).is_file() or (place / f"{name}.gz").is_file() for name in _FILES):
            return place
    raise UserError(f"{folder} has no {_FILES[0]} and {_FILES[1]} (.gz or not), as MNIST is distributed.")
