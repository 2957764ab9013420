"""Training loops that are somebody else's: Lightning, Hugging Face's Trainer, Accelerate.

They come with `pip install --group frameworks`; without them these tests are skipped.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hotlap.launch import Launcher
from hotlap.levers.bf16_autocast import Bf16Autocast
from hotlap.levers.compile import Compile
from hotlap.levers.lever import Lever
from hotlap.levers.workers import Workers
from hotlap.predict import Kind, Stage
from hotlap.record import Phase, Run, Status
from hotlap.source import patch
from tests.e2e.running import SCRIPTS, assert_phases_sum_to_steps, median_ms, run_command, run_script
from tests.e2e.test_predict import work_of
from tests.sample_runs import machine

pytestmark = pytest.mark.e2e


def needs(*names: str) -> pytest.MarkDecorator:
    missing = [name for name in names if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)} (--group frameworks)")


@needs("lightning")
def test_lightnings_trainer_and_its_validation(launcher: Launcher, tmp_path: Path) -> None:
    command = (sys.executable, str(SCRIPTS / "lightning_fit.py"))
    # It ends, and is traced, within an epoch of twenty steps: a validation is no part of the step.
    found = run_command(launcher, *command, steps=45, watches=("workload",))
    work = work_of(found)
    assert work.parameter_bytes == (8 + 1) * 4
    # One product forward, and one for the gradient of its weights.
    assert work.flop == 2 * 2 * 4 * 8
    assert work.batch_bytes == 4 * (8 + 1) * 4
    assert {one.stage for one in work.operators} == {Stage.FORWARD, Stage.BACKWARD, Stage.OPTIMIZER}
    assert set(found.num_updates) == {1}
    assert set(found.num_samples) == {4}
    assert median_ms(found, Phase.OPTIMIZER) + median_ms(found, Phase.FORWARD) + median_ms(found, Phase.OTHER) >= 5.0
    assert_phases_sum_to_steps(found)
    assert found.num_validations == 2
    assert found.validation_s >= 0.100, "it sleeps that long"
    said = said_of_itself(found, "lightning_fit.py", (Bf16Autocast(),), folder=tmp_path)
    assert said == {"autocast": ["torch.bfloat16"], "workers": [0]}


@needs("transformers", "accelerate")
def test_hugging_faces_trainer_with_accumulation(launcher: Launcher, tmp_path: Path) -> None:
    command = (sys.executable, str(SCRIPTS / "transformers_train.py"))
    found = run_command(launcher, *command, steps=30, warmup=5, watches=("workload",))
    work = work_of(found)
    assert work.batch_bytes == 2 * 2 * 4 * 16 * 8, "two batches of tokens and labels"
    attention = [one for one in work.operators if one.kind is Kind.ATTENTION]
    assert sum(one.count for one in attention) == 2 * 2, "forward and backward, of each of two batches"
    # Each of two batches: the layer's products, attention and head, three times over with the gradients.
    assert work.flop == pytest.approx(2 * 3 * 4 * 16 * 2 * (12 * 16 * 16 + 2 * 16 * 16 + 16 * 50), rel=0.1)
    assert set(found.num_updates) == {1}
    assert set(found.num_samples) == {8}, "two batches of four"
    for phase in (Phase.INPUT, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
        assert median_ms(found, phase) > 0
    assert_phases_sum_to_steps(found)
    said = said_of_itself(found, "transformers_train.py", (Bf16Autocast(), Workers(num_workers=2)), folder=tmp_path)
    assert said["autocast"] == ["torch.bfloat16"]
    assert max(said["workers"]) == 2


@needs("accelerate")
def test_a_loop_with_accelerate(launcher: Launcher, tmp_path: Path) -> None:
    found = run_script(launcher, "accelerate_loop.py", steps=40)
    assert found.status is Status.COMPLETE, found.output
    assert set(found.num_updates) == {1}
    assert set(found.num_samples) == {8}, "two batches of four"
    assert_phases_sum_to_steps(found)
    assert found.ranks == ()
    said = said_of_itself(found, "accelerate_loop.py", (Bf16Autocast(), Workers(num_workers=2)), folder=tmp_path)
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
def test_accelerate_with_two_processes(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    # Accelerate's launcher starts several processes on a CPU through MPI only; torchrun does it without.
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    found = run_command(launcher, *command, str(SCRIPTS / "accelerate_loop.py"), steps=40)
    assert found.status is Status.COMPLETE, found.output
    assert found.world_size == 2
    assert [rank.rank for rank in found.ranks] == [0, 1]
    assert found.ranks[1].compute_s >= 0.004, "it sleeps that long"
    assert set(found.num_samples) == {8}


def said_by(script: Path, *, folder: Path) -> Any:
    """What a script prints, as JSON."""
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    return the_json_in(done.stdout + done.stderr)


def the_json_in(output: str) -> Any:
    (line,) = [line for line in output.splitlines() if line.startswith('{"')]
    return json.loads(line)


@needs("lightning")
def test_parts_of_a_lightning_module_are_compiled_where_the_script_names_them(
    launcher: Launcher, tmp_path: Path
) -> None:
    compiled = ["encoder", "gate"]
    patched, plain = compiled_and_not(
        launcher, "lightning_parts.py", 'options={"fallback_random": True}', 'backend="eager"', folder=tmp_path
    )
    assert (patched["compiled"], plain["compiled"]) == (compiled, [])
    assert patched["graphs"] >= len(compiled), "compile() of torch's own modules may do nothing, and say nothing"


@pytest.mark.slow
@needs("transformers", "accelerate")
def test_hugging_faces_trainer_compiles_its_model_itself(launcher: Launcher, tmp_path: Path) -> None:
    patched, _ = compiled_and_not(
        launcher,
        "trainer_of_a_name.py",
        'torch_compile_mode="default"',
        'torch_compile_backend="eager"',
        folder=tmp_path,
    )
    assert patched["graphs"] >= 1


def compiled_and_not(launcher: Launcher, name: str, settings: str, instead: str, *, folder: Path) -> tuple[Any, Any]:
    """What a script says after the patch of `compile`, and as it is; the same but for what was compiled."""
    found = run_script(launcher, name, steps=10_000)
    assert found.status is Status.ENDED, found.output
    plain = the_json_in(found.output)
    assert Compile().rejects(found, machine()) is None
    script = SCRIPTS / name
    text = patch(Compile().edits(found), root=SCRIPTS).texts[str(script)]
    assert settings in text
    (folder / name).write_text(text.replace(settings, instead))  # a C++ compiler's minute for nothing here
    patched = said_by(folder / name, folder=folder)
    assert plain["graphs"] == 0
    assert patched["losses"] == pytest.approx(plain["losses"], rel=1e-4, abs=1e-5)
    assert patched["keys"] == plain["keys"], "what is saved has the names that it had"
    return patched, plain


def said_of_itself(plain: Run, name: str, levers: tuple[Lever, ...], *, folder: Path) -> Any:
    """What a script whose levers are written in its framework's words says of its autocast and its workers."""
    texts = patch([edit for lever in levers for edit in lever.edits(plain)], root=SCRIPTS).texts
    text = texts[str(SCRIPTS / name)]
    for steps, fewer in SHORTER.items():
        text = text.replace(steps, fewer)
    (folder / name).write_text(NOTING + text)
    return said_by(folder / name, folder=folder)


# What a script says of itself it says after a few steps.
SHORTER = {"max_epochs=20": "max_epochs=1", "max_steps=200": "max_steps=5", "torch.randn(4000,": "torch.randn(40,"}


# In front of a script: at its end it says under which types models ran, and how many workers its loaders had.
NOTING = """
import atexit, json, torch
said = {"autocast": set(), "workers": set()}
enter, iterate = torch.autocast.__enter__, torch.utils.data.DataLoader.__iter__
def entering(self):
    said["autocast"].add(str(self.fast_dtype))
    return enter(self)
def iterating(self):
    said["workers"].add(self.num_workers)
    return iterate(self)
torch.autocast.__enter__, torch.utils.data.DataLoader.__iter__ = entering, iterating
atexit.register(lambda: print(json.dumps({key: sorted(found) for key, found in said.items()})))
"""
