"""A fork of a template is the process that Python would have started: what a script sees, prints, and leaves behind."""

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from hotlap.launch.reaper import end_all
from hotlap.launch.starting import Process, Template, can_fork
from hotlap.launch.workplace import Workplace
from hotlap.record import Plan

pytestmark = pytest.mark.skipif(not can_fork((sys.executable, "a.py")), reason="templates are for Linux")

Ended = tuple[int, str, str]
"""Exit code, standard output, standard error."""

# What a script can see of the Python that runs it.
LOOKS = """
import os, sys, threading, signal
print(__name__, __file__, __spec__, __doc__, __builtins__, sorted(globals()))
print(sys.argv, sys.orig_argv, sys.path, sys.flags, sys.executable, sys.warnoptions, sys._xoptions)
print(os.getcwd(), sorted((k, v) for k, v in os.environ.items() if not k.startswith("HOTLAP_")))
print([name for name in ("stringprep", "colorsys", "heapq") if name in sys.modules])
print(hash("text"), os.getsid(0) == os.getpid() == os.getpgid(0), os.umask(0o22), threading.current_thread().name)
print([str(signal.getsignal(n)) for n in signal.valid_signals()], signal.pthread_sigmask(signal.SIG_BLOCK, []))
print([getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path], sys.path_hooks)
print(len(os.listdir("/proc/self/task")))
print(sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in (0, 1, 2)), len(os.listdir("/proc/self/fd")))
print(open("/proc/self/cmdline").read().split("\\0"), open("/proc/self/oom_score_adj").read())
print(sys.stdin.read(), sys.stdout.line_buffering, sys.stderr.line_buffering, sys.stdout.encoding)
from colorsys import rgb_to_hls
import stringprep
print(rgb_to_hls(1, 2, 3), stringprep.__spec__, stringprep.__loader__, stringprep.__file__, "colorsys" in sys.modules)
sys.exit(3)
"""


@contextlib.contextmanager
def started(folder: Path, *words: str, template: Template | None = None, stdin: str = os.devnull) -> Iterator[Process]:
    plan = Plan(command=(sys.executable, *words), cwd=str(folder), out="")
    place = Workplace(plan, base=folder, number=1, folders=())
    source = os.open(stdin, os.O_RDONLY)
    environment = place.environment({})
    try:
        process: Any
        if template is not None:
            process = template.start(place, environment, source)
        else:
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                place.command(), env=environment, stdin=source, stdout=pipe, stderr=pipe, start_new_session=True
            )
        with contextlib.closing(process.stdout), contextlib.closing(process.stderr):
            yield process
        end_all(process.pid, place.marker)
        process.wait()
    finally:
        os.close(source)
        place.remove()


def run(folder: Path, *words: str, template: Template | None = None, stdin: str = os.devnull) -> Ended:
    with started(folder, *words, template=template, stdin=stdin) as process:
        stdout, stderr = process.stdout.read().decode(), process.stderr.read().decode()
        return process.wait(), re.sub("0x[0-9a-f]+", "0x", stdout), stderr


def record(names: tuple[str, ...], **other: object) -> dict[str, object]:
    specs = {name: importlib.util.find_spec(name) for name in names}
    return {
        "command": [],
        "modules": [(name, spec.origin if spec else None) for name, spec in specs.items()],
        "users": [],
        "barred": [],
        "dlopenflags": sys.getdlopenflags(),
        **other,
    }


@contextlib.contextmanager
def made(
    folder: Path,
    *words: str,
    ahead: tuple[str, ...] = ("stringprep", "colorsys"),
    stdin: str = os.devnull,
    environ: Mapping[str, str] | None = None,
    **other: object,
) -> Iterator[tuple[Template, str | None]]:
    """A template, and why it is of no use. `environ`: what the recorded run had set beside."""
    base = folder / "template"
    base.mkdir(exist_ok=True)
    place = Workplace(Plan(command=(sys.executable, *words), cwd=str(folder), out=""), base=base, number=0, folders=())
    environment = place.environment({})
    known = record(ahead, **other)
    known["environ"] = {**environment, **(environ or {})}
    source = os.open(stdin, os.O_RDONLY)
    template = Template(place, environment, source, imports=json.dumps(known).encode())
    try:
        yield template, template.why_not(timeout_s=60.0, interrupted=lambda: False)
    finally:
        template.close()
        os.close(source)


def script(folder: Path, text: str) -> str:
    (folder / "train.py").write_text(text)
    return "train.py"


def alike(
    folder: Path, *words: str, ahead: tuple[str, ...] = ("stringprep", "colorsys"), stdin: str = os.devnull
) -> Ended:
    """What came of a run, twice forked and once started afresh: always the same."""
    afresh = run(folder, *words, stdin=stdin)
    with made(folder, *words, ahead=ahead, stdin=stdin) as (template, why_not):
        assert why_not is None
        for _ in range(2):
            forked = run(folder, *words, template=template, stdin=stdin)
            assert forked[1].splitlines() == afresh[1].splitlines()
            assert forked == afresh
    return afresh


def test_a_script_sees_what_it_sees_in_a_python_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("typed")
    code, stdout, stderr = alike(tmp_path, script(tmp_path, LOOKS), "--lr", "1", stdin=str(tmp_path / "input"))
    assert (code, stderr) == (3, "")
    assert "typed" in stdout
    assert "train.py None None" in stdout


def test_so_does_a_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "train.py").write_text(LOOKS)
    code, stdout, stderr = alike(tmp_path, "-m", "package.train", "1")
    assert (code, stderr) == (3, "")
    assert "ModuleSpec(name='package.train'" in stdout


ENDS = {
    "error": (1, "def f():\n    import colorsys\n    raise ValueError(colorsys.ONE_THIRD)\nf()\n"),
    "error in an import": (1, "import mine\n"),
    "no such module": (1, "from colorsys import no_such_name\n"),
    "not there": (1, "import colorsys.no_such_module\n"),
    "syntax": (1, "import colorsys\nif x\n"),
    "sentence": (1, "import sys; sys.exit('no data')"),
    "at once": (7, "import os, atexit; atexit.register(print, 'never'); os._exit(7)"),
    "atexit": (0, "import atexit, colorsys; atexit.register(print, 'bye'); print('hello')"),
    "signal": (-15, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"),
    "interrupt": (-2, "import os, signal; os.kill(os.getpid(), signal.SIGINT); input()"),
    "thread": (0, "import threading, time; threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()"),
    "warning": (0, "import warnings; warnings.warn('old'); import colorsys"),
    "fork": (
        0,
        "import os, colorsys\nif os.fork(): print(os.wait()[1])\nelse: import stringprep; os._exit(5)",
    ),
}


@pytest.mark.parametrize("how", ENDS)
def test_it_ends_as_it_would(tmp_path: Path, how: str) -> None:
    (tmp_path / "mine.py").write_text("import stringprep\n\ndef fail():\n    return {}['no key']\n\nfail()\n")
    code, text = ENDS[how]
    ended = alike(tmp_path, script(tmp_path, text))
    assert ended[0] == code
    assert ended[1] or ended[2] or code < 0 or code == 7


def test_processes_that_a_script_starts_find_its_functions(tmp_path: Path) -> None:
    text = """
import multiprocessing, stringprep, sys

def half(x):
    return x / 2

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(half, [1, 2]), half.__module__)
"""
    _, stdout, stderr = alike(tmp_path, script(tmp_path, text))
    assert stdout.count("[0.5, 1.0] __main__") == 3
    assert not stderr


LIBRARY = """
import os, random, sys, tool
from tool import value
os.environ["SET_BY_LIBRARY"] = "1"
os.environ.setdefault("HOME_OF_LIBRARY", "here")
if "template" in os.readlink("/proc/self/fd/1"):
    print("library is here")
drawn = random.getrandbits(24)
from library import child
"""

USES_LIBRARY = """
import os, random, sys
random.seed(3)
print(random.random(), os.environ.get("SET_BY_LIBRARY"), "library" in sys.modules, flush=True)
import tool
print(hasattr(tool, "late"), tool.value())
tool.value = lambda: "replaced"
import library
print(random.random(), os.environ["SET_BY_LIBRARY"], library.value(), library.child.NAME, flush=True)
import tool.late
print(tool.late.value(), library.child.value())
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    folder = tmp_path / "site-packages"
    for name in ("library", "tool"):
        (folder / name).mkdir(parents=True)
    (folder / "tool" / "__init__.py").write_text("def value():\n    return 'original'\n")
    (folder / "tool" / "late.py").write_text("from tool import value\n")
    (folder / "library" / "__init__.py").write_text(LIBRARY)
    (folder / "library" / "child.py").write_text("from tool import value\nNAME = __name__\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))
    for name in [name for name in sys.modules if name.startswith(("library", "tool"))]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def origins(packages: Path, *names: str) -> list[tuple[str, str]]:
    paths = {name: packages.joinpath(*name.split(".")) for name in names}
    return [(n, str(p / "__init__.py" if p.is_dir() else p.with_suffix(".py"))) for n, p in paths.items()]


def test_what_an_import_does_is_done_when_the_script_imports(tmp_path: Path, packages: Path) -> None:
    words = script(tmp_path, USES_LIBRARY)
    afresh = run(tmp_path, words)
    assert afresh[0] == 0, afresh[2]
    assert "replaced library.child" in afresh[1]
    environ = {"SET_BY_LIBRARY": "1", "HOME_OF_LIBRARY": "here"}
    modules = origins(packages, "tool", "library", "library.child", "tool.late")
    with made(tmp_path, words, modules=modules, environ=environ) as (template, why_not):
        assert why_not is None
        assert run(tmp_path, words, template=template) == afresh


REFUSED: dict[str, tuple[str, str]] = {
    "a thread": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "thread",
    ),
    "a file of the script's": (
        "try:\n    import mine\nexcept ImportError:\n    pass",
        "mine, which is the script's own",
    ),
    "a failure": ("raise RuntimeError('no display')", "no display"),
    "many draws": ("import random\nrandom.shuffle(list(range(99)))", "draws random numbers"),
    "the environment": ("", "the script sets OMP_NUM_THREADS"),
    "a GPU": ("import torch\ntorch.cuda._is_in_bad_fork = lambda: True", "starts a GPU"),
    "another file": ("", "library is another module"),
    "a barred import": ("", "bars the import of flash"),
    "a user's sitecustomize": ("", "sitecustomize"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_made_ahead_is_refused_with_the_reason(tmp_path: Path, packages: Path, what: str) -> None:
    text, why = REFUSED[what]
    (packages / "library" / "__init__.py").write_text(text)
    other: dict[str, Any] = {"users": ["mine"], "modules": origins(packages, "library")}
    environ = {"OMP_NUM_THREADS": "1000"} if what == "the environment" else None
    if what == "another file":
        other["modules"] = [("library", "/elsewhere/library.py")]
    elif what == "a barred import":
        other["barred"] = ["flash"]
    elif what == "a user's sitecustomize":
        other["users"] = ["sitecustomize"]
    with made(tmp_path, script(tmp_path, ""), environ=environ, **other) as (_, why_not):
        assert why_not is not None
        assert why in why_not


def test_another_environment_does_not_fit(tmp_path: Path) -> None:
    with made(tmp_path, script(tmp_path, "")) as (template, _):
        place = Workplace(Plan(command=("python",), cwd=str(tmp_path), out=""), base=tmp_path, number=1, folders=())
        assert template.fits(place.environment({}))
        assert not template.fits(place.environment({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}))


WAITS = """
import os, time
if not os.fork():
    os.setsid()
    open("pid", "w").write(str(os.getpid()))
print(flush=True)
time.sleep(600)
"""


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_whatever_a_fork_has_started_is_ended_with_it(tmp_path: Path) -> None:
    words = script(tmp_path, WAITS)
    with made(tmp_path, words) as (template, _):
        with started(tmp_path, words, template=template) as process:
            process.stdout.readline()
            until((tmp_path / "pid").exists)
            until(lambda: (tmp_path / "pid").read_text() != "")
            assert process.poll() is None
        assert process.poll() == -signal.SIGKILL
        until(lambda: gone(int((tmp_path / "pid").read_text())))


PARENT = """
import os, sys
from pathlib import Path
from tests.unit.launch.test_template import made, started
folder = Path(sys.argv[1])
with made(folder, "train.py") as (template, _), started(folder, "train.py", template=template) as process:
    process.stdout.readline()
    print(template._process.pid, process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("killed", ["hotlap", "template"])
def test_no_process_outlives_the_one_that_started_it(tmp_path: Path, killed: str) -> None:
    script(tmp_path, "import time\nprint(flush=True)\ntime.sleep(600)")
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        template, fork = map(int, parent.stdout.readline().split())
        assert not gone(template)
        assert not gone(fork)
        os.kill(parent.pid if killed == "hotlap" else template, signal.SIGKILL)
        until(lambda: gone(template) and gone(fork))
        parent.kill()


@pytest.mark.parametrize(
    "words",
    [("python", "train.py"), (sys.executable,), (sys.executable, "-c", "pass"), (sys.executable, "-O", "train.py")],
)
def test_only_a_script_or_a_module_of_this_python_is_forked(words: tuple[str, ...]) -> None:
    assert not can_fork(words)
    assert can_fork((sys.executable, "-m", "train"))
