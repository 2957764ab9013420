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
from hotlap.levers.compile import Compile
from hotlap.record import Phase, Status
from hotlap.source import patch
from tests.e2e.running import SCRIPTS, assert_phases_sum_to_steps, median_ms, run_command, run_script
from tests.sample_runs import machine

pytestmark = pytest.mark.e2e


def needs(*names: str) -> pytest.MarkDecorator:
    missing = [name for name in names if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)} (--group frameworks)")


@needs("lightning")
def test_lightnings_trainer_and_its_validation(launcher: Launcher) -> None:
    found = run_script(launcher, "lightning_fit.py", steps=50)
    assert found.status is Status.COMPLETE, found.output
    assert set(found.num_updates) == {1}
    assert set(found.num_samples) == {4}
    assert median_ms(found, Phase.OPTIMIZER) + median_ms(found, Phase.FORWARD) + median_ms(found, Phase.OTHER) >= 5.0
    assert_phases_sum_to_steps(found)
    assert found.num_validations == 2
    assert found.validation_s >= 0.100, "it sleeps that long"


@needs("transformers", "accelerate")
def test_hugging_faces_trainer_with_accumulation(launcher: Launcher) -> None:
    found = run_script(launcher, "transformers_train.py", steps=30, warmup=5)
    assert found.status is Status.COMPLETE, found.output
    assert set(found.num_updates) == {1}
    assert set(found.num_samples) == {8}, "two batches of four"
    for phase in (Phase.INPUT, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
        assert median_ms(found, phase) > 0
    assert_phases_sum_to_steps(found)


@needs("accelerate")
def test_a_loop_with_accelerate(launcher: Launcher) -> None:
    found = run_script(launcher, "accelerate_loop.py", steps=40)
    assert found.status is Status.COMPLETE, found.output
    assert set(found.num_updates) == {1}
    assert set(found.num_samples) == {8}, "two batches of four"
    assert_phases_sum_to_steps(found)
    assert found.ranks == ()


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
    """What a script prints in its last line."""
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "compiled"),
    [
        pytest.param("lightning_parts.py", ["encoder", "gate"], marks=needs("lightning")),
        pytest.param("trainer_of_a_name.py", [""], marks=needs("transformers", "accelerate")),
    ],
)
def test_a_frameworks_model_is_compiled_where_the_script_names_it(
    launcher: Launcher, tmp_path: Path, name: str, compiled: list[str]
) -> None:
    found = run_script(launcher, name, steps=20)
    assert found.status is Status.COMPLETE, found.output
    assert Compile().rejects(found, machine()) is None
    script = SCRIPTS / name
    text = patch(Compile().edits(found), root=SCRIPTS).texts[str(script)]
    settings = 'options={"fallback_random": True}'
    assert text.count(settings) == len(compiled)
    (tmp_path / name).write_text(text.replace(settings, 'backend="eager"'))  # a C++ compiler's minute for nothing here

    patched, plain = said_by(tmp_path / name, folder=tmp_path), said_by(script, folder=tmp_path)
    assert (patched["compiled"], plain["compiled"]) == (compiled, [])
    assert patched["graphs"] >= len(compiled), "compile() of torch's own modules may do nothing, and say nothing"
    assert plain["graphs"] == 0
    assert patched["losses"] == pytest.approx(plain["losses"], rel=1e-4, abs=1e-5)
    assert patched["keys"] == plain["keys"], "what is saved has the names that it had"
