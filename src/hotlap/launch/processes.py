"""The processes of one execution: stop, continue, and end all of them, however they detached themselves."""

import contextlib
import os
import signal

from hotlap.launch.reaper import kill_marked


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the process group of `pid`, which leads one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_all(pid: int, marker: str) -> None:
    """Kill the group of `pid`, and every process that carries `marker` in its environment."""
    if hasattr(os, "killpg"):
        signal_group(pid, signal.SIGKILL)
    kill_marked(f"HOTLAP_RUN={marker}")
