"""input-bound: training waits for the next batch.

What it says: this part of each step passes in the data loader, before the model sees the batch.
Why it is bad: the processor that trains does nothing useful meanwhile; no change to the model can win that time back.
Example: a `Dataset` that decodes and transforms images in the training process (num_workers=0) beside a small network.
"""

from hotlap.record import Finding, Phase, Run
from hotlap.units import duration, percent

# XProf calls a training input-bound from 5% of the step on, the PyTorch profiler's former adviser as well
# (input_pipeline_analysis.cc; torch_tb_profiler/profiler/data.py). Below, a faster loader drowns in a trial's noise.
MIN_SHARE = 0.05


def check(run: Run) -> Finding | None:
    """Share of the step spent in the loader."""
    share, wait_s = run.share(Phase.INPUT), run.mean_phase_s(Phase.INPUT)
    if share is None or wait_s is None or share < MIN_SHARE:
        return None
    loader = next((loader for loader in run.loaders if loader.trained_on), None)
    how = ""
    if loader is not None:
        how = (
            ", made by the training process itself" if loader.num_workers == 0 else f" of {loader.num_workers} workers"
        )
    return Finding(
        code="input-bound",
        cost_s=wait_s,
        share=share,
        evidence=f"Each step waits {duration(wait_s)} ({percent(share)} of it) for its batch{how}.",
        try_levers=("cached-dataset",),
    )
