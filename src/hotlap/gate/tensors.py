"""The tensors that optimizers train: as many elements in another number of them cannot be compared one by one."""

from collections.abc import Sequence

from hotlap.gate.evidence import Pair, Ruling, undecided
from hotlap.record import Run
from hotlap.units import plural

# Of what `OptimizerFacts.settings` counts.
_REQUIRE_GRADIENTS = "parameters that require gradients"


def cut_otherwise(pairs: Sequence[Pair]) -> Ruling | None:
    """UNDECIDED where as many elements are trained in another number of tensors: several layers that are one now."""
    for (tensors, elements), (others, same) in ((_trained(pair.base), _trained(pair.lever)) for pair in pairs):
        if tensors and others and tensors != others and elements == same:
            return undecided(
                f"Parameters are cut otherwise, {plural(others, 'tensor')} of {same:,} elements together instead of "
                f"{tensors}: their updates cannot be set side by side."
            )
    return None


def _trained(run: Run) -> tuple[int, int]:
    """(tensors, elements) of all optimizers; no tensor where some of them require no gradients."""
    numbers = [(one.num_parameters, one.num_elements) for one in run.optimizers]
    tensors, elements = (sum(column) for column in zip(*numbers, strict=True)) if numbers else (0, 0)
    all_train = all(one.settings.get(_REQUIRE_GRADIENTS) == str(one.num_parameters) for one in run.optimizers)
    return (tensors if all_train else 0), elements
