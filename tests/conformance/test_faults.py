"""Faults planted in each part of hotlap that a hook reaches: the training is the same, and the record says what failed.

In one process: each case trains a small model for some steps under hotlap, with one method that raises.
"""

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hotlap.levers import Patch
from hotlap.predict import trace
from hotlap.probe import clock, digests, hooks, run_builder, script_calls
from hotlap.probe import session as session_module
from hotlap.probe.clock import Clock, _Reader
from hotlap.probe.collectives import Collectives
from hotlap.probe.facts import Facts
from hotlap.probe.ledger import Ledger, Thinning
from hotlap.probe.profilers import named
from hotlap.probe.profilers.profiler import Profiler
from hotlap.probe.replay import Replay
from hotlap.probe.schedule import Schedule
from hotlap.probe.script_calls import ScriptCalls
from hotlap.probe.session import Session
from hotlap.probe.shutdown import Shutdown
from hotlap.probe.steps import StepMarker
from hotlap.record import Plan, Run, Status, load
from hotlap.tune import PROFILERS

# Warm-up, the fewest that are recorded before a window opens, and the longest window that has an end.
STEPS = 2 + 8 + 14


class Planted(Exception):  # noqa: N818 - it is one
    """Raised within hotlap."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)
        self.last = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen, _ = self.attention(x, x, x)
        result: torch.Tensor = self.last(seen).mean((1, 2))
        return result


def train() -> list[float]:
    """Losses, and the parameters at the end."""
    torch.manual_seed(0)
    model, numbers = Net(), []
    optimizers = [torch.optim.Adam(model.attention.parameters()), torch.optim.SGD(model.last.parameters(), lr=0.1)]
    loader = DataLoader(TensorDataset(torch.randn(5 * STEPS, 3, 8)), batch_size=5, shuffle=True)
    with torch.autograd.set_detect_anomaly(False):
        for (x,) in loader:
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizers[0].step()
            optimizers[1].step(lambda loss=loss: loss)  # type: ignore[misc]
            torch.autograd.grad(model(x).sum(), model.last.weight)
            numbers.append(loss.item())
    return numbers + [parameter.sum().item() for parameter in model.parameters()]


expected_numbers = functools.cache(train)


def never_stepped(kind: type[torch.optim.Optimizer]) -> Any:
    """`step` of a class of which there was no optimizer yet: torch puts its range around it once a class."""
    step: Any = kind.step
    while getattr(step, "hooked", False):
        step = step.__wrapped__
    return step


def trained(
    out: Path,
    *names: str,
    training: Callable[[], list[float]] = train,
    expected: list[float] | None = None,
    **settings: Any,
) -> Run:
    """The record of a training that came to the numbers it comes to without hotlap."""
    plan = Plan(
        command=("train.py",), cwd=".", out=str(out), profilers=names, **{"whole": True, "warmup": 2, **settings}
    )
    session, patch = Session(plan), Patch()
    steps = {kind: kind.step for kind in (torch.optim.Adam, torch.optim.SGD)}
    for kind in steps:
        setattr(kind, "step", never_stepped(kind))  # noqa: B010 - a plain assignment to a method is a type error
    hooks.install(session, patch)
    session.windows.install(session, patch)
    try:
        numbers = training()
        session.shutdown.script_ends()
    finally:
        session.windows.close()
        patch.undo()
        for kind, step in steps.items():  # torch has put its range around another one meanwhile
            setattr(kind, "step", step)  # noqa: B010
    assert numbers == (expected_numbers() if expected is None else expected)
    (record,) = [*out.glob("run-0.json"), *out.glob("idle-*.json")]
    return load(record, Run)


# These fail when they have done their work, or the next case would meet what they leave behind.
_TAKES_OFF = ("close", "_off", "_stop")


def fail(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """Let a function of hotlap's raise; the list is no longer empty once it has."""
    met: list[str] = []
    function = getattr(owner, name)

    def raising(*args: Any, **kwargs: Any) -> Any:
        met.append(name)
        if name in _TAKES_OFF:
            function(*args, **kwargs)
        raise Planted(name)

    monkeypatch.setattr(owner, name, raising)
    return met


def met_methods(kind: type[Any], out: Path) -> list[str]:
    """Methods of a profiler that the training comes to, but for those that are called by another method of it only."""
    met: dict[str, None] = {}
    # What a profiler has from another one is its own; what all have does nothing.
    owners = [owner for owner in reversed(kind.__mro__) if owner not in (object, Profiler)]
    methods = {name: value for owner in owners for name, value in vars(owner).items() if inspect.isfunction(value)}
    codes = {value.__code__ for owner in owners for value in vars(owner).values() if inspect.isfunction(value)}

    def noting(name: str, function: Any) -> Any:
        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            if sys._getframe(1).f_code not in codes:
                met[name] = None
            return function(*args, **kwargs)

        return noted

    with pytest.MonkeyPatch.context() as patched:
        for name, value in methods.items():
            if not (name.startswith("__") and name.endswith("__")):
                patched.setattr(kind, name, noting(name, value))
        trained(out, NAMES[kind])
    return list(met)


ALL = {name: named(name) for name in (*PROFILERS, "workload")}
NAMES = {kind: name for name, kind in ALL.items()}


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The record need not name each source file of the process, nor tell what an interval costs; and threads of torch
    that wait for one another take most of the time where others use the machine."""
    monkeypatch.setattr(run_builder, "users_sources", lambda main: {})
    monkeypatch.setattr(run_builder, "_interval_s", lambda now: 0.0)
    monkeypatch.setattr(session_module, "_WINDOWS_AFTER_S", 0.0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_without_faults_nothing_is_noted(tmp_path: Path) -> None:
    run = trained(tmp_path, *ALL)
    assert not [note for note in run.notes if "failed" in note]
    assert run.long is not None
    assert run.long.num_steps > 0


@pytest.mark.parametrize("name", ALL)
def test_a_profiler_that_fails_anywhere_is_left_out_and_told(tmp_path: Path, name: str) -> None:
    kind = ALL[name]
    (tmp_path / "first").mkdir()
    found = met_methods(kind, tmp_path / "first")
    assert "fields" in found
    assert ("steps" in found) == bool(kind.num_steps)
    for method in found:
        with pytest.MonkeyPatch.context() as patched:
            met = fail(patched, kind, method)
            out = tmp_path / method
            out.mkdir()
            run = trained(out, name)
        assert met, method
        told = [note for note in run.notes if note.startswith(f"Hotlap failed at the profiler {kind.__name__}")]
        assert told, (method, run.notes)


PARTS: list[tuple[Any, str]] = [
    *((ScriptCalls, name) for name in script_calls._REPORTS),
    *((Session, name) for name in session_module._STEPS_NEED),
    *(
        (Facts, name)
        for name in ("made_loader", "made_optimizer_at", "saw_forward", "drawn_for_training", "optimizers")
    ),
    *((Collectives, name) for name in ("saw_module", "joined")),
    *((Replay, name) for name in ("started", "loader_id")),
    *((StepMarker, name) for name in ("stepped", "made")),
    *((Schedule, name) for name in ("advance", "is_late")),
    *((Clock, name) for name in ("read", "own")),
    *((_Reader, name) for name in ("read", "_step")),
    (clock, "_set_apart"),
    (Thinning, "add"),
    (Ledger, "warm_up"),
    (Session, "_group_made"),
    (hooks, "num_samples"),
    (script_calls, "length_of"),
]


@pytest.mark.parametrize(("owner", "name"), PARTS, ids=lambda part: getattr(part, "__name__", part))
def test_a_part_that_fails_is_switched_off_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    met = fail(monkeypatch, owner, name)
    run = trained(tmp_path, "shapes", "modules")
    told = [note for note in run.notes if note.startswith("Hotlap failed at") and f"Planted: {name}" in note]
    assert bool(told) == bool(met), run.notes
    assert len(set(told)) == len(told)


def test_a_trace_that_misses_an_operator_is_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert trained(tmp_path, "workload").workload is not None
    fail(monkeypatch, trace.Tracer, "_record")
    run = trained(tmp_path, "workload")
    assert run.workload is None
    assert [note for note in run.notes if note.startswith("Hotlap failed at the profiler WorkloadProfiler")]


def test_batches_that_cannot_be_replayed_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met = fail(monkeypatch, Replay, "next")
    run = trained(tmp_path, free_input=True)
    assert met
    assert [note for note in run.notes if note.startswith("Hotlap failed at the replay of batches")]


class Left(BaseException):
    """The process would be gone."""


@pytest.mark.parametrize("settings", [{}, {"evidence": True}], ids=["timed", "evidence"])
def test_a_trial_that_cannot_be_measured_ends_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    def leave(ending: Shutdown, *, wait_s: float = 0.0) -> None:
        raise Left

    monkeypatch.setattr(Shutdown, "leave", leave)
    # What the gate compares must be there: else a difference might go unseen.
    fail(monkeypatch, *((digests.Digest, "add") if settings else (Clock, "read")))
    with pytest.raises(Left):
        trained(tmp_path, whole=False, **settings)
    run = load(next(tmp_path.glob("*-*.json")), Run)
    assert run.status is Status.CRASHED
    assert (run.error or "").startswith("Hotlap failed at")


# What scripts have that is not like everything else


class Odd:
    """A batch that answers nothing."""

    def __init__(self, x: torch.Tensor) -> None:
        object.__setattr__(self, "x", x)

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __len__(self) -> int:
        raise ValueError("no length")

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")

    def __eq__(self, other: object) -> bool:
        raise ValueError("not to be compared")

    __hash__ = None  # type: ignore[assignment]


class OddList(list[Any]):
    def __len__(self) -> int:
        raise ValueError("no length")

    def __iter__(self) -> Any:
        raise ValueError("not to be walked through")


class OddCollate:
    def __init__(self, make: Callable[[torch.Tensor], Any]) -> None:
        self._make = make

    def __call__(self, items: list[Any]) -> Any:
        return self._make(torch.stack(items))

    def __eq__(self, other: object) -> bool:
        raise ValueError("not to be compared")

    __hash__ = None  # type: ignore[assignment]


class OddSampler(torch.utils.data.Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4 * STEPS))

    def __len__(self) -> int:
        raise ValueError("nobody knows")


class Shapeless(torch.Tensor):
    def size(self, *_: Any) -> Any:
        raise RuntimeError("no size")

    @property
    def shape(self) -> Any:  # type: ignore[override] # it is what such a class does
        raise RuntimeError("no shape")


class Loss(torch.Tensor):
    def item(self) -> Any:
        raise RuntimeError("no value")


def nested(layout: torch.layout) -> Callable[[torch.Tensor], Any]:
    def make(x: torch.Tensor) -> Any:
        return torch.nested.nested_tensor([x[0, :2], x[1, :3], x[2]], layout=layout)

    return make


MAKERS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], torch.Tensor]]] = {
    "nested": (nested(torch.strided), lambda batch: batch),
    "jagged": (nested(torch.jagged), lambda batch: batch),
    "nested in a list": (lambda x: [nested(torch.strided)(x)], lambda batch: batch[0]),
    "an object that raises": (Odd, lambda batch: vars(batch)["x"]),
    "a list that raises": (lambda x: OddList([x]), lambda batch: list.__getitem__(batch, 0)),
    "a subclass that raises": (lambda x: x.as_subclass(Shapeless), lambda batch: batch.as_subclass(torch.Tensor)),
}


def train_on(make: Callable[[torch.Tensor], Any], given: Callable[[Any], torch.Tensor]) -> list[float]:
    torch.manual_seed(0)
    model, numbers = nn.Linear(4, 1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data: Any = list(torch.randn(4 * STEPS, 5, 4))
    for batch in DataLoader(data, batch_size=4, sampler=OddSampler(), collate_fn=OddCollate(make)):
        optimizer.zero_grad()
        made = model(given(batch))
        parts = made.unbind() if made.is_nested else [made]
        loss = sum(part.square().sum() for part in parts) + torch.zeros(1)
        loss.as_subclass(Loss).backward()
        optimizer.step()
        numbers.append(loss.item())
    return numbers


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("kind", MAKERS)
def test_odd_batches_samplers_and_losses_train_as_without_hotlap(tmp_path: Path, kind: str) -> None:
    expected = train_on(*MAKERS[kind])
    passive = ("shapes", "modules", "gradients", "switches", "input")
    run = trained(tmp_path, *passive, training=lambda: train_on(*MAKERS[kind]), expected=expected)
    assert run.long is not None
    assert run.long.num_steps > STEPS / 2
    if "nested" in kind:
        assert not [note for note in run.notes if "number of samples" in note]
        assert set(run.num_samples) <= {3, None}


# Threads


def in_threads(number: int) -> None:
    """Hogwild: all train the same weights at the same time. (Gradients are their own, or torch itself may crash.)"""
    weights = [parameter.data for parameter in nn.Linear(4, 1).parameters()]
    together = threading.Barrier(number)

    def work() -> None:
        model = nn.Linear(4, 1)
        for parameter, shared in zip(model.parameters(), weights, strict=True):
            parameter.data = shared
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        together.wait()
        for (x,) in DataLoader(TensorDataset(torch.randn(300, 4)), batch_size=3):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def observed(out: Path, training: Callable[[], None]) -> Run:
    def numbers() -> list[float]:
        training()
        return []

    return trained(out, "shapes", "modules", training=numbers, expected=[])


def test_of_threads_that_train_at_a_time_one_is_measured(tmp_path: Path) -> None:
    run = observed(tmp_path, lambda: in_threads(3))
    assert not [note for note in run.notes if "failed" in note]
    assert run.long is not None
    assert 50 <= run.long.num_steps <= 300
    # The first steps of a thread that is followed next may be looked at as if the optimizers of all were one cycle.
    assert run.num_samples.count(3) >= 0.9 * run.long.num_steps


def test_another_thread_is_followed_when_the_one_that_trained_has_ended(tmp_path: Path) -> None:
    def training() -> None:
        for _ in range(3):
            in_threads(1)

    run = observed(tmp_path, training)
    assert not [note for note in run.notes if "threads" in note or "failed" in note]
    assert run.long is not None
    assert run.long.num_steps >= 290
