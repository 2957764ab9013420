"""What is recorded at each step and must be the same under every contract."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hotlap.gate.evidence import Pair
from hotlap.record import Run

# A learning rate that a lever keeps as a float32 tensor differs from the script's by 6e-8 of itself.
RATE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class StepField:
    """Something recorded at each step, which must be the same with and without the lever."""

    name: str
    values: Callable[[Run], Sequence[object] | None]
    of_optimizer: bool = False
    """A script without an optimizer has none of it, and is not compared by it: updates by hand are not seen."""
    of_loader: bool = False
    """Who draws its batches by hand has none of it, but for a validation's, and is not compared by it."""
    article: str = "other"
    """With the name it makes "step 7 has another loss than the baseline"."""
    told: Callable[[Run, Run], str] = lambda _a, _b: ""
    """"momentum 0.0 instead of 0.9": what a digest does not tell; "" where that is unknown."""

    def first(self, a: Run, b: Run) -> tuple[int, str] | None:
        """The first step at which two runs differ in it, and the sentence that tells of it."""
        mine, others = self.values(a), self.values(b)
        if mine is None or others is None or (mine == others and a.step_index == b.step_index):
            return None
        if self.of_loader and not (any(a.num_samples) and any(b.num_samples)):
            return None
        if self.of_optimizer and not has_optimizer(a):
            return None
        for step, was, became in Pair(a, b).of_both(self.values):
            if not _same(was, became):
                what = self.told(a, b) or f"{_short(became)} instead of {_short(was)}"
                return step, f"Step {step} has {self.article} {self.name} than the baseline: {what}."
        return None

    def differing(self, a: Run, b: Run) -> dict[str, str]:
        """As `Differing`."""
        found = self.first(a, b)
        return {} if found is None else {self.name: found[1]}


def _settings_told(a: Run, b: Run) -> str:
    pairs = [(one.settings, other.settings) for one, other in zip(a.optimizers, b.optimizers, strict=False)]
    found = ", ".join(
        f"{key} {became.get(key, 'unset')} instead of {was.get(key, 'unset')}"
        for was, became in pairs
        for key in sorted(was.keys() | became.keys())
        if was.get(key) != became.get(key)
    )
    return found or ("the same values, for other parameters or at other steps" if any(map(any, pairs)) else "")


FIELDS = (
    StepField("updates", lambda run: run.num_updates or None, of_optimizer=True),
    StepField("optimizer settings", lambda run: run.settings_digest, of_optimizer=True, told=_settings_told),
    StepField(
        "starts of a loader", lambda run: [i in run.epoch_starts for i, _ in enumerate(run.step_index)], of_loader=True
    ),
    StepField("losses", lambda run: tuple("none" if loss is None else "one" for loss in run.loss)),
)
RATES = StepField("learning rates", lambda run: run.learning_rates, of_optimizer=True)
FORGETFUL = StepField("updates without what the optimizer had kept", lambda run: run.forgetful_updates)
SAMPLES = StepField("samples", lambda run: run.num_samples or None, of_loader=True)
BATCH = StepField("batch", lambda run: run.batch_digest, article="another")
"""Of another seed it is another one."""
RANDOM_STATE = StepField("random state", lambda run: run.rng_digest, article="another")
SOURCES = StepField("random states", lambda run: run.sources_digest)
"""Those of generators of the script's own among them, and as each batch left them."""


def has_optimizer(run: Run) -> bool:
    """It has one that torch knows."""
    return any(run.num_updates) or bool(run.optimizers)


def _same(a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(
            abs(x - y) <= RATE_TOLERANCE * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True)
        )
    return a == b


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{x:g}" for x in value)
    return value[:12] if isinstance(value, str) else str(value)
