"""Real scripts under the probe: what a step is, where its time goes, and that the script notices nothing."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from hotlap.experiment.failure import failed
from hotlap.launch import Launcher
from hotlap.record import Phase, Plan, Run, Status, Turn
from tests.e2e.running import OURS, SCRIPTS, Forks, assert_phases_sum_to_steps, median_ms

pytestmark = pytest.mark.e2e


def plan_for(script: str, *args: str, **settings: object) -> Plan:
    command = (sys.executable, str(SCRIPTS / script), *args)
    return Plan(command=command, cwd=str(SCRIPTS), out="", **{"steps": 60, "warmup": 10, **settings})  # type: ignore[arg-type]


def run(launcher: Launcher, script: str, *args: str, limit_s: float = 400.0, **settings: object) -> Run:
    (found,) = launcher([plan_for(script, *args, **settings)], limit_s=limit_s)
    return found


def watched(run: Callable[..., Run], script: str, *args: str, warmup: int = 10) -> Run:
    """With a close look behind the steps that are recorded, in which nothing fails and nothing is found."""
    found = run(script, *args, profilers=("operators", "syncs", "lines"), warmup=warmup)
    assert not [note for note in found.notes if "failed" in note]
    assert found.sightings == ()
    return found


def test_a_plain_loop_is_split_into_its_phases_and_its_calls_are_named(launcher: Launcher) -> None:
    found = run(launcher, "plain.py")
    assert found.status is Status.COMPLETE
    assert len(found.step_s) == 60
    assert found.trains_again is None
    assert found.step_index[0] == 10
    assert_phases_sum_to_steps(found)
    for phase in (Phase.INPUT, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
        assert (found.share(phase) or 0.0) > 0
    assert found.phase_s[Phase.COMMUNICATION] is None
    assert all(isinstance(loss, float) for loss in found.loss)
    assert set(found.num_samples) == {16}
    assert set(found.num_updates) == {1}
    assert found.setup_s is not None and 0 < found.own_start_s < found.setup_s
    assert found.loaders[0].trained_on
    assert next(iter(found.sources)) == str(SCRIPTS / "plain.py")
    lines = (SCRIPTS / "plain.py").read_text().splitlines()
    texts = {site.calls: lines[site.line - 1][site.col : site.end_col] for site in found.call_sites}
    assert texts["torch.utils.data.DataLoader"] == "DataLoader(data, batch_size=16, shuffle=True)"
    assert texts["torch.optim.SGD"] == "torch.optim.SGD(model.parameters(), lr=0.05)"


def test_a_training_of_two_parts_is_known_in_its_first_one(forks: Forks) -> None:
    found = forks("two_parts.py")
    assert found.planned_steps == 640
    lines = (SCRIPTS / "two_parts.py").read_text().splitlines()
    again = next(i for i, line in enumerate(lines, 2) if "# again" in line)  # a fork's text has one line more
    assert found.trains_again == f"forked.py:{again}"


def test_two_optimizers_make_one_step(forks: Forks) -> None:
    found = watched(forks, "gan.py")
    assert set(found.num_updates) == {2}
    assert len(found.optimizers) == 2


def test_what_comes_again_is_told_of_each_input_and_of_a_validation(forks: Forks) -> None:
    found = forks("noised.py", evidence=True, warmup=0, steps=40)
    num_steps = len(found.step_index)
    assert found.fresh_samples == (1.0,) * num_steps
    assert found.fresh_inputs == ((1.0, 1.0),) * 10 + ((0.0, 1.0),) * (num_steps - 10)
    assert [looked for looked in found.fresh_looks or () if looked is not None] == [1.0, 0.0, 0.0]


def test_other_seeds_and_perturbations_give_other_losses(forks: Forks) -> None:
    plain, reseeded, perturbed = (
        forks("plain.py", evidence=True, warmup=0, reseed=reseed, perturbation=perturbation)
        for reseed, perturbation in ((0, 0), (1, 0), (0, 1))
    )
    assert plain.learning_rates is not None
    assert plain.updates
    assert plain.batch_digest != reseeded.batch_digest
    assert plain.batch_digest == perturbed.batch_digest
    in_second_epoch = len(plain.step_index) - 40
    assert plain.fresh_samples == reseeded.fresh_samples == (1.0,) * 40 + (0.0,) * in_second_epoch
    assert set(plain.fresh_batches or ()) == {1.0}
    assert set(plain.num_added or ()) == {1}
    assert set(plain.num_backwards or ()) == {1}
    assert plain.loss != perturbed.loss
    pairs = zip(plain.loss, perturbed.loss, strict=True)
    assert all(abs(float(a or 0) - float(b or 0)) < 1e-3 for a, b in pairs)


def test_accumulation_makes_one_step_of_four_backward_passes(forks: Forks) -> None:
    found = watched(forks, "accumulation.py", warmup=4)
    assert set(found.num_updates) == {1}
    assert len(found.step_s) == 60


def test_a_step_that_the_scaler_skips_is_no_step(forks: Forks) -> None:
    found = forks("scaler.py")
    assert set(found.num_updates) == {1}
    assert found.skipped_updates > 0
    losses = [loss for loss in found.loss if isinstance(loss, float)]
    assert losses and max(losses) < 100, "as they were before they were multiplied with a thousand"


def test_a_closure_belongs_to_its_step(forks: Forks) -> None:
    assert set(forks("lbfgs.py", evidence=True, warmup=0).num_added or ()) == {1}, "it clears gradients"
    found = watched(forks, "lbfgs.py")
    assert len(found.step_s) == 60
    assert found.optimizers[0].closure
    assert (found.share(Phase.BACKWARD) or 0) > 0
    assert_phases_sum_to_steps(found)


SLEEPS = """
import sys
import time
import torch
from torch import nn



class KnowsTheModel(torch.optim.SGD):
    def step(self, closure=None, model=None):
        assert model is None or list(model.parameters())
        return super().step(closure)


model, x = nn.Linear(4, 1), torch.ones(2, 4)
optimizer = KnowsTheModel(model.parameters(), lr=0.01)


def closure():
    time.sleep(0.02)
    loss = model(x).square().mean()
    loss.backward()
    return loss


for _ in range(30):
    if sys.argv[1] == "with":
        optimizer.step(closure, model=model)
    else:
        closure()
        optimizer.step(None)
"""


@pytest.mark.parametrize("closure", ["with", "without"])
def test_what_a_closure_does_besides_is_not_the_optimizers_time(forks: Forks, tmp_path: Path, closure: str) -> None:
    script = tmp_path / "sleeps.py"
    script.write_text(SLEEPS)
    found = forks(script, closure, steps=15, warmup=2)
    assert_phases_sum_to_steps(found)
    assert median_ms(found, Phase.OTHER) >= 20
    assert median_ms(found, Phase.OPTIMIZER) < median_ms(found, Phase.OTHER)
    assert found.optimizers[0].closure == (closure == "with"), "accelerate calls `step(None)`"


def test_without_an_optimizer_backward_passes_mark_the_steps(forks: Forks) -> None:
    found = watched(forks, "by_hand.py")
    assert len(found.step_s) == 60
    assert_phases_sum_to_steps(found)
    assert found.phase_s[Phase.OPTIMIZER] is None
    assert found.phase_s[Phase.FORWARD] is None


def test_the_script_sees_what_it_would_see_without_us(launcher: Launcher) -> None:
    assert run(launcher, "configured.py", "learning_rate = 0.3").status is Status.COMPLETE


def test_a_shell_command_is_followed_to_its_python(launcher: Launcher) -> None:
    command = ("bash", "-c", f"cd {SCRIPTS} && {sys.executable} by_hand.py")
    (found,) = launcher([Plan(command=command, cwd="/", out="", steps=30, warmup=5)], limit_s=400.0)
    assert found.status is Status.COMPLETE
    assert len(found.step_s) == 30


def test_worker_processes_record_nothing_and_leave_nothing_behind(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = watched(partial(run, launcher), "workers.py", str(tmp_path))
    assert found.status is Status.COMPLETE
    assert found.loaders[0].num_workers == 2
    assert not _still_running(str(tmp_path))
    assert not list(tmp_path.glob("pymp-*")), "multiprocessing deletes its folders at an end that these never come to"


def test_a_crash_keeps_its_own_traceback(forks: Forks) -> None:
    found = forks("crash.py")
    assert found.status is Status.CRASHED
    assert len(found.first_steps_s) == 3
    assert "ValueError: the third step is too much" in found.output
    assert OURS not in found.output
    assert found.exit_code == 1


def test_a_script_without_steps_or_without_torch_says_so(forks: Forks) -> None:
    assert forks("no_steps.py").status is Status.ENDED
    assert forks("no_torch.py").status is Status.SILENT


def test_a_script_that_loops_for_ever_is_ended_with_its_children(tmp_path: Path) -> None:
    with Launcher(environment=lambda plan: {}, folders=[SCRIPTS], timeout_s=2.0) as launcher:
        (found,) = launcher([plan_for("forever.py", str(tmp_path))], limit_s=400.0)
    assert found.status is Status.HUNG
    assert not _still_running(str(tmp_path))


def test_megabytes_of_output_are_cut_and_lose_nothing_else(forks: Forks) -> None:
    found = forks("loud.py")
    assert found.status is Status.COMPLETE
    assert len(found.output) <= 8000


def test_processes_take_turns_and_none_goes_on_while_another_one_starts(launcher: Launcher, tmp_path: Path) -> None:
    """What one compiles in its first step takes the cores of those that are timed beside it."""
    turn = Turn(steps=10, ready="", go="")
    slow_start = plan_for("slow_start.py", str(tmp_path), turn=turn, steps=20, warmup=3)
    found = launcher([slow_start, slow_start], limit_s=400.0)
    assert [run.status for run in found] == [Status.COMPLETE, Status.COMPLETE]
    assert [set(run.block) for run in found] == [{0, 1}, {0, 1}]
    said = [dict(line.rsplit(" ", 1) for line in run.output.splitlines()) for run in found]
    assert min(float(one["second step"]) for one in said) > max(float(one["first step over"]) for one in said)


def test_levers_are_switched_between_steps(forks: Forks) -> None:
    arms = ((), ({"name": "threads", "count": 1},), ({"name": "fused-optimizer"},))
    found = forks("plain.py", arms=arms, steps=22, block=11)
    assert found.not_installed == ()
    assert [found.arm.count(k) for k in range(3)] == [22, 22, 22]


def test_a_script_that_is_over_before_it_was_looked_at_keeps_its_facts(forks: Forks) -> None:
    found = forks("short.py", evidence=True, warmup=0, steps=100, whole_epoch=True)
    assert found.status is Status.ENDED
    assert len(found.step_s) == 40
    (optimizer,) = found.optimizers
    assert (optimizer.name, optimizer.num_parameters, optimizer.all_dense) == ("torch.optim.Adam", 2, True)
    (loader,) = found.loaders
    assert loader.trained_on
    assert loader.deterministic is True, loader.why_not


def test_what_the_script_writes_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "writes.py").write_text((SCRIPTS / "writes.py").read_text())
    (tmp_path / "keep.txt").write_text("precious")
    command = (sys.executable, "writes.py")
    with Launcher(environment=lambda plan: {}, folders=[tmp_path], timeout_s=400.0) as launcher:
        (found,) = launcher([Plan(command=command, cwd=str(tmp_path), out="", steps=60, warmup=5)], limit_s=400.0)
        if launcher.not_enclosed:
            pytest.skip(f"this system cannot cover a folder: {launcher.not_enclosed}")
    assert found.status is Status.COMPLETE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keep.txt", "writes.py"]
    assert (tmp_path / "keep.txt").read_text() == "precious"


def test_a_script_in_a_folder_that_was_not_known_is_told(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
    (elsewhere / "writes.py").write_text((SCRIPTS / "writes.py").read_text())
    command = ("sh", "-c", f"cd {elsewhere} && exec {sys.executable} writes.py")
    with Launcher(environment=lambda plan: {}, folders=[home], timeout_s=400.0) as launcher:
        launcher([Plan(command=command, cwd=str(home), out="", steps=60, warmup=5)], limit_s=400.0)
        if launcher.not_enclosed and "command" not in launcher.not_enclosed:
            pytest.skip(f"this system cannot cover a folder: {launcher.not_enclosed}")
    assert launcher.not_enclosed == f"the command does not say that it is {elsewhere}"


def test_a_training_for_real_comes_to_its_end_and_is_timed_as_a_whole(tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text("import atexit, time, torch\natexit.register(time.sleep, 0.5)\nopen('model', 'w').close()\n")
    plan = Plan(command=(sys.executable, str(script)), cwd=str(tmp_path), out="", only_levers=True, afresh=True)
    fails = replace(plan, replaced={str(script): script.read_text() + "raise KeyError('of the patched text')\n"})
    with Launcher(environment=lambda plan: {}, folders=[tmp_path], timeout_s=0.1) as launcher:
        whole, failed = (launcher([one], limit_s=400.0)[0] for one in (plan, fails))
        launcher.not_enclosed = launcher.not_enclosed or "as if"
        (refused,) = launcher([plan], limit_s=400.0)
    assert (whole.status, refused.status, refused.whole_s) == (Status.ENDED, Status.SILENT, None)
    assert whole.whole_s is not None and whole.whole_s > 0.5
    assert failed.status is Status.CRASHED and "of the patched text" in str(failed.error)
    assert launcher.not_enclosed != "as if" or not (tmp_path / "model").exists()


_KEEPS_ON_DISK = """
import torch
from hotlap.data import cached

class Items:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((1000,), float(index))

items = cached(Items(), disk=True)
for _ in range(2):
    list(torch.utils.data.DataLoader(items, batch_size=2))
assert items.full, items.note
assert not items.warm, "what another run kept was found"
"""


def test_what_a_run_keeps_on_disk_is_neither_found_by_the_next_one_nor_left_to_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOTLAP_CACHE", str(tmp_path / "cache"))
    script = tmp_path / "keeps.py"
    script.write_text(_KEEPS_ON_DISK)
    plan = Plan(command=(sys.executable, str(script)), cwd=str(tmp_path), out="", only_levers=True, afresh=True)
    with Launcher(environment=lambda plan: {}, folders=[], timeout_s=400.0) as launcher:
        runs = [launcher([plan], limit_s=400.0)[0] for _ in range(2)]
    assert [run.status for run in runs] == [Status.ENDED] * 2, runs[-1].error
    assert not (tmp_path / "cache").exists()


_FILLS = """
import time
import torch
from hotlap.data import cached

class Items:
    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((4,), float(index))

items = cached(Items())
model = torch.nn.Linear(4, 1)
for _ in range(9):
    for x in torch.utils.data.DataLoader(items, batch_size=2):
        model.zero_grad()
        model(x).mean().backward()
        model.weight.data.sub_(model.weight.grad)
"""


@pytest.mark.parametrize("num_items", [100, 1_000_000])
def test_steps_of_a_cache_that_was_still_filling_tell_nothing_of_it(
    launcher: Launcher, tmp_path: Path, num_items: int
) -> None:
    script = tmp_path / "fills.py"
    script.write_text(_FILLS.replace("400", str(num_items)))
    plan = Plan(command=(sys.executable, str(script)), cwd=str(tmp_path), out="", steps=8, warmup=3)
    plan = replace(plan, always=({"name": "cached-dataset"},), warmup_max_s=0.2)
    (found,) = launcher([plan], limit_s=400.0)
    assert len(found.step_s) == 8
    told = ["cached-dataset: still filling when its warm-up had to end, so its steps tell nothing of it"]
    assert list(found.not_installed) == (told if num_items > 1000 else []), "what is soon done is waited for"


def test_a_patched_script_runs_in_place_of_the_one_on_disk(launcher: Launcher) -> None:
    module = SCRIPTS / "package" / "settings.py"
    plan = Plan(
        command=(sys.executable, "-m", "package.train", "--name", "value"),
        cwd=str(SCRIPTS),
        out="",
        steps=30,
        warmup=5,
        replaced={str(module): "STEPS = 10\n"},
    )
    (found,) = launcher([plan], limit_s=400.0)
    assert found.status is Status.ENDED
    assert len(found.step_s) == 5
    path = SCRIPTS / "plain.py"
    text = path.read_text().replace("torch.optim.SGD(", "torch.optim.Adam(")
    # As a launcher (torchrun) starts it.
    command = (sys.executable, "-u", str(path))
    (found,) = launcher(
        [Plan(command=command, cwd=str(SCRIPTS), out="", steps=30, warmup=5, replaced={str(path): text})],
        limit_s=400.0,
    )
    assert found.unreached == ()
    assert found.status is Status.COMPLETE
    assert found.optimizers[0].name == "torch.optim.Adam"
    assert "SGD" in path.read_text()


@pytest.mark.parametrize(
    ("shell", "covers", "reached"),
    [
        ("cd ../elsewhere && exec {} by_hand.py", True, True),
        ("cd ../elsewhere && exec {} -u by_hand.py 400", False, True),
        ("cp first.py ../elsewhere/by_hand.py && exec {} ../elsewhere/by_hand.py", True, False),
        ("cp first.py ../covered/copied.py && exec {} copied.py", True, False),
        ("exec {} first.py", False, False),
    ],
)
def test_an_edit_reaches_what_a_shell_starts_or_is_said_not_to(
    shell: str, covers: bool, reached: bool, tmp_path: Path
) -> None:
    covered, elsewhere = tmp_path / "covered", tmp_path / "elsewhere"
    text = (SCRIPTS / "by_hand.py").read_text()
    for path in (covered / "first.py", covered / "copied.py", elsewhere / "by_hand.py"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    edited = covered / "copied.py" if "copied.py" in shell else elsewhere / "by_hand.py"
    plan = Plan(
        command=("sh", "-c", shell.format(sys.executable)), cwd=str(covered), out="", steps=20, warmup=3,
        replaced={str(edited): text.replace("0.01", "0.0")},
    )  # fmt: skip
    folders = [covered] if covers else []
    with Launcher(environment=lambda plan: {}, folders=folders, timeout_s=400.0) as launcher:
        (found,) = launcher([plan], limit_s=400.0)
        said = launcher.not_enclosed or ""
        if covers and said and "elsewhere" not in said:  # that what ran there is not covered, no system could help
            pytest.skip(f"this system cannot cover a folder: {said}")
    assert found.status is Status.COMPLETE, found.output
    assert found.unreached == (() if reached else (str(edited),))
    failure = failed(found)
    assert (failure is None) is reached
    assert failure is None or f"the edit of {edited} was not run" in failure.why
    assert elsewhere.joinpath("by_hand.py").read_text() == covered.joinpath("copied.py").read_text() == text


def test_spawned_workers_run_the_patched_script(launcher: Launcher, tmp_path: Path) -> None:
    path = SCRIPTS / "spawns.py"
    text = path.read_text().replace("as written", "as patched")
    found = run(launcher, "spawns.py", str(tmp_path / "told"), replaced={str(path): text})
    assert found.status is Status.COMPLETE
    assert (tmp_path / "told").read_text() == "as patched\n" * 2


def test_a_training_that_was_started_by_a_thread_outlives_it(launcher: Launcher) -> None:
    found = run(launcher, "started_by_a_thread.py")
    assert (found.status, found.error) == (Status.COMPLETE, None)
    assert len(found.step_s) == 60


def _still_running(word: str) -> list[str]:
    """Processes that were given this word: others may run the same scripts at the same time."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if word in line:
            found.append(line)
    return found
