"""memory-bound: the model moves numbers through memory and computes little with each.

What it says: this part of each step passes in operators that read and write large tensors at the memory's own rate
(elementwise operators, normalisation, copies, embedding tables).
Why it is bad: more cores or faster arithmetic change nothing; fewer passes over the data, smaller numbers or a smaller
table do.
Example: a chain of elementwise operators over tensors of tens of megabytes, each written out and read again.
Risk: fused operators round differently; lower precision changes numbers, which the gate judges.

Before:

    y = torch.sigmoid(x)
    y = y * x + bias
    loss = (y - target).square().mean()

After:

    @torch.compile  # one pass over x in place of five
    def loss_of(x, bias, target):
        y = torch.sigmoid(x)
        y = y * x + bias
        return (y - target).square().mean()

    loss = loss_of(x, bias, target)
"""

from hotlap.record import Finding, Machine, OperatorWindow, Phase, Run
from hotlap.rules.step import at_pace, chosen, finding

# Ours: a sound convolutional net spends 20-40% of a CPU step in normalisation, activations and pooling; where these
# take half of it, they and not its products decide.
MIN_SHARE = 0.50

# Names of kernels' operators that compute much for each number they read.
_DENSE = ("mm", "conv", "linear", "attention", "lstm", "gru", "rnn")

_MODEL = (Phase.FORWARD, Phase.BACKWARD, Phase.OTHER)


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Operators that stream: on the CPU by their own rate, on a device by what they are."""
    if run.on_cpu:
        cost_s = sum(at_pace(run, phase, run.calls_in(phase).streaming_s) for phase in _MODEL)
    else:
        cost_s = _on_device(run.operators)
    if run.share_of(cost_s) < MIN_SHARE:
        return None
    return finding(
        run,
        cost_s,
        f"Each step spends {run.with_share(cost_s, ' of it')} in the model's operators that move "
        "large tensors through memory and compute little.",
        levers=chosen({"compile": not run.compiled, "bf16-autocast": not run.autocast}),
    )


def _on_device(window: OperatorWindow | None) -> float:
    """Of torch's own operators: what a kernel from elsewhere computes, its name does not say."""
    if window is None or not window.complete:
        return 0.0
    streaming_s = sum(
        operator.device_s or 0.0
        for operator in window.operators
        if not any(word in operator.name for word in _DENSE) and operator.name.startswith("aten::")
    )
    # Copies between host and device are launched by operators too, but are not bound by the device's memory.
    return max(0.0, streaming_s - (window.copy_s or 0.0))
