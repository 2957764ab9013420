"""distribution-checks: torch.distributions checks arguments and samples in every step.

What it says: this part of each step passes in the checks that `torch.distributions` makes whenever a distribution is
made or asked for the probability of a value, and the line that makes most of them.
Why it is bad: each check is several operators on tensors of a few elements, which cost as much as what they guard: a
policy that draws one action at a time spends more on them than on its network. Once a training runs, they only confirm
what was true in the step before. (They are what notices a NaN in the parameters of a distribution: keep them while a
fault is searched for.)
Example: `Categorical(probs)` for each action; `torch.distributions.Distribution.set_default_validate_args(False)` once,
behind the imports, leaves the checks out.
Risk: a NaN in the parameters of a distribution is no longer noticed there.

Before:

    action = Categorical(probs).sample()

After:

    torch.distributions.Distribution.set_default_validate_args(False)  # once, behind the imports
    action = Categorical(probs).sample()
"""

from hotlap.record import Finding, Machine, Run, SightingKind
from hotlap.rules.advice import at_line
from hotlap.rules.step import Change, at_sighting, finding, mean_step_s, sightings, spent

# Ours: a line of source is worth changing for a twentieth of the step.
MIN_SHARE = 0.05

_OFF = "torch.distributions.Distribution.set_default_validate_args(False)  # once, behind the imports"


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """The checks' part of the steps in which they were timed, of the steps that were recorded."""
    seen, share = sightings(run, SightingKind.DISTRIBUTION_CHECKS), share_of_steps(run)
    if not seen or share < MIN_SHARE:
        return None
    worst, cost_s = seen[0], share * mean_step_s(run)
    number = sum(sighting.per_step for sighting in seen)
    return finding(
        run,
        cost_s,
        f"torch.distributions makes {number:,.0f} checks of arguments and samples a step, which take "
        f"{spent(run, cost_s)}; most of that for {worst.what}{at_sighting(worst)}.",
        change=at_line(worst, f"{_OFF}\n{worst.text}") or Change(after=_OFF),
    )


def share_of_steps(run: Run) -> float:
    """What part of a step all of them take, in [0, 1]: steps differ in length, their parts hardly."""
    shares = (one.detail.get("share") for one in sightings(run, SightingKind.DISTRIBUTION_CHECKS))
    return min(1.0, sum(share for share in shares if isinstance(share, float)))
