"""unused-results: a part of the model makes what no gradient goes through, and nothing else reads.

What it says: the time a step of such operators, and the line with most of it. It is looked for on the CPU, operator by
operator, within models as well, in a training with one optimizer.
Why it is bad: what is not used need not be computed.
Example: a decoder whose reconstruction the loss no longer takes; auxiliary heads that are called and left out.
Risk: what is kept for later (a list that is read at the end of the epoch) is used after all.

Before:

    def forward(self, x):
        code = self.encoder(x)
        return self.head(code), self.decoder(code)

    logits, _ = net(x)
    loss = F.cross_entropy(logits, y)

After:

    def forward(self, x):
        return self.head(self.encoder(x))

    loss = F.cross_entropy(net(x), y)
"""

from hotlap.record import Finding, Machine, Run, SightingKind
from hotlap.rules.advice import of_line
from hotlap.rules.step import at_sighting, cost_of, finding, looked_at_s, share_of, sightings, spent

# Ours, as of other passes in vain.
MIN_SHARE = 0.05

EXPLAINS = frozenset({"launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Without whole forward passes in vain, which `wasted-forward` tells of. With several optimizers a step may end
    between a forward pass and its gradients."""
    seen = sightings(run, SightingKind.UNUSED)
    cost_s = looked_at_s(run, seen) - cost_of(sightings(run, SightingKind.WASTED_FORWARD))
    if share_of(run, cost_s) < MIN_SHARE or len(run.optimizers) > 1:
        return None
    return finding(
        run,
        cost_s,
        f"Operators take {spent(run, cost_s)} of each step for results that no gradient goes through and no other "
        f"operator reads; most of it{at_sighting(seen[0])}: {seen[0].text}. Where nothing needs them later, leave them "
        "out; where a loss was meant to, it does not.",
        change=of_line(seen[0]),
    )
