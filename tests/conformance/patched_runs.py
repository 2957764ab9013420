"""Runs many small trainings, each in a fork of one process that has imported torch: `python -m ... JOBS RESULTS`.

A fork has a state of its own (threads, default types, modules that were patched, the environment), and costs some
milliseconds where a new process costs seconds. This module is the program; `run_all` starts it.
"""

import hashlib
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

# A training of some steps is over in a tenth of a second; on a machine that is busy with other things in some.
_LIMIT_S = 60

# What a script leaves stays until the process goes: freed under Python's lock, a model that is trained by several
# processes waits for threads of Gloo, of which one may wait for that lock (seen in torch 2.13: one in thirty).
_left: list[dict[str, Any]] = []


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one text."""

    losses: tuple[float, ...]
    """Of each backward pass."""
    random_state: str
    """Digest of torch's generator at the end."""
    compiled: int
    """Models that `model.compile` was called for."""
    error: str | None = None
    """The last lines of the traceback."""


def run_all(texts: Mapping[str, str], folder: Path) -> dict[str, Outcome]:
    """Name -> text of a script, and what came of each. `folder`: where they are written to be run."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    jobs, results = folder / "jobs.json", folder / "results.json"
    jobs.write_text(json.dumps([str(folder / f"{name}.py") for name in texts]))
    root = Path(__file__).parents[2]
    # Gloo asks for the address of the host's name where no interface is named, and waits for an answer.
    named = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environment = {**os.environ, **named}
    subprocess.run(
        [sys.executable, "-m", "tests.conformance.patched_runs", str(jobs), str(results)],
        cwd=root, env=environment, check=True, timeout=_LIMIT_S * 10,
    )  # fmt: skip
    found = json.loads(results.read_text())
    return {name: Outcome(**{**found[name], "losses": tuple(found[name]["losses"])}) for name in texts}


def main(jobs: str, results: str) -> None:
    """Run them, as many at once as there are cores."""
    _import_all()
    found: dict[str, Any] = {}
    waiting = list(reversed(json.loads(Path(jobs).read_text())))
    running: dict[int, tuple[str, Any]] = {}
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            path = waiting.pop()
            answer = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the child has ended
            running[_fork(path, answer.fileno())] = path, answer
        pid, status = os.wait()
        path, answer = running.pop(pid)
        answer.seek(0)
        told = answer.read()
        lost = asdict(Outcome((), "", 0, f"it ended with status {status} and told nothing"))
        found[Path(path).stem] = json.loads(told) if told else lost
        answer.close()
    Path(results).write_text(json.dumps(found))


def _import_all() -> None:
    """What the texts import, and what takes long to import when it is first used."""
    import torch

    import hotlap.data
    import hotlap.small

    for package in (hotlap.data, hotlap.small):
        for name in package.__all__:
            getattr(package, name)
    for name in ("torch._dynamo.backends.debugging", "torch._inductor.compile_fx", "torchdiffeq"):
        import_module(name)
    torch.compile(torch.nn.Identity(), options={"fallback_random": True})
    torch.compile(torch.nn.Identity(), backend="eager")(torch.ones(1))


def _fork(path: str, answer: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(_LIMIT_S)
    code = 1
    try:
        told = json.dumps(asdict(_run(path)))
        os.write(answer, told.encode())
        code = 0
    finally:
        # Not through the parent's own ending; workers of a loader have ended with it, or are daemons that are told so.
        sys.stdout.flush()
        _end_workers()
        os._exit(code)


def _no_other_program(*_: object) -> NoReturn:
    raise AssertionError("a patched script must stay in its process: in a notebook that is the kernel")


def _end_workers() -> None:
    import multiprocessing

    for child in multiprocessing.active_children():
        child.terminate()
        child.join()


def _run(path: str) -> Outcome:
    import torch

    losses: list[float] = []
    compiled: list[Any] = []
    backward: Any = torch.Tensor.backward
    compile_ = torch.nn.Module.compile

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        losses.append(float(self.detach().float().sum()))
        return backward(self, *args, **kwargs)

    def cheaply(self: Any, *args: Any, **kwargs: Any) -> None:
        """What was asked for is checked; then Dynamo traces, and no more: a C++ compiler takes ten seconds. For CUDA's
        graphs it would trace once more what `compile` has traced on the same scripts beside the same levers."""
        torch.compile(*args, **kwargs)
        backend = kwargs.get("backend", "inductor")
        assert backend in torch.compiler.list_backends(None)
        compiled.append(self)
        if backend != "cudagraphs":
            compile_(self, backend="eager", dynamic=kwargs.get("dynamic"))

    check_hook: Any = torch.nn.parallel.DistributedDataParallel._check_comm_hook

    def checked(self: Any, hook: Any) -> None:
        """A torch without CUDA takes no bfloat16 hook, though its processes can average bfloat16."""
        if hook.__name__ != "bf16_compress_hook":
            check_hook(self, hook)

    # By name: what is put there is no method to the types.
    setattr(torch.nn.parallel.DistributedDataParallel, "_check_comm_hook", checked)  # noqa: B010
    setattr(torch.Tensor, "backward", noted)  # noqa: B010
    setattr(torch.nn.Module, "compile", cheaply)  # noqa: B010
    for name in ("execv", "execve", "execvp", "execvpe"):
        setattr(os, name, _no_other_program)
    random.seed(0)
    torch.manual_seed(0)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    warnings.simplefilter("ignore")
    error = None
    try:
        sys.argv = [path]
        _left.append(runpy.run_path(path, run_name="__main__"))
    except BaseException:
        error = "".join(traceback.format_exc().splitlines(keepends=True)[-6:])
    state = hashlib.sha256(bytes(torch.get_rng_state().tolist())).hexdigest()
    return Outcome(tuple(losses), state, len(compiled), error)


if __name__ == "__main__":
    main(*sys.argv[1:])
