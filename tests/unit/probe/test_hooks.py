"""The hooks themselves, in a process that trains a little: what they write, and that it stays short."""

import gc
import inspect
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hotlap
from hotlap.levers import Patch
from hotlap.levers.data_wrappers import CachedDataset
from hotlap.probe import clock as phases
from hotlap.probe import hooks, run_builder
from hotlap.probe import session as session_module
from hotlap.probe.session import Session
from hotlap.record import Plan


@contextmanager
def heard(out: Path, **wanted: Any) -> Iterator[Session]:
    """What trains within is heard."""
    session = Session(
        Plan(**{"command": ("train.py",), "cwd": ".", "out": str(out), "steps": 10**8, "warmup": 0, **wanted})
    )
    patch = Patch()
    hooks.install(session, patch)
    try:
        yield session
    finally:
        patch.undo()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Heard from now on."""
    with heard(tmp_path) as session:
        yield session


def loader(num_batches: int) -> "DataLoader[tuple[torch.Tensor, ...]]":
    return DataLoader(TensorDataset(torch.ones(3 * num_batches, 2)), batch_size=3)


def steps(model: torch.nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    for (x,) in loader(number):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()


def test_each_step_is_counted_with_all_that_it_brought(session: Session) -> None:
    model = torch.nn.Linear(2, 1)
    steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 7)
    assert session.steps == session.updates_made == 7
    assert session._progress.steps == 7
    session.account(now=session.clock.now())
    rows = session.ledger._rows
    assert [row.num_samples for row in rows] == [3] * 7
    assert all(len(row.losses) == 1 and row.num_updates == 1 for row in rows)


@pytest.mark.parametrize(("evidence", "number"), [(False, 0), (True, 1)])
def test_of_steps_that_are_only_compared_no_loss_is_read(tmp_path: Path, evidence: bool, number: int) -> None:
    model = torch.nn.Linear(2, 1)
    with heard(tmp_path, arms=((), ()), block=1, evidence=evidence) as session:
        steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 7)
    session.account(now=session.clock.now())
    assert session.steps == 7
    assert {len(row.losses) for row in session.ledger._rows} == {number}


class Doubled(TensorDataset):
    """Its transform is a module, as those of torchvision are."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        super().__init__(*tensors)
        self.transform = nn.Upsample(scale_factor=2)

    def __getitem__(self, index: Any) -> tuple[torch.Tensor, ...]:
        return (self.transform(self.tensors[0][None, None, index])[0, 0],)


def test_a_transform_of_the_data_set_is_input_and_no_forward_pass(session: Session) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session.script.attentive = True
    for (x,) in DataLoader(Doubled(torch.ones(6, 2)), batch_size=3):
        model(x).sum().backward()
        optimizer.step()
    session.account(now=session.clock.now())
    assert [row.num_forwards for row in session.ledger._rows] == [1, 1]
    called = [site for site in session.facts.all_call_sites() if site.calls == "forward"]
    assert [site.detail["parameters"] for site in called] == [True]


@pytest.mark.parametrize("collects", [True, False])
def test_reading_many_steps_starts_no_garbage_collection(session: Session, collects: bool) -> None:
    model = torch.nn.Linear(2, 1)
    steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 500)
    begun: list[str] = []

    def heard(phase: str, _: object) -> None:
        begun.append(phase)

    (gc.enable if collects else gc.disable)()
    gc.callbacks.append(heard)
    try:
        gc.collect()
        begun.clear()
        session.account(now=session.clock.now())
        assert not begun
        assert gc.isenabled() is collects
    finally:
        gc.callbacks.remove(heard)
        gc.enable()
    assert len(session.ledger._rows) == 500


def test_an_optimizer_takes_the_place_of_one_that_was_dropped(session: Session) -> None:
    model = torch.nn.Linear(2, 1)
    for _ in range(3):  # each may get the address of the one before
        steps(model, torch.optim.Adam(model.parameters()), 4)
    assert session.steps == 12


def test_two_optimizers_make_a_step_together(session: Session) -> None:
    model = torch.nn.Linear(2, 1)
    one, other = (torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters())
    for (x,) in loader(10):
        model(x).sum().backward()
        one.step()
        other.step()
    assert session.steps in (9, 10), "the cycle is learned from the first round"


def test_a_step_that_failed_is_forgotten(session: Session) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fail() -> float:
        raise MemoryError

    steps(model, optimizer, 2)
    with pytest.raises(MemoryError):
        optimizer.step(fail)
    steps(model, optimizer, 3)
    assert session.steps == 5
    assert session.clock.where == phases.OTHER


def test_training_begun_anew_after_a_step_that_failed_is_counted(session: Session) -> None:
    """As by those who look for the largest batch that fits."""
    model = torch.nn.Linear(2, 1)
    failed = torch.optim.SGD(model.parameters(), lr=0.1)

    def fail() -> float:
        raise MemoryError

    steps(model, failed, 1)
    with pytest.raises(MemoryError):
        failed.step(fail)
    steps(model, torch.optim.Adam(model.parameters()), 3)
    assert session.steps == 4
    assert session.clock.where == phases.OTHER


class Wrapped(torch.optim.SGD):
    """Lets another optimizer make its step."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, lr=0.1)
        self.inner = inner

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


def test_of_an_optimizer_within_another_one_the_outer_counts(session: Session) -> None:
    model = torch.nn.Linear(2, 1)
    steps(model, Wrapped(torch.optim.Adam(model.parameters())), 14)
    assert session.updates_made == 14


def test_a_step_that_torch_has_wrapped_twice_counts_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does where several threads make the first optimizers of a class at the same time."""
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    twice: Any = torch.optim.Optimizer.profile_hook_step(torch.optim.SGD.step)
    monkeypatch.setattr(torch.optim.SGD, "step", twice)
    steps(model, optimizer, 3)
    assert session.steps == 3
    assert session.clock.where == phases.OTHER


@pytest.mark.parametrize(("profilers", "surrounded"), [((), False), (("shapes",), False), (("lines",), True)])
def test_a_step_is_surrounded_for_windows_alone(tmp_path: Path, profilers: tuple[str, ...], surrounded: bool) -> None:
    class Own(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    with heard(tmp_path, profilers=profilers):
        Own(torch.nn.Linear(2, 1).parameters(), lr=0.1)
        step: Any = Own.step
        ours = Path(step.__code__.co_filename).is_relative_to(Path(hotlap.__file__).parent)
        assert ours is surrounded


def test_layers_are_called_as_the_script_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled by themselves, or by way of somebody's own `__call__`."""
    call, inner, called = nn.Module.__call__, nn.Identity(), []
    model = nn.Sequential(inner, nn.Tanh())
    with heard(tmp_path):
        inner._compiled_call_impl = lambda x: x + 1  # as `Module.compile` leaves it
        assert model(torch.zeros(1)).item() == pytest.approx(0.761594)
        inner._compiled_call_impl = None
        assert model(torch.zeros(1)).item() == 0

    def counting(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        called.append(module)
        return call(module, *args, **kwargs)

    monkeypatch.setattr(nn.Module, "__call__", counting)
    with heard(tmp_path):
        model(torch.zeros(1))
    assert called == [model, *model]


def test_what_measuring_costs_is_told_of_recorded_steps_alone(tmp_path: Path) -> None:
    with heard(tmp_path, profilers=("memory",), warmup=3) as session:
        model = Block()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        steps(model, optimizer, 3)
        assert (session.own_s, session.num_recorded, run_builder._cost_s(session)) == (0.0, 0, None)
        steps(model, optimizer, 3)
        cost_s, own_s = run_builder._cost_s(session), session.own_s
        assert (session.num_recorded, cost_s is not None and cost_s > own_s / 3 > 0) == (3, True)
        session.windows.next = lambda: True  # type: ignore[method-assign] # a window opens
        session.turn_page()
        assert session.own_s == own_s


def test_what_was_there_before_is_there_again(tmp_path: Path) -> None:
    owners: list[tuple[Any, str]] = [
        (nn.Module, "__call__"),
        (torch.autograd, "backward"),
        (torch.autograd, "grad"),
        (torch.optim.Optimizer, "zero_grad"),
        (torch.utils.data.dataloader._BaseDataLoaderIter, "__next__"),
    ]
    before = [vars(owner)[name] for owner, name in owners]
    with heard(tmp_path, profilers=("memory",)):
        assert all(vars(owner)[name] is not was for (owner, name), was in zip(owners, before, strict=True))
    assert [vars(owner)[name] for owner, name in owners] == before


def test_a_trial_leaves_alone_what_ends_no_step(tmp_path: Path) -> None:
    zero_grad = torch.optim.Optimizer.zero_grad
    with heard(tmp_path):
        assert torch.optim.Optimizer.zero_grad is zero_grad


def test_loaders_of_our_own_do_not_pass_by_the_hooks(session: Session) -> None:
    patch = Patch()
    CachedDataset().install(patch)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = loader(30)
    try:
        for _ in range(3):
            for (x,) in batches:
                model(x).sum().backward()
                optimizer.step()
    finally:
        patch.undo()
    session.account(now=session.clock.now())
    assert [row.num_samples for row in session.ledger._rows] == [3] * 90


# Whatever a training does, its steps are counted and the clock is at rest between them


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.1), nn.Linear(4, 2))

    def forward(self, x: torch.Tensor, *, twice: bool = False) -> torch.Tensor:
        once: torch.Tensor = self.layers(x)
        again: torch.Tensor = self.layers(once) if twice else once
        return again


def plain() -> None:
    model = Block()
    steps(model, torch.optim.Adam(model.parameters()), 6)


def with_keywords() -> None:
    model = Block()
    optimizer = torch.optim.AdamW(model.parameters())
    for (x,) in loader(5):
        model(x=x, twice=True).sum().backward(retain_graph=False)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def validating() -> None:
    model = Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        steps(model, optimizer, 3)
        model.eval()
        with torch.no_grad():
            for (x,) in loader(2):
                model(x)
        model.train()
        with torch.no_grad():
            model(x)


def by_closure() -> None:
    model = Block()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(torch.ones(3, 2)).square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(3):
        optimizer.step(closure)  # type: ignore[no-untyped-call]
        optimizer.step(closure=closure)  # type: ignore[no-untyped-call]


def by_hand() -> None:
    model = Block()
    for _ in range(4):
        slopes = torch.autograd.grad(model(torch.ones(3, 2)).sum(), list(model.parameters()))
        for p, slope in zip(model.parameters(), slopes, strict=True):
            p.data -= 0.1 * slope
    for _ in range(4):
        torch.autograd.backward([model(torch.ones(3, 2)).sum(), model(torch.ones(3, 2)).sum()])


def of_two() -> None:
    one, other = Block(), Block()
    optimizers = [torch.optim.Adam(net.parameters()) for net in (one, other)]
    for (x,) in loader(6):
        for net, optimizer in zip((one, other), optimizers, strict=True):
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()


def failing() -> None:
    model = Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps(model, optimizer, 2)
    for wrong in (torch.ones(3, 5), torch.ones(3, 2)):
        try:
            model(wrong).backward()
        except RuntimeError:
            optimizer.zero_grad()
    with pytest.raises(TypeError):
        model()
    with pytest.raises(StopIteration):
        next(iter(DataLoader(TensorDataset(torch.ones(0, 2)))))
    steps(model, optimizer, 2)


def of_odd_batches() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches: list[Any] = [{"x": torch.ones(4, 2)}, torch.ones(5, 2), [1.0, 2.0], (torch.tensor(1.0),), 3, [], "ab"]
    for batch in DataLoader(batches, batch_size=None):  # type: ignore[arg-type] # a list is a data set
        x = batch["x"] if isinstance(batch, dict) else torch.ones(1, 2)
        model(x).sum().backward()
        optimizer.step()


def beside_another_thread() -> None:
    model, other = Block(), Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps(model, optimizer, 2)

    def look() -> None:
        list(loader(3))
        other(torch.ones(3, 2))
        torch.optim.SGD(other.parameters(), lr=0.1).step()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    steps(model, optimizer, 2)


def test_which_thread_calls_is_asked_only_once_there_is_another(tmp_path: Path) -> None:
    model = Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with heard(tmp_path) as session:
        steps(model, optimizer, 1)
        alone = threading.active_count() == 1
        before = session.clock.shared
        threading.Thread(target=int).start()
        assert (before, session.clock.shared) == (not alone, True)


TRAININGS = [
    plain,
    with_keywords,
    validating,
    by_closure,
    by_hand,
    of_two,
    failing,
    of_odd_batches,
    beside_another_thread,
]


def written(out: Path, train: Callable[[], None]) -> tuple[list[tuple[Any, Any]], int, int]:
    """What was written, without the times; steps and updates."""
    out.mkdir()
    torch.manual_seed(0)
    with heard(out) as session:
        session.script.attentive = False  # what is looked at closely is left to the hooks in Python
        session.account = lambda *, now: None  # type: ignore[method-assign] # nobody else reads them
        train()
        assert session.clock.where == phases.OTHER
        triples = list(zip(*[iter(session.clock.events)] * 3, strict=True))
        told = [(what, begin if what > phases.STEP_END else None) for what, begin, _ in triples if what != phases.OWN]
        return told, session.steps, session.updates_made


@pytest.mark.parametrize("train", TRAININGS, ids=lambda train: train.__name__)
def test_whatever_a_training_does_its_steps_are_counted(
    train: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "LOADERS_SEEN_BY", 0)
    told, num_steps, num_updates = written(tmp_path / "out", train)
    kinds = [what for what, _ in told]
    assert num_steps == kinds.count(phases.STEP_END) >= 3
    assert num_updates == kinds.count(phases.STEP)


def test_steps_are_counted_on_when_something_is_compiled(tmp_path: Path) -> None:
    with heard(tmp_path) as session:
        model = Block()
        optimizer = torch.optim.Adam(model.parameters())
        steps(model, optimizer, 3)
        model.compile(backend="eager")
        steps(model, optimizer, 3)
        assert (session.steps, session.updates_made) == (6, 6)


def test_a_hook_looks_like_what_it_wraps(tmp_path: Path) -> None:
    names = ("__name__", "__qualname__", "__module__", "__doc__")
    function = torch.autograd.backward
    wanted = [getattr(function, name) for name in names], inspect.signature(function)
    with heard(tmp_path):
        hook = torch.autograd.backward
        assert hook is not function
        assert ([getattr(hook, name) for name in names], inspect.signature(hook)) == wanted
        assert pickle.loads(pickle.dumps(hook)) is hook


class OwnScaler(torch.amp.GradScaler):
    """Scales by itself, as that of FSDP does."""

    def scale(self, outputs: Any) -> Any:
        return outputs * 1024


class Asking(OwnScaler):
    """Asks its base class."""

    def scale(self, outputs: Any) -> Any:
        return super().scale(outputs).type(torch.float64)


@pytest.mark.parametrize("kind", [torch.amp.GradScaler, OwnScaler, Asking])
def test_losses_are_told_as_they_were_before_any_scaler(session: Session, kind: type[torch.amp.GradScaler]) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    losses = []
    for _ in range(2):
        scaler = kind("cpu")
        optimizer.zero_grad()
        loss = model(torch.ones(3, 2)).sum()
        losses.append([loss.item()])
        scaler.scale(loss).backward()
        optimizer.step()
    session.account(now=session.clock.now())
    assert [row.losses for row in session.ledger._rows] == losses
