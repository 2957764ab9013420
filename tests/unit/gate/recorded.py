"""A training in the test's own process, with the updates that the probe would have recorded of it."""

from collections.abc import Callable, Sequence

import torch

from hotlap.probe.evidence import Perturbation, Updates, learning_rates, settings_digest
from hotlap.probe.facts import Facts
from hotlap.record import Run, Status, as_number


def recorded(
    loss_of: Callable[[], torch.Tensor],
    params: Sequence[torch.Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    num_steps: int,
    num_samples: int,
    seed: int,
    perturbation: int = 0,
    on_gradients: Callable[[int], None] = lambda step: None,
) -> Run:
    """Train on `loss_of()`, which draws a batch of `num_samples`; runs of one seed draw the same.

    `on_gradients` is called with the step's number when gradients are there.
    """
    updates, perturbations, facts = Updates(), Perturbation(perturbation), Facts()
    facts.made_optimizer(optimizer)
    losses, settings, rates = [], [], []
    for step in range(num_steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()  # type: ignore[no-untyped-call]
        on_gradients(step)
        if updates.wanted(step):
            updates.before([optimizer], optimizer)
        optimizer.step()
        updates.stepped()
        updates.after(step)
        if perturbation:
            perturbations.apply(params)
        losses.append(as_number(float(loss.detach())))
        trained = updates.in_order([optimizer])
        settings.append(settings_digest(trained))
        rates.append(learning_rates(trained))
    same = tuple(f"{seed}-{k}" for k in range(num_steps))
    return Run(
        status=Status.COMPLETE,
        device="cpu",
        num_threads=1,
        seed=seed,
        step_index=tuple(range(num_steps)),
        epoch_starts=(0, num_steps // 2),
        loss=tuple(losses),
        num_samples=(num_samples,) * num_steps,
        num_updates=(1,) * num_steps,
        batch_digest=same,
        rng_digest=same,
        settings_digest=tuple(settings),
        learning_rates=tuple(rates),
        optimizers=facts.optimizer_facts(),
        updates=tuple(updates.seen),
        trained=updates.trained,
        untrained=updates.untrained,
    )
