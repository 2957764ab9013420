"""Changes that are planted into a training from outside: harms, hidden in the arithmetic, and changes that do no harm.

Each is a function that changes torch before the script runs and after the probe has put its ears on. So what a script
says about itself (learning rate, settings, number of updates, the bytes that its loader hands out) stays as it is,
wherever a harm can hide; the gate has to see it in what came out.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn
from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data import dataloader as loaders
from torch.utils.data._utils.fetch import _MapDatasetFetcher

ALL_CONTRACTS = ("exact", "rounding", "statistical")
ROUNDING = ("rounding", "statistical")
EVERY_SCRIPT = ("perceptron", "convolution", "characters", "sequences", "tabular", "padded")

Optimizer = torch.optim.Optimizer
Surround = Callable[[Optimizer, int], "contextlib.AbstractContextManager[None]"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing that can be planted."""

    title: str
    plant: Callable[[], None]
    scripts: tuple[str, ...] = EVERY_SCRIPT
    """Those that have what it changes."""
    contracts: tuple[str, ...] = ALL_CONTRACTS
    """Under which it is a harm (or does none)."""


HARMS: dict[str, Change] = {}
HARMLESS: dict[str, Change] = {}


def plant(name: str) -> None:
    """Put the change of this name into torch, for the rest of the process."""
    (HARMS | HARMLESS)[name].plant()


def _harm(title: str, **more: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def keep(function: Callable[[], None]) -> Callable[[], None]:
        HARMS[function.__name__] = Change(title=title, plant=function, **more)
        return function

    return keep


def _harmless(title: str, **more: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def keep(function: Callable[[], None]) -> Callable[[], None]:
        HARMLESS[function.__name__] = Change(title=title, plant=function, **more)
        return function

    return keep


# What surrounds, replaces or counts


def _around_step(surround: Surround) -> None:
    """`surround(optimizer, number of the step)` holds during the arithmetic of each update, inside of all hooks."""
    counts: dict[int, int] = {}
    for kind in (torch.optim.SGD, torch.optim.Adam):

        def step(self: Optimizer, closure: Any = None, *, inner: Any = kind.step) -> Any:
            number = counts[id(self)] = counts.get(id(self), -1) + 1
            with surround(self, number):
                return inner(self, closure)

        kind.step = step  # type: ignore[method-assign]


@contextlib.contextmanager
def _settings(optimizer: Optimizer, **change: Callable[[Any], Any]) -> Iterator[None]:
    """Other settings, for as long as it holds."""
    saved = [dict(group) for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        for name, function in change.items():
            if name in group:
                group[name] = function(group[name])
    yield
    for group, old in zip(optimizer.param_groups, saved, strict=True):
        group.update({name: old[name] for name in change if name in old})


@contextlib.contextmanager
def _gradients(optimizer: Optimizer, function: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Other gradients, for as long as it holds."""
    params = [p for p in _parameters(optimizer) if p.grad is not None]
    saved = [p.grad for p in params]
    for p in params:
        p.grad = function(p.grad)
    yield
    for p, old in zip(params, saved, strict=True):
        p.grad = old


@contextlib.contextmanager
def _restored(tensors: list[torch.Tensor]) -> Iterator[None]:
    """What happens to these tensors is undone."""
    saved = [t.detach().clone() for t in tensors]
    yield
    with torch.no_grad():
        for t, old in zip(tensors, saved, strict=True):
            t.copy_(old)


def _parameters(optimizer: Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _on_batches(change: Callable[[Any, Any], Any]) -> None:
    """`change(iterator, batch)` is what the training gets instead of each batch of a shuffled loader."""
    inner = loaders._BaseDataLoaderIter.__next__

    def __next__(self: Any) -> Any:  # noqa: N807 - it becomes that method
        batch = inner(self)
        return change(self, batch) if isinstance(self._index_sampler.sampler, RandomSampler) else batch

    loaders._BaseDataLoaderIter.__next__ = __next__  # type: ignore[method-assign]


def _on_items(fetch: Callable[[Any, list[int]], list[Any]]) -> None:
    """`fetch(data set, indices)` makes the items."""

    def replaced(self: Any, indices: list[int]) -> Any:
        return self.collate_fn(fetch(self.dataset, indices))

    _MapDatasetFetcher.fetch = replaced  # type: ignore[method-assign]


def _on_losses(change: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
    """`change(loss function, its input)` gives the input that the loss function gets in training."""
    for name in ("cross_entropy", "mse_loss"):
        inner = getattr(F, name)

        def loss(x: torch.Tensor, *args: Any, inner: Any = inner, **kwargs: Any) -> torch.Tensor:
            result: torch.Tensor = inner(change(inner, x) if torch.is_grad_enabled() else x, *args, **kwargs)
            return result

        setattr(F, name, loss)


def _every(number: int, step: int) -> bool:
    return step % number == number - 1


# Harms of the update


@_harm("learning rate halved")
def rate_halved() -> None:
    _around_step(lambda optimizer, _: _settings(optimizer, lr=lambda lr: 0.5 * lr))


@_harm("learning rate x1.1")
def rate_x11() -> None:
    _around_step(lambda optimizer, _: _settings(optimizer, lr=lambda lr: 1.1 * lr))


@_harm("learning rate x3")
def rate_x3() -> None:
    _around_step(lambda optimizer, _: _settings(optimizer, lr=lambda lr: 3.0 * lr))


@_harm("schedule stands still")
def schedule_stale() -> None:
    first: dict[int, list[float]] = {}

    def surround(optimizer: Optimizer, _: int) -> Any:
        rates = first.setdefault(id(optimizer), [group["lr"] for group in optimizer.param_groups])
        each = iter(rates)
        return _settings(optimizer, lr=lambda _: next(each))

    _around_step(surround)


@_harm("weight decay lost")
def decay_lost() -> None:
    _around_step(lambda optimizer, _: _settings(optimizer, weight_decay=lambda _: 0.0))


@_harm("momentum lost")
def momentum_lost() -> None:
    _around_step(
        lambda optimizer, _: _settings(
            optimizer, momentum=lambda _: 0.0, nesterov=lambda _: False, betas=lambda betas: (0.0, betas[1])
        )
    )


@_harm("each tenth update left out")
def update_left_out() -> None:
    _around_step(
        lambda optimizer, step: _restored(_parameters(optimizer)) if _every(10, step) else contextlib.nullcontext()
    )


@_harm("each tenth update doubled")
def update_doubled() -> None:
    _around_step(
        lambda optimizer, step: (
            _settings(optimizer, lr=lambda lr: 2 * lr) if _every(10, step) else contextlib.nullcontext()
        )
    )


@_harm("state of the optimizer lost at each 50th step")
def state_lost() -> None:
    def surround(optimizer: Optimizer, step: int) -> Any:
        if _every(50, step):
            optimizer.state.clear()
        return contextlib.nullcontext()

    _around_step(surround)


@_harm("first layer frozen")
def layer_frozen() -> None:
    _around_step(lambda optimizer, _: _restored(_parameters(optimizer)[:1]))


@_harm("a quarter of the rows not updated")
def rows_left() -> None:
    @contextlib.contextmanager
    def surround(optimizer: Optimizer, _: int) -> Iterator[None]:
        rows = [p.detach()[: len(p) // 4] for p in _parameters(optimizer) if p.dim() > 1]
        with _restored(rows):
            yield

    _around_step(surround)


# Harms of the gradient


@_harm("gradients not cleared")
def not_cleared() -> None:
    Optimizer.zero_grad = lambda self, set_to_none=True: None  # type: ignore[method-assign]


@_harm("small gradients flushed")
def small_flushed() -> None:
    _around_step(
        lambda optimizer, _: _gradients(optimizer, lambda g: torch.where(g.abs() < 0.01 * g.abs().max(), 0.0, g))
    )


@_harm("loss scale underflows")
def scale_underflows() -> None:
    """As float16 gradients do with a scale that is too small: what is below a 500th of the largest is gone."""
    _around_step(
        lambda optimizer, _: _gradients(
            optimizer,
            lambda g: (g / g.abs().max().clamp(min=1e-30) * 2.0**-16).half().float() * 2.0**16 * g.abs().max(),
        )
    )


@_harm("gradients halved", scripts=("convolution", "tabular"))
def gradients_halved() -> None:
    """Averaged once too often. (Adam does not mind the scale of gradients.)"""
    _around_step(lambda optimizer, _: _gradients(optimizer, lambda g: 0.5 * g))


@_harm("gradients scaled down to Adam's epsilon", scripts=("perceptron", "characters", "sequences", "padded"))
def gradients_tiny() -> None:
    """Unscaled twice, with the usual first scale of 65536."""
    _around_step(lambda optimizer, _: _gradients(optimizer, lambda g: g / 65536))


@_harm("a branch detached")
def branch_detached() -> None:
    """One weight in the middle gets no gradient; its decay and its momentum go on."""

    @contextlib.contextmanager
    def surround(optimizer: Optimizer, _: int) -> Iterator[None]:
        weights = [p for p in _parameters(optimizer) if p.dim() > 1]
        chosen = weights[len(weights) // 2]
        with _gradients(optimizer, lambda g: g):
            chosen.grad = torch.zeros_like(chosen)
            yield

    _around_step(surround)


@_harm("NaN guarded to zero at each 20th step")
def nan_guarded() -> None:
    _around_step(
        lambda optimizer, step: (
            _gradients(optimizer, torch.zeros_like) if _every(20, step) else contextlib.nullcontext()
        )
    )


@_harm("sign of a layer's gradient flipped after step 100")
def layer_flipped() -> None:
    """In the backward pass: the update follows from the gradient that it finds."""
    steps: list[int] = [0]
    construct = Optimizer.__init__

    def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
        construct(self, *args, **kwargs)
        weights = [p for p in _parameters(self) if p.dim() > 1]
        weights[len(weights) // 2].register_hook(lambda gradient: -gradient if steps[0] > 100 else gradient)

    def count(*_: Any) -> Any:
        steps[0] += 1
        return contextlib.nullcontext()

    Optimizer.__init__ = __init__  # type: ignore[method-assign]
    _around_step(count)


@_harm("clipping lost", scripts=("characters", "sequences"))
def clipping_lost() -> None:
    def norm_only(parameters: Any, max_norm: float, **_: Any) -> torch.Tensor:
        return torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in parameters if p.grad is not None]))

    nn.utils.clip_grad_norm_ = norm_only


@_harm("accumulation dropped", scripts=("sequences",))
def accumulation_dropped() -> None:
    known: list[Optimizer] = []
    construct = Optimizer.__init__
    backward = torch.Tensor.backward

    def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
        construct(self, *args, **kwargs)
        known.append(self)

    def cleared(self: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        for optimizer in known:
            for p in _parameters(optimizer):
                p.grad = None
        backward(self, *args, **kwargs)

    Optimizer.__init__ = __init__  # type: ignore[method-assign]
    torch.Tensor.backward = cleared  # type: ignore[method-assign]


# Harms of the loss and the model


@_harm("loss becomes NaN at step 60")
def loss_nan() -> None:
    calls = [0]

    def change(_: Any, x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return x * float("nan") if calls[0] > 60 else x

    _on_losses(change)


@_harm("loss averaged twice")
def loss_halved() -> None:
    backward = torch.Tensor.backward

    def halved(self: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        backward(0.5 * self, *args, **kwargs)

    torch.Tensor.backward = halved  # type: ignore[method-assign]


@_harm("loss in bfloat16", contracts=("exact", "rounding"))
def loss_coarse() -> None:
    _on_losses(lambda _, x: x.bfloat16().float())


@_harm("dropout off")
def dropout_off() -> None:
    """The masks are drawn, and not used."""
    inner = F.dropout

    def dropout(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        inner(x.detach(), p, training)
        return x

    F.dropout = dropout


@_harm("dropout at half its rate")
def dropout_halved() -> None:
    inner = F.dropout
    F.dropout = lambda x, p=0.5, training=True, inplace=False: inner(x, p / 2, training)


@_harm("statistics of batch normalisation stale", scripts=("convolution", "tabular"))
def statistics_stale() -> None:
    inner = F.batch_norm
    F.batch_norm = lambda x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5: inner(
        x, mean, var, weight, bias, training, 0.0, eps
    )


@_harm("batch normalisation as in evaluation", scripts=("convolution", "tabular"))
def statistics_used() -> None:
    inner = F.batch_norm
    F.batch_norm = lambda x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5: inner(
        x, mean, var, weight, bias, False, momentum, eps
    )


@_harm(
    "evaluation mode stays on after a validation",
    scripts=("perceptron", "convolution", "characters", "sequences", "tabular"),
)
def mode_stays() -> None:
    train = nn.Module.train
    evaluated: set[int] = set()

    def stuck(self: nn.Module, mode: bool = True) -> nn.Module:
        if not mode:
            evaluated.add(id(self))
        return train(self, mode and id(self) not in evaluated)

    nn.Module.train = stuck  # type: ignore[method-assign]


# Harms of what is made besides the trained weights


@_harm("average of the weights not updated after step 50", scripts=("padded",))
def average_stale() -> None:
    num_calls: dict[int, int] = {}
    inner = torch.Tensor.lerp_

    def lerp_(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if isinstance(self, nn.Parameter):  # a state of Adam's is none
            num_calls[id(self)] = num_calls.get(id(self), 0) + 1
        return inner(self, *args, **kwargs) if num_calls.get(id(self), 0) <= 50 else self

    torch.Tensor.lerp_ = lerp_  # type: ignore[method-assign]


@_harm("average of the weights with twice the rate", scripts=("padded",))
def average_fast() -> None:
    inner = torch.Tensor.lerp_
    torch.Tensor.lerp_ = lambda self, end, weight: inner(  # type: ignore[method-assign]
        self, end, 2 * weight if isinstance(self, nn.Parameter) else weight
    )


@_harm("validation mixes up a tenth of its items")
def validation_wrong() -> None:
    """Their results change places; no training step has to do with it."""
    call = nn.Module.__call__
    depth = [0]

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
        depth[0] += 1
        try:
            result = call(self, *args, **kwargs)
        finally:
            depth[0] -= 1
        if depth[0] or torch.is_grad_enabled() or not isinstance(result, torch.Tensor) or not result.dim():
            return result
        mixed = torch.arange(len(result)) % 10 == 0
        return torch.where(mixed.view(-1, *[1] * (result.dim() - 1)), result.roll(1, 0), result)

    nn.Module.__call__ = __call__  # type: ignore[method-assign]


@_harm("padding mask off by one", scripts=("padded",))
def mask_wrong() -> None:
    inner = F.scaled_dot_product_attention
    F.scaled_dot_product_attention = lambda q, k, v, attn_mask: inner(q, k, v, attn_mask=attn_mask.roll(-1, -1))


# Harms of the data


@_harm("each second batch is the one before")
def stale_batches() -> None:
    last: list[Any] = [None]
    drawn = [0]

    def change(_: Any, batch: Any) -> Any:
        drawn[0] += 1
        if drawn[0] % 2 == 0:
            return last[0]
        last[0] = batch
        return batch

    _on_batches(change)


@_harm("half of the data")
def half_of_the_data() -> None:
    inner = RandomSampler.__iter__

    def __iter__(self: RandomSampler) -> Iterator[int]:  # noqa: N807 - it becomes that method
        return (index // 2 * 2 for index in inner(self))

    RandomSampler.__iter__ = __iter__  # type: ignore[method-assign]


@_harm("last batch of an epoch lost", scripts=("perceptron", "convolution", "characters", "tabular", "padded"))
def last_batch_lost() -> None:
    """Where an epoch is no whole number of batches: those of `sequences` are all full."""
    construct = loaders.BatchSampler.__init__

    def __init__(self: Any, sampler: Any, batch_size: int, drop_last: bool) -> None:  # noqa: N807 - as above
        construct(self, sampler, batch_size, True)

    loaders.BatchSampler.__init__ = __init__  # type: ignore[method-assign]


def _wrong_labels(share: float) -> None:
    generator = torch.Generator().manual_seed(5)

    def change(_: Any, batch: Any) -> Any:
        *inputs, target = batch
        wrong = torch.rand(target.shape, generator=generator) < share
        return (*inputs, torch.where(wrong, target.flatten().roll(1).view_as(target), target))

    _on_batches(change)


@_harm("1% of the labels shuffled")
def labels_shuffled_1() -> None:
    _wrong_labels(0.01)


@_harm("10% of the labels shuffled")
def labels_shuffled_10() -> None:
    _wrong_labels(0.1)


@_harm("same order and draws in each epoch")
def epochs_alike() -> None:
    inner = DataLoader.__iter__

    def __iter__(self: Any) -> Any:  # noqa: N807 - it becomes that method
        if isinstance(self.sampler, RandomSampler):
            torch.manual_seed(11)
        return inner(self)

    DataLoader.__iter__ = __iter__  # type: ignore[method-assign]


@_harm("validation leaks into training")
def validation_leaks() -> None:
    """Each tenth batch of the training is made of items of the loader that is not shuffled."""
    made: list[Any] = []
    construct = DataLoader.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
        construct(self, *args, **kwargs)
        made.append(self)

    DataLoader.__init__ = __init__  # type: ignore[method-assign]
    drawn = [0]

    def change(iterator: Any, batch: Any) -> Any:
        drawn[0] += 1
        if drawn[0] % 10:
            return batch
        held_out = next(loader for loader in made if not isinstance(loader.sampler, RandomSampler))
        items = [held_out.dataset[(drawn[0] + k) % len(held_out.dataset)] for k in range(len(batch[-1]))]
        return held_out.collate_fn(items)

    _on_batches(change)


@_harm("a cache with wrong keys for one item in ten")
def cache_wrong() -> None:
    _on_items(lambda dataset, indices: [dataset[i + 1 if i % 10 == 0 and i + 1 < len(dataset) else i] for i in indices])


@_harm("augmentation frozen", scripts=("perceptron", "convolution"))
def augmentation_frozen() -> None:
    """Items as they were the first time; their draws are made, and not used."""
    kept: dict[tuple[int, int], Any] = {}
    _on_items(lambda dataset, indices: [kept.setdefault((id(dataset), i), dataset[i]) for i in indices])


@_harm("workers with equal seeds", scripts=("perceptron", "convolution"))
def draws_alike() -> None:
    """All items of a batch get the same draws, as if each came from a worker of its own with one seed for all."""

    def fetch(dataset: Any, indices: list[int]) -> list[Any]:
        state = torch.get_rng_state()
        items = []
        for i in indices:
            torch.set_rng_state(state)
            items.append(dataset[i])
        return items

    _on_items(fetch)


# Changes that do no harm


@_harmless("nothing")
def nothing() -> None:
    """Two runs of one thing."""


@_harmless("gradients set to zero, not to None")
def zeros_kept() -> None:
    inner = Optimizer.zero_grad
    Optimizer.zero_grad = lambda self, set_to_none=True: inner(self, False)  # type: ignore[method-assign]


@_harmless("loss scaled by 1024 and gradients unscaled")
def loss_scaled() -> None:
    """A power of two: exact as long as nothing under- or overflows. Unscaled at once, as after `unscale_`."""
    backward = torch.Tensor.backward
    known: list[Optimizer] = []
    construct = Optimizer.__init__

    def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
        construct(self, *args, **kwargs)
        known.append(self)

    def scaled(self: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        params = [p for optimizer in known for p in _parameters(optimizer) if p.grad is not None]
        for p in params:
            p.grad.mul_(1024)
        backward(self, torch.tensor(1024.0))
        for optimizer in known:
            for p in _parameters(optimizer):
                if p.grad is not None:
                    p.grad.div_(1024)

    Optimizer.__init__ = __init__  # type: ignore[method-assign]
    torch.Tensor.backward = scaled  # type: ignore[method-assign]


@_harmless("two workers", scripts=("characters", "sequences", "tabular", "padded"))
def two_workers() -> None:
    """Where items draw nothing at random, workers give the same batches."""
    construct = DataLoader.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
        construct(self, *args, **kwargs | {"num_workers": 2})

    DataLoader.__init__ = __init__  # type: ignore[method-assign]


@_harmless("denormals flushed", contracts=ROUNDING)
def denormals_flushed() -> None:
    torch.set_flush_denormal(True)


@_harmless("foreach updates", contracts=ROUNDING)
def foreach() -> None:
    _around_step(lambda optimizer, _: _settings(optimizer, foreach=lambda _: True))


@_harmless("fused updates", contracts=ROUNDING)
def fused() -> None:
    _around_step(lambda optimizer, _: _settings(optimizer, fused=lambda _: True))


@_harmless("sums in two halves", contracts=ROUNDING)
def sums_in_halves() -> None:
    inner = F.linear

    def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        half = weight.shape[1] // 2
        return inner(x[..., half:], weight[:, half:]) + inner(x[..., :half], weight[:, :half], bias)

    F.linear = linear


@_harmless("matrix products in float64", contracts=ROUNDING)
def products_in_float64() -> None:
    inner = F.linear
    F.linear = lambda x, weight, bias=None: inner(
        x.double(), weight.double(), None if bias is None else bias.double()
    ).to(x.dtype)


@_harmless("channels last", scripts=("convolution",), contracts=ROUNDING)
def channels_last() -> None:
    inner = F.conv2d

    def conv2d(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return inner(x.contiguous(memory_format=torch.channels_last), *args, **kwargs)

    F.conv2d = conv2d
    nn.modules.conv.F.conv2d = conv2d


@_harmless("two threads", contracts=ROUNDING)
def two_threads() -> None:
    torch.set_num_threads(2)


@_harmless("bfloat16 autocast", contracts=("statistical",))
def bf16_autocast() -> None:
    call = nn.Module.__call__

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
        with torch.autocast("cpu", torch.bfloat16):
            result = call(self, *args, **kwargs)
        return result.float() if isinstance(result, torch.Tensor) else result

    nn.Module.__call__ = __call__  # type: ignore[method-assign]


@_harmless("other dropout masks", contracts=("statistical",))
def other_masks() -> None:
    own = torch.Generator()
    seeded = [False]

    def dropout(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        if not training or p == 0.0:
            return x
        if not seeded[0]:
            seeded[0] = bool(own.manual_seed(torch.initial_seed() + 99))
        return x * (torch.rand(x.shape, generator=own) >= p) / (1 - p)

    F.dropout = dropout


@_harmless("another stream of random numbers", contracts=("statistical",))
def other_stream() -> None:
    """Order, augmentation and masks are drawn from elsewhere once the first optimizer is there."""
    construct = Optimizer.__init__

    def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
        construct(self, *args, **kwargs)
        torch.rand(97)

    Optimizer.__init__ = __init__  # type: ignore[method-assign]
