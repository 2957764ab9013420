"""Gradients that are 0 but for rounding: what an optimizer makes of them is no harm of the lever that rounds more."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

from hotlap.gate import Evidence, judge
from hotlap.gate.rounding import rooms_of_residues
from hotlap.record import Run, Update, Verdict
from tests.unit.gate.recorded import recorded

NUM_STEPS, NUM_WORDS, LENGTH, WIDTH = 60, 12, 16, 32
Optimizer = Callable[[list[torch.Tensor]], torch.optim.Optimizer]


class Attention(nn.Module):
    """One layer, `fused`: queries, keys and values by one matrix. A bias of the keys changes nothing: it is added to
    all scores of a query alike."""

    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(NUM_WORDS, WIDTH)
        self.qkv = nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH)] if fused else [nn.Linear(WIDTH, WIDTH) for _ in "qkv"])
        self.head = nn.Linear(WIDTH, NUM_WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        q, k, v = torch.cat([part(x) for part in self.qkv], dim=-1).chunk(3, dim=-1)
        weights = (q @ k.transpose(-2, -1) / WIDTH**0.5).softmax(dim=-1)
        scores: torch.Tensor = self.head(x + weights @ v)
        return scores


def adamw(params: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, lr=3e-3)


def sgd(params: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=0.3)


def forgetful(params: list[torch.Tensor]) -> torch.optim.Optimizer:
    """Adam, whose memory is lost after each update: each follows from what it finds, and all are others."""
    optimizer = adamw(params)

    def forget(*_: object) -> None:
        for state in optimizer.state.values():
            state["exp_avg"].zero_()

    optimizer.register_step_post_hook(forget)
    return optimizer


@cache
def run(make: Optimizer, *, fused: bool, bf16: bool = False, seed: int = 0, perturbation: int = 0) -> Run:
    """Trains to say which word stood first, as the probe records it."""
    torch.manual_seed(seed)
    model = Attention(fused=fused)
    params: list[torch.Tensor] = list(model.parameters())

    def loss_of() -> torch.Tensor:
        words = torch.randint(NUM_WORDS, (8, LENGTH))
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            scores = model(words)
            first = words[:, :1].expand(-1, LENGTH).flatten()
            return nn.functional.cross_entropy(scores.flatten(0, 1).float(), first)

    return recorded(
        loss_of, params, make(params), num_steps=NUM_STEPS, num_samples=8, seed=seed, perturbation=perturbation
    )


def evidence(make: Optimizer, *, fused: bool, lever: Optimizer | None = None) -> Evidence:
    """In the baseline, and in bfloat16: five seeds each."""
    seeds = range(5)
    written = [run(make, fused=fused, seed=seed) for seed in seeds]
    faster = [run(lever or make, fused=fused, bf16=True, seed=seed) for seed in seeds]
    return Evidence(
        base=(written[0], written[0]),
        lever=(faster[0],),
        perturbed=tuple(run(make, fused=fused, perturbation=k) for k in (1, 2, 3)),
        base_seeds=tuple(written),
        lever_seeds=tuple(faster),
    )


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
@pytest.mark.parametrize("make", [adamw, sgd])
def test_a_bias_of_keys_is_no_harm_of_bfloat16(make: Optimizer, fused: bool) -> None:
    ruling = judge("statistical", evidence(make, fused=fused))
    assert ruling.verdict is not Verdict.HARMED, ruling.why


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
def test_an_optimizer_that_forgets_is_seen_beside_it(fused: bool) -> None:
    ruling = judge("statistical", evidence(adamw, fused=fused, lever=forgetful))
    assert ruling.verdict is Verdict.HARMED
    assert "updates" in ruling.why


@pytest.mark.parametrize("factor", [2.0, 0.9])
def test_no_more_than_what_its_residues_explain_is_let_pass(factor: float) -> None:
    """The lever's own residues, of which none are left as with more rounding, exempt nothing."""
    baseline = run(adamw, fused=True)
    residues = [update.residues or () for update in baseline.updates or ()]
    (bias,) = {p for shares in residues for p, share in enumerate(shares) if share is not None and share > 0.3}

    def other(update: Update) -> Update:
        norms = tuple(factor * float(n) if p == bias else n for p, n in enumerate(update.norms))  # type: ignore[arg-type]
        return replace(update, norms=norms, residues=(0.0,) * len(norms))

    found = evidence(adamw, fused=True)
    made = [run(adamw, fused=True, seed=seed) for seed in range(5)]
    lever = [replace(one, updates=tuple(map(other, one.updates or ()))) for one in made]
    ruling = judge("statistical", replace(found, lever=tuple(lever[:1]), lever_seeds=tuple(lever)))
    assert ruling.verdict is Verdict.HARMED
    assert baseline.trained[bias] in ruling.why


def test_how_far_residues_may_carry_is_said_by_baseline_runs_alone_with_their_error() -> None:
    found = evidence(adamw, fused=True)
    rooms = rooms_of_residues(found)
    (bias,) = {p for _, p in rooms}
    updates = {update.step: update for update in found.base[0].updates or ()}
    share = (updates[0].residues or ())[bias] or 0.0
    assert rooms[0, bias] == pytest.approx(0.5 * math.log1p(share / (1 - share)), rel=0.25), "all steps are whole ones"
    others = replace(found, lever=found.perturbed, lever_seeds=found.perturbed)
    assert rooms_of_residues(others) == rooms

    def uneven(run: Run, factor: float) -> Run:
        def other(update: Update) -> Update:
            return replace(update, residues=tuple(None if s is None else factor * s for s in update.residues or ()))

        return replace(run, updates=tuple(map(other, run.updates or ())))

    spread = replace(found, base=(uneven(found.base[0], 0.8), uneven(found.base[1], 1.2)))
    assert all(room > rooms[key] for key, room in rooms_of_residues(spread).items())


WIDE = 16_384


@cache
def normalised(*, bf16: bool = False, flipped: bool = False, seed: int = 0, perturbation: int = 0) -> Run:
    """A bias in front of a batch normalisation, which takes it out again: so wide that the size of what rounding makes
    of its gradient is the same to a few hundredths. `flipped`: the last layer's gradient has the wrong sign."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, WIDE), nn.BatchNorm1d(WIDE), nn.Tanh(), nn.Linear(WIDE, 1))
    params: list[torch.Tensor] = list(model.parameters())

    def loss_of() -> torch.Tensor:
        x = torch.randn(32, 8)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            found = model(x)
        loss: torch.Tensor = (found.float() - x.sum(1, keepdim=True).tanh()).square().mean()
        return loss

    def flip(step: int) -> None:
        if flipped:
            assert params[-2].grad is not None
            params[-2].grad.neg_()

    optimizer = torch.optim.SGD(params, lr=1e-3)
    return recorded(
        loss_of,
        params,
        optimizer,
        num_steps=24,
        num_samples=32,
        seed=seed,
        perturbation=perturbation,
        on_gradients=flip,
    )


@pytest.mark.parametrize("flipped", [False, True])
def test_a_wide_bias_in_front_of_a_normalisation_may_have_any_gradient(flipped: bool) -> None:
    written = [normalised(seed=seed) for seed in range(5)]
    faster = [normalised(seed=seed, bf16=True, flipped=flipped) for seed in range(5)]
    found = Evidence(
        base=(written[0], written[0]),
        lever=(faster[0],),
        perturbed=tuple(normalised(perturbation=k) for k in (1, 2, 3)),
        base_seeds=tuple(written),
        lever_seeds=tuple(faster),
    )
    ruling = judge("statistical", found)
    assert (ruling.verdict is Verdict.HARMED) == flipped, ruling.why
