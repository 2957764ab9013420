"""Training loops that are somebody else's: Lightning, Hugging Face's Trainer, Accelerate.

They come with `pip install --group frameworks`; without them these tests are skipped.
"""

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hotlap.gate import Evidence, judge
from hotlap.launch import Launcher
from hotlap.levers.bf16_autocast import Bf16Autocast
from hotlap.levers.compile import Compile
from hotlap.levers.data_parallel import UnusedParameters
from hotlap.levers.lever import Lever
from hotlap.levers.workers import Workers
from hotlap.machine import look
from hotlap.record import Phase, Run, Status, Verdict
from hotlap.search.candidates import rejects
from tests.e2e.running import (
    SCRIPTS,
    Forks,
    assert_phases_sum_to_steps,
    edited,
    median_ms,
    of_a_file,
    opened_forks,
    run_command,
)
from tests.e2e.test_predict import work_of
from tests.sample_runs import machine

pytestmark = pytest.mark.e2e


def needs(*names: str) -> pytest.MarkDecorator:
    missing = [name for name in names if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)} (--group frameworks)")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """Of a process that has imported all of them, which takes ten seconds."""
    with opened_forks("frameworks.py") as forks:
        yield forks


@needs("lightning")
def test_lightnings_trainer_and_its_validation(forks: Forks, tmp_path: Path) -> None:
    # It ends, and is traced, within an epoch of twenty steps: a validation is no part of the step.
    found = forks("lightning_fit.py", steps=45, profilers=("workload",))
    work = work_of(found)
    assert work.parameter_bytes == (8 + 1) * 4
    # One product forward, and one for the gradient of its weights.
    assert work.flop == 2 * 2 * 4 * 8
    assert work.batch_bytes == 4 * (8 + 1) * 4
    assert {one.stage for one in work.operators} == {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER}
    assert set(found.num_updates) == {1}
    assert set(found.num_samples) == {4}
    assert median_ms(found, Phase.OPTIMIZER) + median_ms(found, Phase.FORWARD) + median_ms(found, Phase.OTHER) >= 5.0
    assert_phases_sum_to_steps(found)
    assert found.num_validations == 2
    assert found.validation_s >= 0.100, "it sleeps that long"
    assert found.planned_steps == 20 * 20
    said = said_of_itself(forks, found, "lightning_fit.py", (Bf16Autocast(),), folder=tmp_path)
    assert said == {"autocast": ["torch.bfloat16"], "workers": [0]}


@needs("transformers", "accelerate")
def test_hugging_faces_trainer_with_accumulation(forks: Forks, tmp_path: Path) -> None:
    found = forks("transformers_train.py", steps=30, warmup=5, profilers=("workload",))
    work = work_of(found)
    assert work.batch_bytes == 2 * 2 * 4 * 16 * 8, "two batches of tokens and labels"
    attention = [one for one in work.operators if "attention" in one.name]
    assert sum(one.count for one in attention) == 2 * 2, "forward and backward, of each of two batches"
    # Each of two batches: the layer's products, attention and head, three times over with the gradients.
    assert work.flop == pytest.approx(2 * 3 * 4 * 16 * 2 * (12 * 16 * 16 + 2 * 16 * 16 + 16 * 50), rel=0.1)
    assert set(found.num_updates) == {1}
    assert set(found.num_samples) == {8}, "two batches of four"
    for phase in (Phase.INPUT, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
        assert median_ms(found, phase) > 0
    assert_phases_sum_to_steps(found)
    levers = (Bf16Autocast(), Workers(num_workers=2))
    said = said_of_itself(forks, found, "transformers_train.py", levers, folder=tmp_path)
    assert said["autocast"] == ["torch.bfloat16"]
    assert max(said["workers"]) == 2


@needs("accelerate")
def test_a_loop_with_accelerate(forks: Forks, tmp_path: Path) -> None:
    found = forks("accelerate_loop.py", steps=40)
    assert found.status is Status.COMPLETE, found.output
    assert set(found.num_updates) == {1}
    assert set(found.num_samples) == {8}, "two batches of four"
    assert_phases_sum_to_steps(found)
    assert found.ranks == ()
    levers = (Bf16Autocast(), Workers(num_workers=2))
    said = said_of_itself(forks, found, "accelerate_loop.py", levers, folder=tmp_path)
    assert said["autocast"] == ["torch.bfloat16"]
    assert max(said["workers"]) == 2


@needs("accelerate")
def test_accelerates_own_launcher(launcher: Launcher) -> None:
    command = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1"]
    command += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    found = run_command(launcher, *command, str(SCRIPTS / "accelerate_loop.py"), steps=40)
    assert found.status is Status.COMPLETE, found.output
    assert set(found.num_samples) == {8}


@needs("accelerate")
def test_accelerate_with_two_processes(forks: Forks) -> None:
    found = forks.by_two("accelerate_loop.py", steps=40)
    assert found.status is Status.COMPLETE, found.output
    assert found.world_size == 2
    assert [rank.rank for rank in found.ranks] == [0, 1]
    assert found.ranks[1].compute_s >= 0.004, "it sleeps that long"
    assert set(found.num_samples) == {8}


@needs("transformers", "accelerate")
def test_hugging_faces_trainer_with_two_processes_takes_a_lever_of_ddp_in_its_own_words(
    forks: Forks, tmp_path: Path
) -> None:
    plan: dict[str, Any] = {"steps": 24, "warmup": 0, "evidence": True}
    base = forks.by_two("transformers_train.py", **plan)
    assert (base.status, base.world_size) == (Status.COMPLETE, 2), base.output
    run = of_a_file(forks, base, "transformers_train.py", by_two=True, folder=tmp_path)
    assert rejects(UnusedParameters(), run, look()) is None
    (tmp_path / "edited.py").write_text(edited(run, (UnusedParameters(),)))
    found = forks(tmp_path / "edited.py", always=(UnusedParameters().spec(),), **plan)
    assert (found.status, found.not_installed) == (Status.COMPLETE, ()), found.output
    searched = [
        {site.detail["finds_unused"] for site in run.call_sites if site.detail.get("data_parallel")}
        for run in (base, found)
    ]
    assert searched == [{True}, {False}]
    ruling = judge("exact", Evidence(base=(base,), lever=(found,)))
    assert ruling.verdict is Verdict.UNHARMED, ruling.why


def to_its_end(forks: Forks, script: str | Path) -> tuple[Run, Any]:
    """A run, and what the script says at its end, as JSON."""
    found = forks(script, steps=10_000)
    assert (found.status, found.exit_code) == (Status.ENDED, 0), found.output
    (line,) = [line for line in found.output.splitlines() if line.startswith('{"')]
    return found, json.loads(line)


@needs("lightning")
def test_parts_of_a_lightning_module_are_compiled_where_the_script_names_them(forks: Forks, tmp_path: Path) -> None:
    compiled = ["encoder", "gate"]
    patched, plain = compiled_and_not(
        forks, "lightning_parts.py", 'options={"fallback_random": True}', 'backend="eager"', folder=tmp_path
    )
    assert (patched["compiled"], plain["compiled"]) == (compiled, [])
    assert patched["graphs"] >= len(compiled), "compile() of torch's own modules may do nothing, and say nothing"


@pytest.mark.slow
@needs("transformers", "accelerate")
def test_hugging_faces_trainer_compiles_its_model_itself(forks: Forks, tmp_path: Path) -> None:
    patched, _ = compiled_and_not(
        forks,
        "trainer_of_a_name.py",
        'torch_compile_mode="default"',
        'torch_compile_backend="eager"',
        folder=tmp_path,
    )
    assert patched["graphs"] >= 1


def compiled_and_not(forks: Forks, name: str, settings: str, instead: str, *, folder: Path) -> tuple[Any, Any]:
    """What a script says after the patch of `compile`, and as it is; the same but for what was compiled."""
    found, plain = to_its_end(forks, name)
    run = of_a_file(forks, found, name, folder=folder)
    assert Compile().rejects(run, machine()) is None
    text = edited(run, (Compile(),))
    assert settings in text
    (folder / name).write_text(text.replace(settings, instead))  # a C++ compiler's minute for nothing here
    _, patched = to_its_end(forks, folder / name)
    assert plain["graphs"] == 0
    assert patched["losses"] == pytest.approx(plain["losses"], rel=1e-4, abs=1e-5)
    assert patched["keys"] == plain["keys"], "what is saved has the names that it had"
    return patched, plain


def said_of_itself(forks: Forks, plain: Run, name: str, levers: tuple[Lever, ...], *, folder: Path) -> Any:
    """What a script whose levers are written in its framework's words says of its autocast and its workers."""
    text = edited(of_a_file(forks, plain, name, folder=folder), levers)
    for steps, fewer in SHORTER.items():
        text = text.replace(steps, fewer)
    (folder / "edited.py").write_text(NOTING + text)
    _, said = to_its_end(forks, folder / "edited.py")
    return said


# What a script says of itself it says after a few steps.
SHORTER = {"max_epochs=20": "max_epochs=1", "max_steps=200": "max_steps=5", "torch.randn(4000,": "torch.randn(40,"}


# In front of a script: at its end it says under which types models ran, and how many workers its loaders had.
NOTING = """
import atexit, json, sys, torch
said = {"autocast": set(), "workers": set()}
enter, iterate = torch.autocast.__enter__, torch.utils.data.DataLoader.__iter__
def entering(self):
    said["autocast"].add(str(self.fast_dtype))
    return enter(self)
def iterating(self):
    said["workers"].add(self.num_workers)
    return iterate(self)
torch.autocast.__enter__, torch.utils.data.DataLoader.__iter__ = entering, iterating
atexit.register(lambda: print(json.dumps({key: sorted(found) for key, found in said.items()}), file=sys.stderr))
"""
