"""cached-prefix: what comes before the first random draw of an item is done once."""

from hotlap.levers.loaders import DataWrapper, always_the_same, made_anew
from hotlap.record import LoaderFacts, Run


class CachedPrefix(DataWrapper):
    """Wraps data sets with random transforms in `hotlap.data.cached_prefix`.

    What: reading, decoding, and the transforms in front of the first random one are done once for each item; the others
    run on, each time, with a copy of what they would be handed and the draws that they would make. Where the data set
    draws in no pipeline of transforms but in its own `__getitem__`, its statements in front of the first draw are.
    Why: with random augmentation no item can be kept, yet decoding a picture and making it smaller often takes most of
    its time (tf.data's guide puts `cache` in front of the random part for this reason; pytorch/pytorch#26957).
    When it hurts: decoded pictures take memory (ten times their files), and beyond it the disk must be faster than the
    decoder. A data set that counts, logs or changes things as it is read does so less often. Data sets that cannot be
    cut without changing an item are noticed, and left alone.
    When data change: as for cached-dataset. Before each epoch all that items are made from is compared, and heads are
    dropped where anything differs, a setting of a random transform too: after three such epochs no heads are kept. What
    cannot be compared is refused, and what is not seen is the same.
    """

    function = "cached_prefix"

    def leaves(self, run: Run, loader: LoaderFacts) -> str | None:
        """It serves items that draw random numbers, of a data set that lasts."""
        if loader.dataset_anew:
            return made_anew(loader)
        if loader.deterministic is True:
            return always_the_same(loader)
        if loader.deterministic is False and "draws" not in (loader.why_not or "draws"):
            return f"Items of {loader.dataset} depend on hidden state ({loader.why_not})."
        return None
