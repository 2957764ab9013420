"""What the gate compares of optimizers, step by step: their settings, what they keep, and what updates do."""

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
import xxhash
from torch._subclasses.fake_tensor import is_fake

from hotlap.probe import unseen
from hotlap.probe.formula import departures
from hotlap.probe.sampling import direction, projections, sampled
from hotlap.probe.states import Place, held
from hotlap.record import Update, as_number
from hotlap.units import plural

# Parameters are compared before and after the update at the first steps, where a wrong update shows at once, and then
# at some of them: each comparison copies the parameters.
_FIRST_UPDATES = 3
# The first one is that of the same weights; the next one shows what moving these does to it (`Perturbation`).
_FIRST_GRADIENTS = 2
_SHARE_OF_UPDATES = 1 / 6
_GOLDEN = (5**0.5 - 1) / 2

# A part of a gradient's largest element that float32 hardly resolves in a sum: its unit roundoff is 6e-8.
_RESIDUE = 1e-6

# An average of what stands still drifts by some units in its last place: 0.99 x + 0.01 x is not x. Below this part of
# its size it has not moved.
_STANDING = 1e-6

_UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.float64: 2.0**-53, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


class Lapses:
    """Counts backward passes that have added to the gradients of updates since one found these cleared, and
    updates of parameters of which the optimizer has lost what it kept, or another one before it: averages, momentum."""

    def __init__(self) -> None:
        self._found: dict[int, list[tuple[int, int]]] = {}
        self._num_passes: dict[int, int] = {}
        self._kept: dict[int, weakref.ref[torch.Tensor]] = {}
        self._num_added = self._num_lost = 0

    def backward_begins(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """What it finds of their gradients."""
        for optimizer in optimizers:
            if not any(_holds(param.grad) for param in _params(optimizer)):
                self._num_passes[id(optimizer)] = 0
            self._found[id(optimizer)] = _versions(optimizer)

    def backward_ended(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """What it has made of them: none of networks that it does not reach."""
        for optimizer in optimizers:
            if self._found.get(id(optimizer)) not in (None, _versions(optimizer)):
                self._num_passes[id(optimizer)] = self._num_passes.get(id(optimizer), 0) + 1

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to step."""
        known = (param for param in _params(optimizer) if id(param) in self._kept)
        lost = (param for param in known if not _keeps(optimizer.state.get(param)))
        # Another tensor may lie where one was that is gone.
        self._num_lost += any(self._kept[id(param)]() is param for param in lost)

    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """It has stepped: in a closure backward passes come within its step."""
        self._num_added += self._num_passes.get(id(optimizer), 0)
        self._kept |= {id(param): weakref.ref(param) for param, state in optimizer.state.items() if _keeps(state)}

    def take(self) -> tuple[int, int]:
        """Such passes and updates since the last call."""
        found = self._num_added, self._num_lost
        self._num_added = self._num_lost = 0
        return found


def _params(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    return (param for group in optimizer.param_groups for param in group["params"])


def _versions(optimizer: torch.optim.Optimizer) -> list[tuple[int, int]]:
    """Others once anything was written to its gradients."""
    gradients = (param.grad for param in _params(optimizer))
    return [(id(one), one._version) for one in gradients if one is not None and not one.is_inference()]


def _keeps(state: Mapping[str, Any] | None) -> bool:
    return any(isinstance(value, torch.Tensor) for value in (state or {}).values())


def _holds(grad: torch.Tensor | None) -> bool:
    return grad is not None and grad.layout == torch.strided and bool(grad.any())


class Clips:
    """Limits to which gradients were clipped, and whether one was beyond: where none is, no loss shows the limit."""

    def __init__(self) -> None:
        self._limits: set[str] = set()
        self._clipped = False

    def add(self, what: str, limit: Any, norm: torch.Tensor | None) -> None:
        """Gradients were clipped to `limit`; before, they had `norm` (None: not known)."""
        limit = float(limit)
        self._limits.add(f"{what} {limit:g}")
        self._clipped |= norm is not None and float(norm) > limit

    def take(self) -> tuple[str, bool] | None:
        """As `Run.clips`, since the last call. What compiled code clips is not seen."""
        limits, clipped, self._limits, self._clipped = self._limits, self._clipped, set(), False
        return (" and ".join(sorted(limits)), clipped) if limits or not unseen.compiles else None


# What picks a kernel, not a formula: levers may change it.
_KERNEL_CHOICES = frozenset({"params", "fused", "foreach", "capturable"})


@dataclass(frozen=True, slots=True)
class Trained:
    """What a parameter is trained by."""

    param: torch.Tensor
    optimizer: torch.optim.Optimizer
    group: Mapping[str, Any]

    def settings(self) -> list[tuple[str, str]]:
        """Those of its optimizer without the learning rate: what else is in a group was put there by others."""
        return [(key, _told_setting(self.group.get(key))) for key in _settings(self.optimizer)]


def settings_of(optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """Name -> its value: "0.01", "0.0 for 2 parameters and 0.01 for 1 parameter"; and how many are trained."""
    groups = optimizer.param_groups
    each = {
        key: Counter(text for group in groups for text in [_told_setting(group.get(key))] * len(group["params"]))
        for key in _settings(optimizer)
    }
    trained = sum(param.requires_grad for group in groups for param in group["params"])
    return {
        "parameters that require gradients": str(trained),
        **{key: _told_settings(values) for key, values in each.items()},
    }


def _told_settings(values: Counter[str]) -> str:
    if len(values) == 1:
        return next(iter(values))
    return " and ".join(f"{value} for {plural(number, 'parameter')}" for value, number in sorted(values.items()))


def _settings(optimizer: torch.optim.Optimizer) -> list[str]:
    return sorted(optimizer.defaults.keys() - _KERNEL_CHOICES - {"lr"})


def _told_setting(value: Any) -> str:
    """The same text for 0, 0.0 and a tensor of it."""
    if isinstance(value, list | tuple):
        return ",".join(map(_told_setting, value))
    is_number = isinstance(value, int | float) or (isinstance(value, torch.Tensor) and value.numel() == 1)
    return repr(float(value)) if is_number else repr(value)


def settings_digest(trained: Iterable[Trained]) -> str:
    """Digest of all settings of all parameters except learning rates, which are recorded as numbers."""
    rows = [(settings, len(list(those))) for settings, those in groupby(trained, Trained.settings)]
    return xxhash.xxh3_128_hexdigest(repr(rows).encode())


def learning_rates(trained: Iterable[Trained]) -> tuple[float, ...]:
    """(G,) where the next parameter has another one than the parameter before."""
    return tuple(rate for rate, _ in groupby(float(one.group["lr"]) for one in trained if "lr" in one.group))


class Updates:
    """Compares the parameters before and after some of the steps, and what the optimizers made of the gradients.

    Of a large parameter, some tens of thousands of its elements (`hotlap.probe.sampling`). Beside them, how far what no
    optimizer trains has come since the first update.
    """

    def __init__(self) -> None:
        self.seen: list[Update] = []
        self._before: list[torch.Tensor] | None = None
        self._params: list[torch.Tensor] = []
        self._labels: dict[int, str] = {}
        self._gradients: dict[int, tuple[float, float, float, str | None, tuple[float, ...] | None]] = {}
        self._departed: Callable[[], dict[int, float]] = dict
        """Of the optimizer that steps."""
        self._departures: dict[int, float] = {}
        self._untrained: list[tuple[Place, torch.Tensor]] | None = None
        self._trained_now: set[int] = set()

    @staticmethod
    def wanted(step: int) -> bool:
        """The first steps, then powers of two, then about one step in six.

        Multiples of the golden ratio fall evenly between whole numbers, so that no fault that comes each so many steps
        can keep out of the way.
        """
        return step < _FIRST_UPDATES or step & (step - 1) == 0 or (step * _GOLDEN) % 1.0 < _SHARE_OF_UPDATES

    @property
    def untrained(self) -> tuple[str, ...]:
        """(B,) what `Update.buffers` tells of."""
        return tuple(place.label for place, _ in self._untrained or ())

    @property
    def trained(self) -> tuple[str, ...]:
        """(P,) what `Update.norms` tells of."""
        return tuple(self._labels.get(id(p), f"parameter {k}") for k, p in enumerate(self._params))

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        """It is about to step. What it trains may require no gradient again before the step of the training is over: a
        discriminator, while its generator is trained."""
        self._trained_now.update(id(param) for param in _params(optimizer) if param.requires_grad)

    def in_order(self, optimizers: Iterable[torch.optim.Optimizer]) -> list[Trained]:
        """(P,) by shape, and then as models hold them, once an update was seen; what came later is last."""
        ranks = {address: rank for rank, address in enumerate(self._labels)}
        found = (Trained(p, one, group) for one in optimizers for group in one.param_groups for p in group["params"])
        training = (each for each in found if each.param.requires_grad or id(each.param) in self._trained_now)
        return sorted(training, key=lambda each: (tuple(each.param.shape), ranks.get(id(each.param), len(ranks))))

    def before(self, optimizers: list[torch.optim.Optimizer], optimizer: torch.optim.Optimizer | None) -> None:
        """`optimizer`, one of them, is about to step. None: what it does cannot be foreseen."""
        if self._untrained is None:
            self._labels, places = held([each.param for each in self.in_order(optimizers)])
            found = ((place, place.tensor()) for place in places)
            self._untrained = [(place, sampled(first).clone()) for place, first in found if first is not None]
        if self._before is None:
            params = self._params = [each.param for each in self.in_order(optimizers)]
            self._before = [sampled(p).clone() for p in params]
        if optimizer is None:
            return
        # Fused kernels leave gradients scaled until they read them.
        scale = float(getattr(optimizer, "grad_scale", None) or 1.0)
        for param in _params(optimizer):
            if param.grad is not None and param.grad.layout == torch.strided:
                gradient = sampled(param.grad) / scale
                projected = projections(param.grad / scale) if len(self.seen) < _FIRST_GRADIENTS else None
                self._gradients[id(param)] = _norm(gradient), *_filled(gradient), direction(param.grad), projected
        self._departed = departures(optimizer)

    def stepped(self) -> None:
        """That optimizer has stepped."""
        for address, departure in self._departed().items():
            # A parameter that is updated twice in a step is as wrong as its worst update.
            self._departures[address] = max(departure, self._departures.get(address, 0.0))
        self._departed = dict

    def after(self, step: int) -> None:
        """The step is over."""
        self._trained_now = set()
        if self._before is None:
            return
        norms, changed = [], []
        for old, new in zip(self._before, self._params, strict=True):
            difference = sampled(new) - old
            norms.append(as_number(_norm(difference)))
            changed.append(float((difference != 0).double().mean()) if difference.numel() else 0.0)
        addresses = [id(param) for param in self._params]
        gradients = [self._gradients.get(address) for address in addresses]
        departures = [self._departures.get(address) for address in addresses]
        ways = [_way(place.tensor(), first) for place, first in self._untrained or ()]
        self.seen.append(
            Update(
                step=step,
                norms=tuple(norms),
                changed=tuple(changed),
                gradients=tuple(None if found is None else as_number(found[0]) for found in gradients),
                filled=tuple(None if found is None else found[1] for found in gradients),
                residues=tuple(None if found is None else found[2] for found in gradients),
                starts=tuple(as_number(_norm(one)) for one in self._before) if not self.seen else None,
                projections=tuple(one and one[4] for one in gradients) if len(self.seen) < _FIRST_GRADIENTS else None,
                departures=tuple(None if found is None else as_number(found) for found in departures),
                buffers=tuple(None if way is None else as_number(way[1]) for way in ways),
                directions=(
                    *(None if found is None else found[3] for found in gradients),
                    *(None if way is None else direction(way[0]) for way in ways),
                ),
            )
        )
        self._before, self._gradients, self._departures = None, {}, {}


def _way(now: torch.Tensor | None, first: torch.Tensor) -> tuple[torch.Tensor, float] | None:
    """From what was first there to what is now, and how far; None if that is gone, or another one."""
    if now is None or (sample := sampled(now)).shape != first.shape or sample.device != first.device:
        return None
    way = sample - first
    size = _norm(way)
    return way, 0.0 if size <= _STANDING * _norm(first) else size


def _filled(gradient: torch.Tensor) -> tuple[float, float]:
    """Part of the elements that are not 0, and part of all that are residues."""
    if not gradient.numel():
        return 0.0, 0.0
    sizes = gradient.abs()
    not_zero = sizes != 0
    return float(not_zero.double().mean()), float((not_zero & (sizes < _RESIDUE * sizes.max())).double().mean())


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor.double()))


class Perturbation:
    """Moves each parameter by at most one unit in the last place: what rounding alone can do; that of bfloat16 where
    the seed is below 0."""

    def __init__(self, seed: int) -> None:
        self._units = dict.fromkeys(_UNIT_ROUNDOFF, _UNIT_ROUNDOFF[torch.bfloat16]) if seed < 0 else _UNIT_ROUNDOFF
        # Its own generator: the script's random streams must stay as they are.
        self._generator = torch.Generator().manual_seed(seed)
        self._by_hand: list[weakref.ref[torch.Tensor]] = []

    def apply(self, params: Sequence[torch.Tensor]) -> None:
        """Change them in place. Without any, the script has no optimizer: what takes gradients is changed."""
        with torch.no_grad():
            for param in params or self._trained_by_hand():
                roundoff = self._units.get(param.dtype)
                if roundoff is None:
                    continue
                signs = torch.randint(-1, 2, param.shape, generator=self._generator, dtype=torch.int8)
                param.data.addcmul_(param.data, signs.to(param.device, param.dtype), value=roundoff)

    def _trained_by_hand(self) -> list[torch.Tensor]:
        """Looked for again where one is gone: that takes some hundredths of a second."""
        known = [found for one in self._by_hand if (found := one()) is not None]
        if not known or len(known) < len(self._by_hand):
            # (Compilers keep fake tensors alive, which hold no numbers.)
            every = (one for one in gc.get_objects() if issubclass(type(one), torch.Tensor) and not is_fake(one))
            known = [one for one in every if one.is_leaf and one.requires_grad]
            self._by_hand = [weakref.ref(one) for one in known]
        return known
