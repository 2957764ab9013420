"""Which GPU an experiment speaks of: the one that is here, or one that is predicted."""

from dataclasses import dataclass

from hotlap import machine
from hotlap.errors import UserError
from hotlap.lab.settings import USUAL_GPU, Settings
from hotlap.lab.words import an
from hotlap.predict import Device, resolve
from hotlap.predict.catalogue import unknown_cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device."""

    name: str
    predicted: bool

    @property
    def title(self) -> str:
        """For a sentence."""
        return f"The {self.name} (predicted)" if self.predicted else f"The {self.name} here"

    @property
    def subject(self) -> str:
        """The same within a sentence."""
        return f"{self.title[0].lower()}{self.title[1:]}"

    @property
    def notes(self) -> tuple[str, ...]:
        """For the reader."""
        if not self.predicted:
            return ()
        return (
            f"There is no GPU here that torch can use, so all figures of a GPU are predictions for {an(self.name)} "
            "(hotlap predict); --gpu NAME asks for another one.",
        )


def chosen(settings: Settings, *, here: str | None) -> Gpu:
    """The GPU that was measured; else the first that the user names, or the usual one."""
    if here is not None:
        return Gpu(name=here, predicted=False)
    return Gpu(name=names(settings)[0], predicted=True)


def names(settings: Settings) -> tuple[str, ...]:
    """Those to predict for, by their names in the catalogue.

    Raises:
        UserError: one is not known.
    """
    return tuple(resolve(name).device.name for name in settings.gpu or (USUAL_GPU,))


def measured_on(device: str) -> tuple[str | None, tuple[Device, ...]]:
    """The device of a run as forecasts know it; None where the catalogue does not know that GPU."""
    if device == "cpu":
        return here()
    try:
        resolve(device)
    except UserError:
        return None, ()
    return device, ()


def here() -> tuple[str, tuple[Device, ...]]:
    """This machine's processor as forecasts know it, and the devices that they must be told of for that."""
    found = machine.look()
    try:
        resolve(found.processor)
    except UserError:
        return found.processor, (unknown_cpu(found.processor, cores=found.num_cores),)
    return found.processor, ()
