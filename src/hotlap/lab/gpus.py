"""Which GPU an experiment speaks of: the one that is here, or one that is predicted."""

from collections.abc import Sequence
from dataclasses import dataclass

from hotlap.cli.traced import Traced
from hotlap.errors import UserError
from hotlap.lab import Settings
from hotlap.predict import forecast, resolve
from hotlap.record import Prediction

# Where no GPU is here and none is named: the one that the founding question asks about.
USUAL_GPU = "RTX 4090"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device."""

    name: str
    predicted: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """For the reader."""
        note = f"Torch finds no GPU here, so figures of one are predictions for the {self.name} (--gpu NAME)."
        return (note,) if self.predicted else ()


def chosen(settings: Settings, here: Sequence[str]) -> Gpu:
    """The first of those that are `here`; else the first that the user names, or the usual one."""
    if here:
        return Gpu(name=here[0], predicted=False)
    return Gpu(name=names(settings)[0], predicted=True)


def names(settings: Settings) -> tuple[str, ...]:
    """Those to predict for, by their names in the catalogue.

    Raises:
        UserError: one is not known.
    """
    return tuple(resolve(name).device.name for name in settings.gpu or (USUAL_GPU,))


def there(known: Traced, target: str, *, number: int = 1) -> Prediction:
    """The traced step on so many GPUs, from the time that it takes here where the catalogue knows this device."""
    device, step_s = known.device, known.step_s
    try:
        resolve(device or "")
    except UserError:
        device = step_s = None
    return forecast(known.work, target=target, count=number, measured_on=device, measured_step_s=step_s)
