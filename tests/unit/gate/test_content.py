"""Batches that are drawn from the same distribution, or from another one, whatever the random numbers."""

from collections.abc import Callable

import pytest
import torch

from hotlap.gate import content
from hotlap.gate.evidence import Pair
from hotlap.probe.sampling import Between, Content
from hotlap.record import Run, Status

NUM_STEPS, NUM_ROWS = 72, 16
Draw = Callable[[torch.Tensor, torch.Generator, int], torch.Tensor]
"""(rows of images, generator, seed) -> what a model is given."""

IMAGES = torch.rand(400, 32, generator=torch.Generator().manual_seed(0)).relu()


def noisy(x: torch.Tensor, generator: torch.Generator, seed: int) -> torch.Tensor:
    return x + 0.2 * torch.randn(x.shape, generator=generator)


def scaled(x: torch.Tensor, generator: torch.Generator, seed: int) -> torch.Tensor:
    return x * (0.8 + 0.4 * torch.rand(1, generator=generator))


def frozen_noise(x: torch.Tensor, generator: torch.Generator, seed: int) -> torch.Tensor:
    return x + 0.2 * torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))


def one_noise_for_all(x: torch.Tensor, generator: torch.Generator, seed: int) -> torch.Tensor:
    return x + 0.2 * torch.randn(1, x.shape[1], generator=generator)


def weaker_noise(x: torch.Tensor, generator: torch.Generator, seed: int) -> torch.Tensor:
    return x + 0.12 * torch.randn(x.shape, generator=generator)


def narrower(x: torch.Tensor, generator: torch.Generator, seed: int) -> torch.Tensor:
    return x * (0.9 + 0.2 * torch.rand(1, generator=generator))


def run(
    draw: Draw,
    *,
    seed: int,
    stream: int = 0,
    form: Callable[[torch.Tensor], torch.Tensor] = torch.clone,
    beside: Callable[[torch.Tensor], list[torch.Tensor]] = lambda at: [],
) -> Run:
    """Shuffled anew in each epoch. `stream`: of the random numbers. `beside`: what is given in front of the images."""
    generator = torch.Generator().manual_seed(1000 * stream + seed)
    seen, order = Content(), torch.empty(0, dtype=torch.long)
    rows = []
    for _ in range(NUM_STEPS):
        if len(order) < NUM_ROWS:
            order = torch.randperm(len(IMAGES), generator=generator)
        at, order = order[:NUM_ROWS], order[NUM_ROWS:]
        seen.add([*beside(at), form(draw(IMAGES[at], generator, seed))])
        rows.append(seen.take())
    return Run(status=Status.COMPLETE, seed=seed, step_index=tuple(range(NUM_STEPS)), content=tuple(rows))


def harm(
    base: Draw,
    lever: Draw,
    *,
    first_seed: int = 0,
    beside: Callable[[torch.Tensor], list[torch.Tensor]] = lambda at: [],
    **more: Callable[[torch.Tensor], torch.Tensor],
) -> str:
    seeds = range(first_seed, first_seed + 5)
    bases = [run(base, seed=seed, beside=beside) for seed in seeds]
    pairs = [Pair(one, run(lever, seed=one.seed or 0, stream=1, beside=beside, **more)) for one in bases]
    references = [Pair(a, b) for a in bases for b in bases if (a.seed or 0) < (b.seed or 0)]
    found = content.harm(pairs, references)
    return "" if found is None else found.why


@pytest.mark.parametrize("lever", [frozen_noise, one_noise_for_all, weaker_noise])
def test_noise_that_is_frozen_shared_or_of_another_distribution_is_seen(lever: Draw) -> None:
    assert "than in the baseline" in harm(noisy, lever)


@pytest.mark.parametrize("lever", [frozen_noise, one_noise_for_all, weaker_noise])
def test_noise_on_what_is_given_beside_the_first_tensor_is_seen(lever: Draw) -> None:
    ids = lambda at: [torch.stack([at % 7, at % 11], 1)]  # noqa: E731 - is one value of a parameter
    assert "than in the baseline" in harm(noisy, lever, beside=ids)
    assert not harm(noisy, noisy, beside=ids)


def test_a_narrower_range_of_scales_is_seen() -> None:
    assert harm(scaled, narrower)


def test_other_draws_of_one_distribution_are_no_harm() -> None:
    """Of 1,200 looks at simulated features (200 steps, dependent ones and heavy tails among them) none was one."""
    assert not [why for draw in (noisy, scaled) for seed in (0, 5) if (why := harm(draw, draw, first_seed=seed))]


@pytest.mark.parametrize(
    "form", [lambda x: 255 * x, lambda x: x.bfloat16(), lambda x: torch.nn.functional.pad(x, (0, 8))]
)
def test_the_same_in_another_form_is_no_harm(form: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert not harm(noisy, noisy, form=form)


def test_parts_of_a_step_are_summed_up_as_the_whole() -> None:
    whole, parts = Content(), Content()
    whole.add([IMAGES[:16]])
    for begin in range(0, 16, 4):
        parts.add([IMAGES[begin : begin + 4]])
    assert whole.take() == pytest.approx(parts.take(), rel=1e-6)
    assert whole.take() is None


MODELS = "a teacher", "a student"
Views = Callable[[torch.Tensor, torch.Generator], tuple[torch.Tensor, torch.Tensor]]


def own_noise(x: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    weak, strong = (torch.randn(x.shape, generator=generator) for _ in range(2))
    return x + 0.05 * weak, x + 0.2 * strong


def within_the_model(x: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    weak, strong = own_noise(x, generator)
    return 255 * weak, 255 * strong


def one_noise(x: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    noise = torch.randn(x.shape, generator=generator)
    return x + 0.05 * noise, x + 0.2 * noise


def one_view(x: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    return (own_noise(x, generator)[1],) * 2


def viewed(views: Views, *, seed: int, stream: int = 0, order: int = 1) -> Run:
    """A teacher and its student. `order`: -1: the student comes first."""
    generator = torch.Generator().manual_seed(1000 * stream + seed)
    given, between = Content(), Between()
    rows, distances = [], []
    for _ in range(NUM_STEPS):
        both = views(IMAGES[torch.randperm(len(IMAGES), generator=generator)[:NUM_ROWS]], generator)
        for k, one in enumerate(both[::order]):
            between.add(MODELS[k], one)
        given.add(both[-1:])
        rows.append(given.take())
        distances.append(between.take())
    steps = tuple(range(NUM_STEPS))
    return Run(status=Status.COMPLETE, seed=seed, step_index=steps, content=tuple(rows), between=tuple(distances))


@pytest.mark.parametrize(
    ("views", "order", "is_harm"),
    [
        (own_noise, 1, False),
        (own_noise, -1, False),
        (within_the_model, 1, False),
        (one_noise, 1, True),
        (one_view, 1, True),
    ],
)
def test_two_models_that_are_given_what_belongs_together_are_given_it_still(
    views: Views, order: int, is_harm: bool
) -> None:
    bases = [viewed(own_noise, seed=seed) for seed in range(5)]
    pairs = [Pair(one, viewed(views, seed=seed, stream=1, order=order)) for seed, one in enumerate(bases)]
    ruling = content.harm(pairs, [Pair(a, b) for a in bases for b in bases if (a.seed or 0) < (b.seed or 0)])
    assert (ruling is not None) is is_harm
    assert ruling is None or "distance between the two batches" in ruling.why


def test_of_one_batch_or_of_three_nothing_is_known_between_them() -> None:
    for number in (0, 1, 3):
        between = Between()
        for k in range(number):
            between.add(MODELS[0], IMAGES[k : k + 4])
        assert between.take() is None
    for other in (IMAGES[:4], IMAGES[:3]):
        for one in (IMAGES[:4], other):
            between.add(MODELS[0], one)
        assert between.take() is None
