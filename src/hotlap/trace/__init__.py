"""PARENT: what a trace that torch.profiler wrote says of a training on a GPU. `read_trace("trace.json.gz")`."""

import os

from hotlap.record import Study

__all__ = ["read_trace"]


def read_trace(*paths: str | os.PathLike[str]) -> Study:
    """Traces as torch.profiler writes them (JSON, also in gzip; folders; tar archives) -> where a step's time goes.

    Several traces are ranks of one job. Times in seconds; `study.baseline[0]` is the run, of the rank that the others
    wait for; its phases are those of the device.

    Raises:
        UserError: a file cannot be read, is no trace, or holds no work of a device.
    """
    from hotlap.trace import study

    return study.read([os.fspath(path) for path in paths])
