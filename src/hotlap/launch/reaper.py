"""Ends what trials have started, and removes their folder, when hotlap itself was killed and could not.

`python -I -S reaper.py FOLDER`: waits until its standard input ends, which it does with the process that holds the
other end. The kernel ends a trial's own process then (PR_SET_PDEATHSIG), but nothing that this one has started.

Uses nothing but the standard library, and starts in 15 ms.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

# Processes that start others while they are ended are looked for again; a fork bomb is somebody else's affair.
_ROUNDS = 100


class Reaper:
    """Held by the process that starts trials in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", __file__, str(folder)],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """All trials have ended."""
        if self._process.returncode is None:
            self._process.communicate()


def delete(folder: Path) -> None:
    """A folder with all that is in it, whatever rights a script gave what it made."""
    # The kernel makes an overlay's work folder unreadable, too.
    for root, names, _ in os.walk(folder):
        for path in (os.path.join(root, name) for name in names):
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def kill_marked(entry: str) -> int:
    """Kill every process whose environment has an entry that begins so, however it detached itself.

    Returns:
        How many there were.
    """
    marker = b"\0" + os.fsencode(entry)
    num_killed = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if marker in b"\0" + Path(f"/proc/{name}/environ").read_bytes():
                os.kill(int(name), signal.SIGKILL)
                num_killed += 1
    return num_killed


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the process group of `pid`, which leads one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_all(pid: int, marker: str) -> None:
    """Kill the group of `pid`, and every process of the run that `marker` names in its environment."""
    signal_group(pid, signal.SIGKILL)
    kill_marked(f"HOTLAP_RUN={marker}")


def main(folder: str) -> None:
    """Wait for the end of input, then for the end of all of them."""
    # A scheduler that ends a job asks each of its processes to end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for _ in range(_ROUNDS):
        if not kill_marked(f"HOTLAP_PLAN={folder}/"):
            break
    delete(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1])
