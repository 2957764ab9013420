"""cached-prefix: what comes before the first random draw of an item is done once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Scope
from hotlap.levers.loaders import (
    NO_LINE,
    NO_LOADER,
    hardly_waits,
    made_anew,
    refused_by_all,
    saves_at_most_s,
    wrapping_edits,
)
from hotlap.record import Ceiling, LoaderFacts, Machine, Run
from hotlap.source import Edit


@final
@dataclass(frozen=True, slots=True)
class CachedPrefix(Lever):
    """Wraps data sets with random transforms in `hotlap.data.cached_prefix`.

    What: reading, decoding, and the transforms in front of the first random one are done once for each item; the others
    run on, each time, with a copy of what they would be handed and the draws that they would make.
    Why: with random augmentation no item can be kept, yet decoding a picture and making it smaller often takes most of
    its time (tf.data's guide puts `cache` in front of the random part for this reason; pytorch/pytorch#26957).
    When it hurts: decoded pictures take memory (ten times their files), and beyond it the disk must be faster than the
    decoder. A data set that counts, logs or changes things as it is read does so less often. Data sets that cannot be
    cut without changing an item are noticed, and left alone.
    What changes: as for cached-dataset. Before each epoch all that items are made from is compared, and heads are
    dropped where anything differs, a setting of a random transform too: after three such epochs no heads are kept. What
    cannot be compared is refused, and what is not seen is the same.
    """

    name: ClassVar[str] = "cached-prefix"
    scope: ClassVar[Scope] = Scope.LOADER
    numerics: ClassVar[Numerics] = Numerics.EXACT
    function: ClassVar[str] = "cached_prefix"

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """What the loaders read, then what there is to gain."""
        if not run.loaders:
            return NO_LOADER
        if machine.system != "Linux":
            return f"Heads lie in memory that forked processes share; this is {machine.system}."
        refused = refused_by_all(run, _refuses)
        if refused is not None:
            return refused
        return hardly_waits(run) or (None if self.edits(run) else NO_LINE)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step waits for its batch, or what the ceiling promises at best: whichever is more."""
        return saves_at_most_s(run, ceilings)

    def edits(self, run: Run) -> Sequence[Edit]:
        """`cached_prefix(...)` around the data set of each loader that is served."""
        return wrapping_edits(run, [loader for loader in run.loaders if _refuses(loader) is None], "cached_prefix")


def _refuses(loader: LoaderFacts) -> str | None:
    if loader.num_items is None:
        return f"{loader.dataset} is an iterable data set: it has no items to look up by number."
    if loader.dataset_anew:
        return made_anew(loader)
    if loader.deterministic is True:
        return f"Items of {loader.dataset} are always the same, so they can be kept whole (cached-dataset)."
    if loader.deterministic is False and "draws" not in (loader.why_not or "draws"):
        return f"Items of {loader.dataset} depend on hidden state ({loader.why_not})."
    return None
