"""Which handwritten digits a training gets: MNIST's files where the user has them, else those that are bundled."""

from importlib.util import find_spec
from pathlib import Path

from hotlap.errors import UserError
from hotlap.lab.settings import Settings

NUM_ITEMS = 60_000
BATCH_SIZE = 64
_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
# Where torchvision puts what it downloads.
_WITHIN = ("", "MNIST/raw", "raw")


def words(settings: Settings) -> tuple[tuple[str, ...], str]:
    """Options of scripts/mnist.py, and the sentence that says which data they are.

    Raises:
        UserError: the folder has no MNIST, or a package is missing.
    """
    if find_spec("PIL") is None:
        raise UserError("Pillow is needed for the images: pip install pillow.")
    if settings.data is not None:
        folder = found(settings.data)
        return ("--data", str(folder.resolve())), f"The data are MNIST, from {settings.data}."
    if find_spec("sklearn") is None:
        raise UserError(
            "Give --data DIR with MNIST's files, or pip install scikit-learn for the digits bundled with it."
        )
    return (), (
        "The data are not MNIST but scikit-learn's 1,797 digits, enlarged to 28 x 28 and shifted to as many images: "
        "as much work, an easier task. --data DIR takes MNIST's own files."
    )


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
