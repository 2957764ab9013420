"""What every lever must do: one name, data and back, clean refusals, exact undo, edits that are made once."""

import dataclasses
import inspect
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.utils.rnn
import torch.utils.deterministic
from torch.utils.data import DataLoader, TensorDataset, dataloader

from hotlap import levers
from hotlap.errors import UserError
from hotlap.levers import Lever, Numerics, Patch, Scope
from hotlap.record import Ceiling, Interval, LeverSpec, decode, encode
from hotlap.source import CannotEdit, patch
from tests.conformance.recorded import OWN, SCRIPTS, awkward_runs, machines, run_of

# torch.compile's own modules still use what torch itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")

WRITTEN = tuple(kind for kind in levers.ALL if not kind.by_environment)
"""Those that are made as edits of the source; the others are set where the script is started."""

INSTALLED = tuple(kind for kind in levers.ALL if kind.install is not Lever.install)
"""Those that can be switched in a running process as well."""

every_lever = pytest.mark.parametrize("kind", levers.ALL, ids=lambda kind: kind.name)
every_installed_lever = pytest.mark.parametrize("kind", INSTALLED, ids=lambda kind: kind.name)


@pytest.fixture(scope="module", autouse=True)
def _compiled_once() -> None:
    """What torch.compile itself leaves behind in torch when it is first used is not a lever's to restore."""
    import torch._inductor.compile_fx

    model = torch.nn.Linear(2, 1)
    torch.compile(model)(torch.ones(1, 2)).sum().backward()


def scripts_for(kind: type[Lever]) -> list[Path]:
    """Scripts that the lever has something to change in."""
    return [OWN[kind.name]] if kind.name in OWN else SCRIPTS


every_written_lever = pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.name)

every_lever_and_script = pytest.mark.parametrize(
    ("kind", "script"),
    [(kind, script) for kind in WRITTEN for script in scripts_for(kind)],
    ids=lambda value: value.stem if isinstance(value, Path) else value.name,
)


def one_of(kind: type[Lever]) -> Lever:
    """The lever with the settings it would first be tried with, on a machine where that changes something."""
    run = run_of(scripts_for(kind)[0], num_threads=torch.get_num_threads())
    return kind.candidates(run, machines()["linux"])[0]


# What it is


@every_lever
def test_has_one_name_in_two_spellings(kind: type[Lever]) -> None:
    words = re.findall(r"[A-Z][a-z0-9]*", kind.__name__)
    assert kind.name == "-".join(words).lower()


@every_lever
def test_is_a_final_frozen_value(kind: type[Lever]) -> None:
    assert dataclasses.is_dataclass(kind)
    assert not kind.__subclasses__()
    assert isinstance(kind.scope, Scope)
    assert isinstance(kind.numerics, Numerics)
    lever = one_of(kind)
    assert lever == dataclasses.replace(lever)
    assert hash(lever) == hash(dataclasses.replace(lever))
    for field in dataclasses.fields(kind):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(lever, field.name, 0)


@every_lever
def test_says_what_why_and_when_it_hurts(kind: type[Lever]) -> None:
    text = inspect.getdoc(kind) or ""
    assert re.search(r"^What: .+^Why: .+^When it hurts: .+", text, re.MULTILINE | re.DOTALL)
    assert text.isascii()


def test_names_are_unique() -> None:
    assert len({kind.name for kind in levers.ALL}) == len(levers.ALL)


# Those with something to win there; the others must not say that there is (0: not tried).
ON_A_GPU = {
    "tf32",
    "cudnn-benchmark",
    "pin-and-overlap",
    "device-resident",
}


def test_the_set_is_wide_enough_to_prove_the_protocol() -> None:
    assert {kind.scope for kind in levers.ALL} == set(Scope)
    assert {Numerics.EXACT, Numerics.ROUNDING, Numerics.STATISTICAL} <= {kind.numerics for kind in levers.ALL}


# As data


@every_lever
def test_comes_back_from_json_as_it_was(kind: type[Lever]) -> None:
    for run in awkward_runs().values():
        for lever in kind.candidates(run, machines()["linux"]):
            assert levers.from_spec(json.loads(json.dumps(lever.spec()))) == lever
            specs = decode(encode({"levers": (lever.spec(),)}), dict[str, tuple[LeverSpec, ...] | int])["levers"]
            assert isinstance(specs, tuple)
            assert levers.from_spec(specs[0]) == lever


@every_lever
def test_a_setting_that_it_does_not_have_is_refused(kind: type[Lever]) -> None:
    with pytest.raises(UserError, match=rf"The lever {kind.name} has no setting 'colour'\. Known: .*\."):
        levers.from_spec({"name": kind.name, "colour": 1})


@pytest.mark.parametrize("kind", [kind for kind in levers.ALL if dataclasses.fields(kind)], ids=lambda kind: kind.name)
def test_a_setting_of_the_wrong_type_is_refused(kind: type[Lever]) -> None:
    # A study on disk is untrusted, and settings are written into the patch.
    for field in dataclasses.fields(kind):
        with pytest.raises(UserError, match=field.name):
            levers.from_spec({"name": kind.name, field.name: "1)\nimport os; os.abort("})


@pytest.mark.parametrize("spec", [{"name": "warp-drive"}, {"name": None}, {}, {"count": 1}])
def test_an_unknown_lever_is_refused_with_the_known_ones(spec: LeverSpec) -> None:
    with pytest.raises(UserError, match=r"^There is no lever .+\. Known: batched-fetch, .+\.$"):
        levers.from_spec(spec)


@every_lever
def test_its_title_holds_its_name_and_settings_but_for_what_is_off(kind: type[Lever]) -> None:
    lever = one_of(kind)
    assert lever.title().split()[0] == kind.name
    for field in dataclasses.fields(kind):
        value = getattr(lever, field.name)
        assert (f"{field.name}=" in lever.title()) == (value is not False)
        if isinstance(value, bool):
            other = dataclasses.replace(lever, **{field.name: not value})
            assert other.title() != lever.title()


# When it applies


def is_sentence(text: str) -> bool:
    """A line of several words that ends with a period and holds nothing that was never filled in."""
    unfilled = re.search(r"\bNone\b|\bnan\b|[{}]|  ", text)
    return len(text.split()) >= 4 and text.endswith(".") and "\n" not in text and unfilled is None


@pytest.mark.parametrize("text", ["no", "No gain", "It has None items to look at.", "It is\ntwo lines.", "a  b c d."])
def test_what_is_no_sentence_is_told(text: str) -> None:
    assert not is_sentence(text)


@every_lever
def test_says_in_a_sentence_why_it_is_refused_somewhere_and_is_taken_somewhere(kind: type[Lever]) -> None:
    answers = {
        (run, machine, lever): lever.rejects(awkward_runs()[run], machines()[machine])
        for run in awkward_runs()
        for machine in machines()
        for lever in kind.candidates(awkward_runs()[run], machines()[machine])
    }
    assert None in answers.values()
    assert any(answers.values())
    assert [place for place, reason in answers.items() if reason is not None and not is_sentence(reason)] == []


@every_lever
def test_its_bound_is_a_finite_part_of_the_step(kind: type[Lever]) -> None:
    free = Ceiling(name="input", idealised="free", step_s=0.003, speedup=Interval(low=1.6, mid=1.7, high=1.8))
    bounds = {
        (name, lever, len(ceilings)): (lever.saves_at_most_s(run, ceilings), max(run.step_s, default=0.0))
        for name, run in awkward_runs().items()
        for lever in kind.candidates(run, machines()["linux"])
        for ceilings in ((), (free,))
    }
    assert len(bounds) > len(awkward_runs())
    wrong = {place: bound_s for place, (bound_s, step_s) in bounds.items() if not 0 <= bound_s <= step_s < math.inf}
    assert wrong == {}


@every_lever
def test_has_something_to_win_where_it_is_taken(kind: type[Lever]) -> None:
    timed = [run for run in awkward_runs().values() if all(run.phase_s.values()) and run.step_s]
    taken = [
        (lever, run)
        for run in timed
        for machine in machines().values()
        for lever in kind.candidates(run, machine)
        if lever.rejects(run, machine) is None and (run.device == "cpu" or kind.name in ON_A_GPU)
    ]
    assert taken
    assert all(lever.saves_at_most_s(run, ()) > 0 for lever, run in taken)


@every_lever
def test_candidates_differ_from_each_other(kind: type[Lever]) -> None:
    for run in awkward_runs().values():
        for machine in machines().values():
            tried = kind.candidates(run, machine)
            assert len(set(tried)) == len(tried)


# The environment


@every_lever
def test_the_environment_gets_nothing_unasked(kind: type[Lever]) -> None:
    lever = one_of(kind)
    given = {"PATH": "/bin", "GLIBC_TUNABLES": "glibc.malloc.check=1", "OMP_NUM_THREADS": "3"}
    before = dict(given)
    added = lever.environment(given)
    assert given == before, "it is told the environment, and does not change it"
    assert kind.scope is Scope.PROCESS or not added
    for name, value in added.items():
        assert given.get(name, "") in value, f"{name} was set by the user, and stays"
    assert not lever.environment({**given, **added}), "asked again, it wants nothing more"


# Installed, and undone


class Noticing(Patch):
    """Remembers how each object looked before the lever first touched it."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[tuple[Any, dict[str, Any]]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        if not any(known is owner for known, _ in self.before):
            self.before.append((owner, dict(vars(owner))))
        super().set(owner, name, value)


OWNERS: tuple[Any, ...] = (
    torch,
    torch.Tensor,
    torch.amp.GradScaler,
    torch.autograd,
    torch.nn.Module,
    torch.nn.Linear,
    torch._VF,
    torch.nn.LSTM,
    torch.nn.GRU,
    torch.nn.utils.rnn,
    torch.optim.Optimizer,
    torch.optim.Adam,
    torch.optim.SGD,
    DataLoader,
    dataloader,
    dataloader._BaseDataLoaderIter,
    dataloader._SingleProcessDataLoaderIter,
    TensorDataset,
)

# How the interpreter itself counts and caches; not ours to restore.
UNSTABLE = {"__annotations__", "__abstractmethods__", "__slotnames__", "_abc_impl", "__static_attributes__"}


def state(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
    """All that a lever might change in this process, by identity where there is one."""
    solves: Any = import_module("torchdiffeq")
    found: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "default dtype": torch.get_default_dtype(),
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "fill": getattr(torch.utils.deterministic, "fill_uninitialized_memory"),  # noqa: B009 - unknown to types
        "anomaly": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "benchmark": torch.backends.cudnn.benchmark,
        "denormal": (torch.tensor([1e-310], dtype=torch.float64) * 1.0).item(),
        "rng": torch.get_rng_state().tolist(),
        "environment": dict(os.environ),
        "solves": (id(solves.odeint.__code__), id(solves.odeint_adjoint.__code__)),
    }
    for owner in OWNERS:
        for name, value in vars(owner).items():
            if name not in UNSTABLE:
                found[f"{owner.__name__}.{name}"] = id(value)
    for number, optimizer in enumerate(optimizers):
        for place, settings in (("defaults", optimizer.defaults), *enumerate(optimizer.param_groups)):
            found[f"optimizer {number} {place}"] = {key: repr(value) for key, value in settings.items()}
        found[f"optimizer {number}"] = sorted(vars(optimizer))
    return found


@pytest.fixture
def optimizers() -> Iterator[list[torch.optim.Optimizer]]:
    """A model's optimizers that have made a step: their state is there."""
    threads = torch.get_num_threads()
    model = torch.nn.Linear(4, 2)
    made: list[torch.optim.Optimizer] = [
        torch.optim.Adam(model.parameters()),
        torch.optim.SGD([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "fused": False}]),
        torch.optim.LBFGS(model.parameters()),
    ]
    train(model, made[:2])
    yield made
    torch.set_num_threads(threads)


def train(model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """One epoch of two steps with a loader made now."""
    data = TensorDataset(torch.ones(8, 4), torch.ones(8, 2))
    for x, y in DataLoader(data, batch_size=4):
        loss = (model(x) - y).square().sum()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def install(lever: Lever, optimizers: Sequence[torch.optim.Optimizer]) -> Noticing:
    patch = Noticing()
    lever.install(patch)
    for optimizer in optimizers:
        patch.optimizer_made(optimizer)
    return patch


@every_lever
def test_what_is_compared_between_processes_is_its_edit_and_nothing_else(kind: type[Lever]) -> None:
    assert (kind in INSTALLED) == (kind.scope is Scope.STEP)


@every_installed_lever
def test_undo_restores_all_that_install_touched(kind: type[Lever], optimizers: list[torch.optim.Optimizer]) -> None:
    before = state(optimizers)
    installed = install(one_of(kind), optimizers)
    assert state(optimizers) != before, "installed, it changes something"
    installed.undo()
    assert state(optimizers) == before
    for owner, attributes in installed.before:
        assert dict(vars(owner)) == attributes


@every_installed_lever
def test_undo_after_training_leaves_only_what_training_changed(
    kind: type[Lever], optimizers: list[torch.optim.Optimizer]
) -> None:
    before = {key: value for key, value in state(optimizers).items() if key != "rng"}
    installed = install(one_of(kind), optimizers)
    train(torch.nn.Linear(4, 2), optimizers[:2])
    installed.undo()
    after = {key: value for key, value in state(optimizers).items() if key != "rng"}
    assert {key: value for key, value in after.items() if key not in before or before[key] != value} == {}


@every_installed_lever
def test_can_be_switched_on_and_off_again(kind: type[Lever], optimizers: list[torch.optim.Optimizer]) -> None:
    before = state(optimizers)
    for _ in range(3):
        installed = install(one_of(kind), optimizers)
        installed.undo()
        installed.undo()
    assert state(optimizers) == before


def test_all_levers_together_are_undone_in_reverse(optimizers: list[torch.optim.Optimizer]) -> None:
    before = state(optimizers)
    patches = [install(one_of(kind), optimizers) for kind in INSTALLED]
    for installed in reversed(patches):
        installed.undo()
    assert state(optimizers) == before


@every_installed_lever
def test_training_goes_on_under_it(kind: type[Lever], optimizers: list[torch.optim.Optimizer]) -> None:
    torch.manual_seed(0)
    installed = install(one_of(kind), optimizers)
    model = torch.nn.Linear(4, 2)
    weight = model.weight.detach().clone()
    optimizer = torch.optim.Adam(model.parameters())
    installed.optimizer_made(optimizer)
    try:
        train(model, [optimizer])
    finally:
        installed.undo()
    assert torch.isfinite(model.weight).all()
    # In bfloat16 a gradient may come out as exactly 0; under all other levers every element moves.
    least = 0.5 if kind.numerics is levers.Numerics.STATISTICAL else 1.0
    assert float((model.weight != weight).double().mean()) >= least


# As source


@every_lever_and_script
def test_its_edits_change_the_script_once_and_nothing_else(kind: type[Lever], script: Path, tmp_path: Path) -> None:
    lever = one_of(kind)
    edits = lever.edits(run_of(script))
    assert edits
    first = patch(edits, root=script.parent)
    new = first.texts[str(script)]
    assert new != script.read_text()
    assert first.diff.startswith(f"--- a/{script.name}\n+++ b/{script.name}\n@@ ")
    lines = first.diff.splitlines()[2:]
    removed = [line[1:] for line in lines if line.startswith("-")]
    added = "\n".join(line[1:] for line in lines if line.startswith("+"))
    assert len(removed) <= 3, "all other lines stay as they are"
    assert all(comment in added for comment in re.findall(r"#.*", "\n".join(removed)))
    again = tmp_path / script.name
    again.write_text(new)
    assert patch(lever.edits(run_of(again)), root=tmp_path).texts == {}, "where they are made already nothing changes"


def test_all_levers_together_are_made_once(tmp_path: Path) -> None:
    for script in SCRIPTS:
        specs = [one_of(kind).spec() for kind in levers.ALL]
        new = patch(levers.edits_of(specs, run_of(script)), root=script.parent).texts[str(script)]
        again = tmp_path / script.name
        again.write_text(new)
        assert patch(levers.edits_of(specs, run_of(again)), root=tmp_path).texts == {}


@every_lever
def test_it_is_written_or_set_where_the_script_is_started(kind: type[Lever]) -> None:
    if kind.by_environment:
        assert one_of(kind).environment({})
        assert not any(one_of(kind).edits(run) for run in awkward_runs().values())


@every_lever
def test_without_a_known_source_there_are_no_edits(kind: type[Lever]) -> None:
    assert not one_of(kind).edits(awkward_runs()["no source"])


@every_written_lever
def test_a_file_that_changed_since_is_refused(kind: type[Lever], tmp_path: Path) -> None:
    script = tmp_path / "changing.py"
    script.write_text(scripts_for(kind)[0].read_text())
    run = run_of(script)
    script.write_text(script.read_text() + "\n# changed\n")
    with pytest.raises((UserError, CannotEdit), match=r"changing\.py"):
        patch(one_of(kind).edits(run), root=tmp_path)
