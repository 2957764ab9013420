"""Which GPU an experiment speaks of: the one that is here, or one that is predicted."""

from dataclasses import dataclass

from hotlap.cli.traced import Traced
from hotlap.errors import UserError
from hotlap.lab.settings import USUAL_GPU, Settings
from hotlap.predict import forecast, resolve
from hotlap.record import Prediction

# Letters whose names begin with a vowel: "an RTX 4090", "an H100".
_SPELT_WITH_A_VOWEL = frozenset("AEFHILMNORSX8")


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
    def takes(self) -> str:
        """Its verb."""
        return "would take" if self.predicted else "takes"

    @property
    def here(self) -> tuple[str, ...]:
        """Its name, where it was measured."""
        return () if self.predicted else (self.name,)

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


def there(known: Traced, target: str, *, number: int = 1) -> Prediction:
    """The traced step on so many GPUs, from the time that it takes here where the catalogue knows this device."""
    try:
        resolve(known.device or "", extra=known.devices)
    except UserError:
        return forecast(known.work, target=target, count=number)
    return forecast(
        known.work,
        target=target,
        count=number,
        measured_on=known.device,
        measured_step_s=known.step_s,
        devices=known.devices,
    )


def an(name: str) -> str:
    """With its article: "an RTX 4090", "a Tesla K40"."""
    first = name.split(" ", maxsplit=1)[0]
    vowel = first[:1] in _SPELT_WITH_A_VOWEL if first == first.upper() else first[:1].upper() in set("AEIOU")
    return f"{'an' if vowel else 'a'} {name}"
