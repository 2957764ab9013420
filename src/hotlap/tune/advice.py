"""What a person could do where no lever helps."""

from hotlap.experiment import Stack
from hotlap.record import Phase, Run
from hotlap.units import duration, percent

# As input-bound in the vendors' rules: from here on a training is highly so (XProf).
_MUCH = 0.20

# Items made sooner than this are rows in memory already; from any file they come later.
_EXPENSIVE_S = 200e-6

_KEEP_ITEMS = {"cached-dataset", "cached-prefix", "device-resident"}


def faster_storage(profile: Run, stack: Stack) -> str | None:
    """Where making items is still much of the step, and none of the accepted levers keeps them: what else there is."""
    share, wait_s = profile.share(Phase.INPUT), profile.mean_phase_s(Phase.INPUT)
    loaders = [one for one in profile.loaders if one.trained_on and one.num_items]
    expensive = [one for one in loaders if (one.item_s or 0.0) >= _EXPENSIVE_S]
    keeps = _KEEP_ITEMS & {str(spec["name"]) for spec in stack}
    if not expensive or keeps or share is None or wait_s is None or share < _MUCH:
        return None
    return (
        f"Each step still waits {duration(wait_s)} ({percent(share)} of it) for its batch; making one item of "
        f"{expensive[0].dataset} takes {duration(expensive[0].item_s or 0.0)}. What is always the same in them "
        "(reading, decoding) can be done once for all runs and written to files that are read sooner: those of Hugging "
        "Face `datasets` keep items by number, so that any sampler works; litdata and WebDataset read them as streams."
    )
