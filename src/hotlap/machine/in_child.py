"""Measuring that needs torch, done by a process of its own: this one never imports it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypeVar

import hotlap
from hotlap.errors import HotlapError
from hotlap.record import load

T = TypeVar("T")

# A machine with eight GPUs takes a minute; what takes longer than this hangs.
_TIMEOUT_S = 600.0


def measured(module: str, kind: type[T], *words: str) -> T:
    """What `python -m module OUT *words` writes to the file OUT: the JSON of a `kind`.

    Raises:
        HotlapError: it failed (torch cannot be imported?), or did not end; the message carries its last line.
    """
    # The user's folder must not shadow our packages (-P), and the child must find this hotlap.
    root = str(Path(hotlap.__file__).parents[1])
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    with tempfile.TemporaryDirectory(prefix="hotlap-") as scratch:
        out = Path(scratch) / "measured.json"
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", module, str(out), *words],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise HotlapError(
                f"Measuring did not end in {_TIMEOUT_S:.0f} s. Does python -c 'import torch; "
                "torch.zeros(1).cuda()' come to an end?"
            ) from None
        if done.returncode != 0 or not out.exists():
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise HotlapError(f"Measuring ended with code {done.returncode}: {last}")
        return load(out, kind)
