"""What the user wishes of an experiment."""

from dataclasses import dataclass
from pathlib import Path

# Where no GPU is here and none is named: the one that the founding question asks about.
USUAL_GPU = "RTX 4090"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """None, and empty, mean: the experiment's own choice."""

    quick: bool = False
    """Smaller and fewer: under 20 s."""
    gpu: tuple[str, ...] = ()
    """Names of GPUs to predict for, as the catalogue knows them."""
    data: Path | None = None
    """Folder with MNIST's idx files."""
    budget_s: float | None = None
    """For the part in which changes are tried."""
    words: tuple[str, ...] = ()
    """The user's script with its arguments."""
