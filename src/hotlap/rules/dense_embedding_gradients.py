"""dense-embedding-gradients: a step touches few rows of a large table, and computes with all of them.

What it says: how many rows of an embedding have a gradient in a step, and about what it takes to fill, clear and apply
gradients of all others, which are 0.
Why it is bad: time grows with the size of the table, not with the batch. With `sparse=True` the gradient holds the rows
that were looked up, and nothing else.
Example: `nn.Embedding` of 160,000 users and items, of which a batch of 128 looks up some hundred.
Risk: Adam moves all rows, SparseAdam those of the batch; clip_grad_norm_ and weight decay fail on sparse gradients.

Before:

    items = nn.Embedding(120_000, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

After:

    items = nn.Embedding(120_000, 32, sparse=True)  # the rows that a batch looks up
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
"""

from hotlap.record import Finding, Machine, OptimizerFacts, Phase, Run, Sighting, SightingKind
from hotlap.rules.advice import advice, calls, of_line, replaced
from hotlap.rules.change import Change
from hotlap.rules.step import MIN_IN_VAIN, cost_of, finding, phase_s, sightings
from hotlap.units import percent

# Rows are sorted and added up one by one. Of 120,000 x 32, plain SGD, one thread: look-up, gradient and update of 0.3%
# took 0.3 ms in place of 7.2, of 3% 0.8 in place of 12, and of 10% 12 in place of 24 (2026-11-30).
MAX_TOUCHED = 0.1


EXPLAINS = frozenset({"optimizer-bound", "memory-bound"})


def explains(run: Run) -> frozenset[str]:
    """Only where gradients of few rows are the same training: else a faster optimizer is what keeps it."""
    return EXPLAINS if all(map(_as_they_are, run.optimizers)) else frozenset()


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Of optimizers the part of these tables, and filling their gradients; compilers and DDP want dense ones."""
    seen = [one for one in sightings(run, SightingKind.DENSE_GRADIENT) if _touched(one) < MAX_TOUCHED]
    elements = sum(one.num_elements for one in run.optimizers)
    if not seen or not elements or run.compiled or run.world_size > 1:
        return None
    part = min(1.0, sum(int(one.detail.get("elements") or 0) * (1 - _touched(one)) for one in seen) / elements)
    filled_s = min(cost_of(seen), phase_s(run, Phase.BACKWARD) or 0.0)
    cost_s = part * (phase_s(run, Phase.OPTIMIZER) or 0.0) + filled_s
    if run.share_of(cost_s) < MIN_IN_VAIN:
        return None
    worst = max(seen, key=lambda one: int(one.detail.get("elements") or 0))
    rows, touched = (int(worst.detail.get(name) or 0) for name in ("rows", "touched"))
    told = (
        f"A step touches {touched:,} of {rows:,} rows of {worst.detail['module'] or 'the model'} ({worst.what}), and "
        f"fills, clears and applies gradients of all: with those of other such tables {percent(part)} of what is "
        f"trained is 0 there, for about {run.with_share(cost_s)} of each step. The gradient is dense"
    )
    if all(map(_as_they_are, run.optimizers)):
        told = f"{told}; with sparse=True it holds no others, and the optimizer takes it as it is."
        return finding(run, cost_s, told, change=_made(run, worst) or of_line(worst))
    told = f"{told}; sparse=True, and SparseAdam for this table, would leave out the others: that is another training"
    return advice(run, cost_s, told, change=of_line(worst))


def _touched(seen: Sighting) -> float:
    """Part of its rows."""
    return int(seen.detail.get("touched") or 0) / max(1, int(seen.detail.get("rows") or 0))


def _as_they_are(optimizer: OptimizerFacts) -> bool:
    """Sparse gradients give the same, to the bit."""
    kind, settings = optimizer.name.rpartition(".")[2], optimizer.settings
    return kind in {"SGD", "Adagrad"} and {settings.get("momentum", "0.0"), settings.get("weight_decay")} == {"0.0"}


def _made(run: Run, seen: Sighting) -> Change | None:
    """The one place where the script makes such a table."""
    made = list(calls(run, f"torch.nn.{seen.what}"))
    if len(made) != 1 or not made[0][1].args:
        return None
    script, call = made[0]
    return replaced(script, call, f"{script.code(call).removesuffix(')').rstrip()}, sparse=True)")
