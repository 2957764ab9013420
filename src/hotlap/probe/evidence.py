"""What the gate compares, taken step by step: digests of samples and random states, updates of the parameters."""

import hashlib
import random
import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch

from hotlap import accelerator
from hotlap.probe.formula import Formula
from hotlap.probe.sampling import direction, sampled
from hotlap.probe.states import Place, held
from hotlap.record import Update, as_number

# Parameters are compared before and after the update at the first steps, where a wrong update shows at once, and then
# at some of them: each comparison copies the parameters.
_FIRST_UPDATES = 3
_SHARE_OF_UPDATES = 1 / 6
_GOLDEN = (5**0.5 - 1) / 2

# A part of a gradient's largest element that float32 hardly resolves in a sum: its unit roundoff is 6e-8.
_RESIDUE = 1e-6

_UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.float64: 2.0**-53, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of nested lists, tuples and mappings, in order."""
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def num_samples(batch: Any) -> int | None:
    """Length of the first tensor (or list of leaves) in a batch; None when it has none."""
    for leaf in leaves(batch):
        if isinstance(leaf, torch.Tensor):
            # A nested tensor has no shape, but this size.
            return leaf.size(0) if leaf.dim() else 1
    return len(batch) if isinstance(batch, list | tuple | dict) else None


class Digest:
    """Bytes of batches -> one short text a step, equal where batches are."""

    def __init__(self) -> None:
        self.fresh = Fresh()
        """Which of their tensors, each as a whole, had not come before."""
        self._begin()

    def _begin(self) -> None:
        self._hash = hashlib.blake2b(digest_size=12)
        self._used = False

    def add(self, batch: Any) -> None:
        """Take in every tensor, array and plain value of a batch."""
        self._used = True
        for leaf in leaves(batch):
            told = _told(leaf)
            self._hash.update(told)
            if isinstance(leaf, torch.Tensor):
                self.fresh.add([told])

    def take(self) -> str | None:
        """The digest of what was added since the last call; None if nothing was."""
        if not self._used:
            return None
        whole = self._hash.hexdigest()
        self._begin()
        return whole


class Fresh:
    """What is drawn -> how much of it is new, step by step.

    What comes again, and when, tells of a training's data in any form: scaled before or after the loader, drawn from it
    or by hand.
    """

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._drawn: Counter[bytes] = Counter()

    def add(self, digests: Iterable[bytes]) -> None:
        """Of what is drawn at once. Who looks at the same things again draws them no second time."""
        self._drawn |= Counter(digests)

    def take(self) -> float | None:
        """Part of what was drawn since the last call that had never come before; None if nothing was."""
        if not self._drawn:
            return None
        share = len(self._drawn.keys() - self._known) / self._drawn.total()
        self._known |= self._drawn.keys()
        self._drawn.clear()
        return share


class Clearings:
    """Counts updates by gradients that were never cleared since the update before, as a backward pass finds them."""

    def __init__(self) -> None:
        self._cleared: set[int] = set()
        self._num_stale = 0

    def look(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """A backward pass begins."""
        for optimizer in optimizers:
            if id(optimizer) not in self._cleared:
                params = (param for group in optimizer.param_groups for param in group["params"])
                if not any(_holds(param.grad) for param in params):
                    self._cleared.add(id(optimizer))

    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has stepped: in a closure backward passes come within its step."""
        self._num_stale += id(optimizer) not in self._cleared
        self._cleared.discard(id(optimizer))

    def take(self) -> int:
        """Such updates since the last call."""
        num_stale, self._num_stale = self._num_stale, 0
        return num_stale


class Memories:
    """Counts updates of parameters of which the optimizer has lost what it kept, or another one before it: averages,
    momentum."""

    def __init__(self) -> None:
        self._kept: dict[int, weakref.ref[torch.Tensor]] = {}
        self._num_lost = 0

    def update(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to step."""
        params = [param for group in optimizer.param_groups for param in group["params"]]
        lost = (param for param in params if id(param) in self._kept and not _keeps(optimizer.state.get(param)))
        # Another tensor may lie where one was that is gone.
        self._num_lost += any(self._kept[id(param)]() is param for param in lost)

    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """It has stepped."""
        self._kept |= {id(param): weakref.ref(param) for param, state in optimizer.state.items() if _keeps(state)}

    def take(self) -> int:
        """Such updates since the last call."""
        num_lost, self._num_lost = self._num_lost, 0
        return num_lost


def _keeps(state: Mapping[str, Any] | None) -> bool:
    return any(isinstance(value, torch.Tensor) for value in (state or {}).values())


def _holds(grad: torch.Tensor | None) -> bool:
    return grad is not None and grad.layout == torch.strided and bool(grad.any())


ELSEWHERE = 2


class Draws:
    """Tells where torch's random numbers are drawn within a step (`Run.draws`)."""

    def __init__(self) -> None:
        self._state = _generators()
        self._found: list[bool | None] = [None, None, False]

    def look(self, place: int) -> None:
        """What was drawn since the last look was drawn in that place."""
        before, self._state = self._state, _generators()
        self._found[place] = bool(self._found[place]) or before != self._state

    def take(self) -> tuple[bool | None, ...]:
        """(3,) of the step that is over."""
        self.look(ELSEWHERE)
        found, self._found = tuple(self._found), [None, None, False]
        return found


def _generators() -> bytes:
    return b"".join(_bytes(state.cpu()) for state in (torch.get_rng_state(), *accelerator.random_states()))


def samples(inputs: Any) -> Iterator[bytes]:
    """Digests of the rows of the first tensor that a model is called with, where it is data: without a gradient."""
    first = next((leaf for leaf in leaves(inputs) if isinstance(leaf, torch.Tensor)), None)
    if first is None or first.requires_grad or first.is_nested or first.layout != torch.strided:
        return
    if first.dim() and first.numel():
        rows = _bytes(_peeked(first).detach().resolve_conj().resolve_neg().cpu()).reshape(len(first), -1)
        for row in rows:
            # Padding is as long as the longest sample of a batch asks for.
            yield hashlib.blake2b(bytes(row).rstrip(b"\0"), digest_size=12).digest()


def _told(leaf: Any) -> bytes:
    """What is known of a leaf."""
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf).encode() if _is_plain(leaf) else type(leaf).__name__.encode()
    tensor = _peeked(leaf)
    if tensor.is_nested:
        return b"".join(_told(part) for part in tensor.unbind())
    return _digest_of(tensor.detach().resolve_conj().resolve_neg().cpu())


def _digest_of(flat: torch.Tensor) -> bytes:
    told = hashlib.blake2b(f"{flat.dtype}{tuple(flat.shape)}".encode(), digest_size=12)
    told.update(_bytes(flat))
    return told.digest()


def _peeked(tensor: torch.Tensor) -> torch.Tensor:
    # A batch of ours that knows of a copy on a device: after an ordinary use the script would not be given that copy.
    peek = getattr(type(tensor), "_hotlap_peek", None)
    return tensor if peek is None else peek(tensor)


def _bytes(flat: torch.Tensor) -> Any:
    if flat.layout != torch.strided:
        return repr(flat).encode()
    return flat.contiguous().reshape(-1).view(torch.uint8).numpy()


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | bytes | int | float | complex)


def rng_digest() -> str:
    """Digest of the states of the three global generators, and of the devices' where they are in use."""
    state = hashlib.blake2b(digest_size=12)
    state.update(_generators())
    state.update(str(random.getstate()).encode())
    if "numpy" in sys.modules:
        import numpy as np

        legacy: Any = np.random.get_state(legacy=False)
        state.update(legacy["state"]["key"].tobytes() + repr((legacy["state"]["pos"], legacy["gauss"])).encode())
    return state.hexdigest()


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
        known = sorted(self.optimizer.defaults.keys() - _KERNEL_CHOICES - {"lr"})
        return [(key, _told_setting(self.group.get(key))) for key in known]


def _told_setting(value: Any) -> str:
    """The same text for 0, 0.0 and a tensor of it."""
    if isinstance(value, list | tuple):
        return ",".join(map(_told_setting, value))
    is_number = isinstance(value, int | float) or (isinstance(value, torch.Tensor) and value.numel() == 1)
    return repr(float(value)) if is_number else repr(value)


def settings_digest(trained: Iterable[Trained]) -> str:
    """Digest of all settings of all parameters except learning rates, which are recorded as numbers."""
    rows = [(settings, len(list(those))) for settings, those in groupby(trained, Trained.settings)]
    return hashlib.blake2b(repr(rows).encode(), digest_size=12).hexdigest()


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
        self._gradients: dict[int, tuple[float, float, float, str | None]] = {}
        self._formula: Formula | None = None
        self._departures: dict[int, float] = {}
        self._untrained: list[tuple[Place, torch.Tensor]] | None = None

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

    def in_order(self, optimizers: Iterable[torch.optim.Optimizer]) -> list[Trained]:
        """(P,) by shape, and then as models hold them, once an update was seen; what came later is last."""
        ranks = {address: rank for rank, address in enumerate(self._labels)}
        found = (Trained(p, one, group) for one in optimizers for group in one.param_groups for p in group["params"])
        training = (each for each in found if each.param.requires_grad)
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
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is not None and param.grad.layout == torch.strided:
                    gradient = sampled(param.grad) / scale
                    self._gradients[id(param)] = _norm(gradient), *_filled(gradient), direction(param.grad)
        self._formula = Formula(optimizer)

    def stepped(self) -> None:
        """That optimizer has stepped."""
        if self._formula is None:
            return
        for address, departure in self._formula.departures().items():
            # A parameter that is updated twice in a step is as wrong as its worst update.
            self._departures[address] = max(departure, self._departures.get(address, 0.0))
        self._formula = None

    def after(self, step: int) -> None:
        """The step is over."""
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
                departures=tuple(None if found is None else as_number(found) for found in departures),
                buffers=tuple(None if way is None else as_number(_norm(way)) for way in ways),
                directions=(
                    *(None if found is None else found[3] for found in gradients),
                    *(None if way is None else direction(way) for way in ways),
                ),
            )
        )
        self._before, self._gradients, self._departures = None, {}, {}


def _way(now: torch.Tensor | None, first: torch.Tensor) -> torch.Tensor | None:
    """From what was first there to what is now; None if that is gone, or another one."""
    if now is None or (sample := sampled(now)).shape != first.shape or sample.device != first.device:
        return None
    return sample - first


def _filled(gradient: torch.Tensor) -> tuple[float, float]:
    """Part of the elements that are not 0, and part of all that are residues."""
    if not gradient.numel():
        return 0.0, 0.0
    sizes = gradient.abs()
    not_zero = sizes != 0
    return float(not_zero.double().mean()), float((not_zero & (sizes < _RESIDUE * sizes.max())).double().mean())


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor.double()))


class Nudge:
    """Moves each parameter by at most one unit in the last place: what rounding alone can do."""

    def __init__(self, seed: int) -> None:
        # Its own generator: the script's random streams must stay as they are.
        self._generator = torch.Generator().manual_seed(seed)

    def apply(self, params: Iterable[torch.Tensor]) -> None:
        """Change the parameters in place."""
        with torch.no_grad():
            for param in params:
                roundoff = _UNIT_ROUNDOFF.get(param.dtype)
                if roundoff is None:
                    continue
                signs = torch.randint(-1, 2, param.shape, generator=self._generator, dtype=torch.int8)
                param.data.addcmul_(param.data, signs.to(param.device, param.dtype), value=roundoff)
