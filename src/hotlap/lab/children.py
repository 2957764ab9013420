"""Work that needs torch, done by a process of its own: a question as JSON in, an answer as JSON out."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import hotlap
from hotlap.errors import HotlapError
from hotlap.record import encode, load

T = TypeVar("T")

# Several times what the longest of them takes on a slow machine.
_TIMEOUT_S = 900.0


class CannotMeasure(HotlapError):  # noqa: N818 - reads as the sentence "cannot measure"
    """The measuring process came to nothing; the message carries its last line."""


def ask(task: str, question: Any, kind: type[T]) -> T:
    """`hotlap.lab.child.<task>` answers `question` with a `kind`.

    Raises:
        CannotMeasure: it failed, or did not end.
    """
    with tempfile.TemporaryDirectory(prefix="hotlap-lab-") as scratch:
        asked, out = Path(scratch) / "question.json", Path(scratch) / "answer.json"
        asked.write_bytes(encode(question))
        # The user's folder must not shadow our packages (-P), and the child must find this hotlap.
        command = [sys.executable, "-P", "-m", f"hotlap.lab.child.{task}", str(asked), str(out)]
        try:
            done = subprocess.run(
                command,
                env=environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CannotMeasure(f"Measuring ({task}) did not end in {_TIMEOUT_S:.0f} s.") from None
        if done.returncode != 0 or not out.exists():
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise CannotMeasure(f"Measuring ({task}) ended with code {done.returncode}: {last}")
        return load(out, kind)


def environment() -> dict[str, str]:
    """This process's, with this hotlap on the path."""
    root = str(Path(hotlap.__file__).parents[1])
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path}
