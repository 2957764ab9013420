"""A whole training in NumPy that records what the probe records, and the harms that can be planted in it.

Harms are hidden wherever they can be: the record says what the script meant to do (learning rate, settings, number of
updates), while the arithmetic does something else. So the gate must see them in what came out.
"""

import hashlib
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hotlap.gate import Evidence
from hotlap.record import Run, Status, Update, as_number

Array = NDArray[np.float32]

NUM_ITEMS, NUM_FEATURES, NUM_HIDDEN, NUM_CLASSES, BATCH = 630, 20, 48, 5, 32
NUM_STEPS = 120
DROPOUT, NOISE = 0.2, 0.3


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is trained, and what is wrong with it. The defaults are the baseline."""

    optimizer: str = "adam"
    """"adam" or "sgd" (with momentum)."""
    rate: float | None = None
    """None: 3e-3 for Adam, 0.05 for SGD. Ten times that is chaotic: ulps grow to the size of the loss."""
    seed: int = 0
    num_steps: int = NUM_STEPS
    # Differences that do no harm.
    perturbation: int = 0
    order: str = "plain"
    """How sums are formed: "plain", "halves", "double" (float64, then rounded), "bf16" (8-bit mantissas)."""
    other_masks: bool = False
    """Dropout draws from another stream: other numbers, equal training."""
    # Harms.
    rate_times: float = 1.0
    stale: int = 0
    """Each so-many-th step trains on the batch before."""
    uncleared: bool = False
    left_out: int = 0
    doubled: int = 0
    dropout: float = DROPOUT
    share_of_data: float = 1.0
    decay_times: float = 1.0
    flush_below: float = 0.0
    frozen_augmentation: bool = False
    untouched_rows: float = 0.0
    shuffled_labels: float = 0.0
    nan_from: int | None = None
    drop_last: bool = False
    momentum_times: float = 1.0
    stale_schedule: bool = False


HARMS: dict[str, dict[str, object]] = {
    "learning rate halved": {"rate_times": 0.5},
    "learning rate x1.1": {"rate_times": 1.1},
    "learning rate x3": {"rate_times": 3.0},
    "stale batch": {"stale": 2},
    "gradients not cleared": {"uncleared": True},
    "each tenth step left out": {"left_out": 10},
    "each tenth step doubled": {"doubled": 10},
    "dropout off": {"dropout": 0.0},
    "half of the data": {"share_of_data": 0.5},
    "weight decay lost": {"decay_times": 0.0},
    "half of the gradients flushed": {"flush_below": 2e-2},
    "small gradients flushed": {"flush_below": 1e-3},
    "augmentation frozen": {"frozen_augmentation": True},
    "a quarter of the rows left": {"untouched_rows": 0.25},
    "labels shuffled": {"shuffled_labels": 1.0},
    "a fifth of labels shuffled": {"shuffled_labels": 0.2},
    "loss becomes NaN": {"nan_from": 60},
    "last batch of an epoch lost": {"drop_last": True},
    "momentum lost": {"momentum_times": 0.0},
    "learning rate schedule stale": {"stale_schedule": True},
}


@cache
def train(training: Training) -> Run:
    """The record of one training; cached, since it is a pure function."""
    return _Trainer(training).run()


def evidence(training: Training, num_seeds: int = 5, **lever: object) -> Evidence:
    """What the gate is given for a lever that does `lever` to `training`."""

    def with_lever(t: Training) -> Training:
        return replace(t, **lever)  # type: ignore[arg-type]

    seeds = [replace(training, seed=training.seed + 1000 * k) for k in range(1, num_seeds)]
    return Evidence(
        base=(train(training), replace(train(training))),
        lever=(train(with_lever(training)),),
        perturbed=tuple(train(replace(training, perturbation=k)) for k in (1, 2)),
        base_seeds=tuple(train(t) for t in seeds),
        lever_seeds=tuple(train(with_lever(t)) for t in seeds),
    )


def _digest(*parts: bytes) -> str:
    return hashlib.blake2b(b"".join(parts), digest_size=12).hexdigest()


def _size(x: Array) -> float:
    return float(np.linalg.norm(x.astype(np.float64)))


def _bf16(x: Array) -> Array:
    bits = x.astype(np.float32).view(np.uint32)
    rounded: Array = ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return rounded


def _halves(a: Array, b: Array) -> Array:
    half = a.shape[1] // 2
    return np.asarray(a[:, half:] @ b[half:] + a[:, :half] @ b[:half])


PRODUCTS: dict[str, Callable[[Array, Array], Array]] = {
    "plain": lambda a, b: a @ b,
    "halves": _halves,
    "double": lambda a, b: (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32),
    "bf16": lambda a, b: _bf16(a) @ _bf16(b),
}


class _Trainer:
    """Parameters W1 (F, H), b1, W2 (H, C), b2; all float32."""

    def __init__(self, t: Training) -> None:
        self.t = t
        self.matmul = PRODUCTS[t.order]
        world = np.random.default_rng(42)  # the data are the same for all seeds, as files on a disk are
        centers = world.normal(0, 1, (NUM_CLASSES, NUM_FEATURES))
        self.labels = world.integers(0, NUM_CLASSES, NUM_ITEMS)
        self.items = (centers[self.labels] + world.normal(0, 1.5, (NUM_ITEMS, NUM_FEATURES))).astype(np.float32)
        init = np.random.default_rng(t.seed)
        shapes = (NUM_FEATURES, NUM_HIDDEN), (NUM_HIDDEN,), (NUM_HIDDEN, NUM_CLASSES), (NUM_CLASSES,)
        self.params = [(init.normal(0, 1, s) / np.sqrt(s[0]) * (len(s) == 2)).astype(np.float32) for s in shapes]
        self.first = [np.zeros_like(p) for p in self.params]
        self.second = [np.zeros_like(p) for p in self.params]
        self.kept_grads = [np.zeros_like(p) for p in self.params]
        self.data_rng = np.random.default_rng(t.seed + 1)
        self.mask_rng = np.random.default_rng(t.seed + 2 + 77 * t.other_masks)
        self.perturbation_rng = np.random.default_rng(t.perturbation)
        self.order: list[NDArray[np.int64]] = []
        self.last_batch: tuple[Array, NDArray[np.int64]] | None = None
        self.cached: dict[int, Array] = {}
        self.seen: set[bytes] = set()

    def run(self) -> Run:
        t = self.t
        losses, batches, fresh, states, rates, samples, starts, updates = ([] for _ in range(8))
        for step in range(t.num_steps):
            if not self.order:
                starts.append(step)
                self.order = self._epoch()
            x, y = self._batch(step)
            loss, grads = self._loss_and_grads(x, y)
            before = list(self.params)
            rate = self._rate(step)
            looks = step < 3 or step & (step - 1) == 0 or (step * 0.618034) % 1 < 1 / 6  # as the probe does
            moves = self._foreseen(grads, step, rate) if looks else []
            for _ in range(self._times(step)):
                self._update(grads, step, self._rate(0) if t.stale_schedule else rate)
            if looks:
                updates.append(self._compared(step, before, grads, [b - m for b, m in zip(before, moves, strict=True)]))
            self._perturbation()
            losses.append(as_number(float("nan") if t.nan_from is not None and step >= t.nan_from else loss))
            batches.append(_digest(x.tobytes(), y.tobytes()))
            fresh.append(self._fresh(x))
            states.append(_digest(*(repr(g.bit_generator.state).encode() for g in (self.data_rng, self.mask_rng))))
            rates.append((rate,))
            samples.append(len(y))
        return Run(
            status=Status.COMPLETE,
            seed=t.seed,
            step_s=(0.001,) * t.num_steps,
            step_index=tuple(range(t.num_steps)),
            arm=(0,) * t.num_steps,
            block=(0,) * t.num_steps,
            epoch_starts=tuple(starts),
            loss=tuple(losses),
            num_samples=tuple(samples),
            num_updates=(1,) * t.num_steps,
            learning_rates=tuple(rates),
            batch_digest=tuple(batches),
            fresh_samples=tuple(fresh),
            rng_digest=tuple(states),
            settings_digest=(_digest(t.optimizer.encode()),) * t.num_steps,
            updates=tuple(updates),
        )

    def _compared(self, step: int, before: list[Array], grads: list[Array], foreseen: list[Array]) -> Update:
        """The update as the probe sees it: what moved, what it found, and what it should have made of that."""
        moved = [p - b for p, b in zip(self.params, before, strict=True)]
        sizes = [_size(should - b) for should, b in zip(foreseen, before, strict=True)]
        eps = float(np.finfo(np.float32).eps)
        off = [max(0.0, _size(p - s) - eps * _size(s)) for p, s in zip(self.params, foreseen, strict=True)]
        return Update(
            step=step,
            norms=tuple(as_number(_size(m)) for m in moved),
            changed=tuple(float((m != 0).mean()) for m in moved),
            gradients=tuple(as_number(_size(g)) for g in grads),
            filled=tuple(float((g != 0).mean()) for g in grads),
            departures=tuple(as_number(o / s if s else 0.0) for o, s in zip(off, sizes, strict=True)),
        )

    def _foreseen(self, grads: list[Array], step: int, rate: float) -> list[Array]:
        """What one update would subtract if nothing were wrong with it; the state stays as it is."""
        honest = copy(self)
        honest.t = replace(self.t, momentum_times=1.0)
        honest.first, honest.second = list(self.first), list(self.second)
        decay = 0.01 if self.t.optimizer == "adam" else 1e-3
        moves = []
        for k, g in enumerate(grads):
            move = honest._adam(k, g, step) if self.t.optimizer == "adam" else honest._sgd(k, g)
            moves.append(np.asarray(np.float32(rate) * (move + np.float32(decay) * self.params[k])))
        return moves

    def _epoch(self) -> list[NDArray[np.int64]]:
        indices = self.data_rng.permutation(NUM_ITEMS)
        if self.t.share_of_data < 1:
            indices = indices[indices < NUM_ITEMS * self.t.share_of_data]
        cut = [indices[i : i + BATCH] for i in range(0, len(indices), BATCH)]
        return cut[:-1] if self.t.drop_last else cut

    def _batch(self, step: int) -> tuple[Array, NDArray[np.int64]]:
        chosen = self.order.pop(0)
        if self.t.frozen_augmentation and chosen[0] in self.cached:
            x = np.stack([self.cached[int(i)] for i in chosen])
        else:
            x = self.items[chosen] + self.data_rng.normal(0, NOISE, (len(chosen), NUM_FEATURES)).astype(np.float32)
            if self.t.frozen_augmentation:
                self.cached |= {int(i): row for i, row in zip(chosen, x, strict=True)}
        batch = x, self.labels[chosen]
        if self.t.stale and step % self.t.stale == 1 and self.last_batch is not None:
            batch = self.last_batch
        self.last_batch = batch
        return batch

    def _fresh(self, x: Array) -> float:
        """Part of the rows that had not come before."""
        rows = {row.tobytes() for row in x}
        num_new = len(rows - self.seen)
        self.seen |= rows
        return num_new / len(x)

    def _loss_and_grads(self, x: Array, y: NDArray[np.int64]) -> tuple[float, list[Array]]:
        w1, b1, w2, b2 = self.params
        n = len(y)
        if self.t.shuffled_labels:
            wrong = np.arange(n) < self.t.shuffled_labels * n
            y = np.where(wrong, np.roll(y, 7), y)
        drawn = self.mask_rng.random((n, NUM_HIDDEN)) >= DROPOUT
        keep = (drawn / (1 - DROPOUT) if self.t.dropout else np.ones_like(drawn)).astype(np.float32)
        before = self.matmul(x, w1) + b1
        hidden = np.maximum(before, 0) * keep
        logits = self.matmul(hidden, w2) + b2
        logits -= logits.max(axis=1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        loss = np.float32(-log_p[np.arange(n), y].mean())
        delta = np.exp(log_p)
        delta[np.arange(n), y] -= 1
        delta /= np.float32(n)
        back = self.matmul(delta, np.ascontiguousarray(w2.T)) * keep * (before > 0)
        grads = [
            self.matmul(np.ascontiguousarray(x.T), back), back.sum(axis=0),
            self.matmul(np.ascontiguousarray(hidden.T), delta), delta.sum(axis=0),
        ]  # fmt: skip
        if self.t.uncleared:
            grads = [g + k for g, k in zip(grads, self.kept_grads, strict=True)]
            self.kept_grads = grads
        return float(loss), [np.where(np.abs(g) < self.t.flush_below, np.float32(0), g) for g in grads]

    def _rate(self, step: int) -> float:
        start = self.t.rate or (3e-3 if self.t.optimizer == "adam" else 0.05)
        return start * 0.5 * (1 + float(np.cos(np.pi * step / (2 * NUM_STEPS))))

    def _times(self, step: int) -> int:
        if self.t.left_out and step % self.t.left_out == self.t.left_out - 1:
            return 0
        return 2 if self.t.doubled and step % self.t.doubled == self.t.doubled - 1 else 1

    def _update(self, grads: list[Array], step: int, rate: float) -> None:
        rate = np.float32(rate * self.t.rate_times)  # type: ignore[assignment]
        for k, g in enumerate(grads):
            move = self._adam(k, g, step) if self.t.optimizer == "adam" else self._sgd(k, g)
            decay = np.float32((0.01 if self.t.optimizer == "adam" else 1e-3) * self.t.decay_times)
            new = self.params[k] * (1 - rate * decay) - rate * move
            if k == 0 and self.t.untouched_rows:
                num_left = int(len(new) * self.t.untouched_rows)
                new[-num_left:] = self.params[k][-num_left:]
            self.params[k] = new

    def _adam(self, k: int, g: Array, step: int) -> Array:
        beta1, beta2 = np.float32(0.9 * self.t.momentum_times), np.float32(0.999)
        self.first[k] = beta1 * self.first[k] + (1 - beta1) * g
        self.second[k] = beta2 * self.second[k] + (1 - beta2) * g * g
        mean = self.first[k] / (1 - beta1 ** np.float32(step + 1))
        size = np.sqrt(self.second[k] / (1 - beta2 ** np.float32(step + 1)))
        return np.asarray(mean / (size + np.float32(1e-8)))

    def _sgd(self, k: int, g: Array) -> Array:
        momentum = np.float32(0.9 * self.t.momentum_times)
        self.first[k] = np.asarray(momentum * self.first[k] + g)
        return np.asarray(self.first[k])

    def _perturbation(self) -> None:
        if self.t.perturbation:
            for k, p in enumerate(self.params):
                self.params[k] = p + p * self.perturbation_rng.integers(-1, 2, p.shape).astype(np.float32) * np.float32(
                    2**-24
                )
