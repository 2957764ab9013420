"""transfer-bound: training waits for data on their way to the device.

What it says: this part of each step passes while batches are copied and nothing else goes on, and the line that copies
longest.
Why it is bad: the next batch could travel while this one trains; that takes pinned memory, a copy that does not block,
and a stream of its own.
Example: `x = x.to("cuda")` of a batch from a loader without `pin_memory=True`; `torch.zeros(64).to(device)` in each
step, which is `torch.zeros(64, device=device)`.
Risk: pinned memory is taken from the system, and a tensor must not be changed while it travels.

Before:

    loader = DataLoader(data, batch_size=64, num_workers=4)
    for x, y in loader:
        x, y = x.to("cuda"), y.to("cuda")

After:

    loader = DataLoader(data, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
"""

from hotlap.record import Finding, Machine, Phase, Run, SightingKind
from hotlap.rules.step import at_sighting, finding, sightings, transfer_s

# TraceML notes exposed copies from 5% on and calls them critical from 10% on; below a tenth at most 1.11x is to gain.
MIN_SHARE = 0.10


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Copies that nothing hides, by the device's clock where it was looked at, else by the host's."""
    if run.on_cpu:
        return None
    on_device = transfer_s(run)
    cost_s = run.mean_phase_s(Phase.TRANSFER) if on_device is None else on_device
    if cost_s is None or run.share_of(cost_s) < MIN_SHARE:
        return None
    loaders = [loader for loader in run.loaders if loader.trained_on]
    how = " "
    if loaders:
        pinned = any(loader.pin_memory for loader in loaders)
        how = ", from pinned memory, " if pinned else ", from memory that is not pinned, "
    longest = next(iter(sightings(run, SightingKind.BLOCKING_COPY)), None)
    where = "" if longest is None else f"; the longest is made{at_sighting(longest)}: {longest.text}"
    return finding(
        run,
        cost_s,
        f"Each step spends {run.with_share(cost_s, ' of it')} on copies between host and device{how}while "
        f"nothing else runs{where}.",
        levers=("pin-and-overlap", "device-resident"),
    )
