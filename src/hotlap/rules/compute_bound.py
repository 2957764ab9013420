"""compute-bound: the step is forward and backward passes, and nothing else has a fault.

What it says: nothing around the model costs much; only a faster model, other numerics or other hardware help. It is
said last of all: only where no other finding has anything to fix. Attention that is written out (a softmax between two
products) is one call of torch.nn.functional.scaled_dot_product_attention, which no finding says of a script; nor how
much of its batches is padding, or is made of each batch although it could be made once of each sample.
Why it matters: it says where not to look.
Example: a transformer whose batches are ready in time.
Risk: compiled code rounds differently, and lower precision changes numbers; the gate says whether that shows.

Before:

    out = model(x)
    loss = criterion(out, y)

After:

    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        out = model(x)
        loss = criterion(out, y)
"""

from hotlap.record import Finding, HotLine, Machine, Phase, Run
from hotlap.rules.step import at_lines, chosen, finding, model_levers, parts, phase_s
from hotlap.units import percent

# Ours: with half of the step in the model, no other phase can be larger. (TraceML says so from 90% on only; between the
# two, what costs the rest is told by a finding of its own in place of this one.)
MIN_SHARE = 0.50

# Ours: a smaller part of what is told is not worth a clause.
_LEAST = 0.1


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Share of the step spent in forward and backward, and in the arithmetic of a loss that is written as functions."""
    forward_s, backward_s = phase_s(run, Phase.FORWARD), phase_s(run, Phase.BACKWARD)
    in_functions = parts(run, Phase.OTHER) if run.on_cpu else None
    functions_s = 0.0 if in_functions is None else in_functions.arithmetic_s
    if forward_s is None or backward_s is None or run.share_of(forward_s + backward_s + functions_s) < MIN_SHARE:
        return None
    cost_s = forward_s + backward_s + functions_s
    no_tensor_cores = run.operators is not None and run.operators.tensor_core_share == 0 and not run.autocast
    levers = {"tf32": no_tensor_cores, **model_levers(run), "bf16-autocast": not run.autocast}
    cores = " No matrix kernel used tensor cores." if no_tensor_cores else ""
    beside = f", {percent(run.share_of(functions_s))} in functions" if functions_s >= _LEAST * cost_s else ""
    return finding(
        run,
        cost_s,
        f"Each step spends {run.with_share(cost_s, ' of it')} in the model: "
        f"{percent(run.share_of(forward_s))} forward, {percent(run.share_of(backward_s))} backward{beside}"
        f"{at_lines(_lines(run), cost_s)}.{cores}",
        levers=chosen({**levers, "threads": run.on_cpu}),
    )


def _lines(run: Run) -> list[HotLine]:
    """The script's own that call operators; where the device computes, the host's lines do not tell."""
    if not run.on_cpu:
        return []
    lines = (line for line in run.hot_lines if line.phase in (Phase.FORWARD, Phase.OTHER) and line.inside)
    return [line for line in lines if f"{line.path}:{line.line}" in run.calls_in(line.phase).lines]
