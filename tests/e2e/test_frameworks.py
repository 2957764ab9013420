"""Training loops that are somebody else's: Lightning, Hugging Face's Trainer, Accelerate.

They come with `pip install --group frameworks`; without them these tests are skipped.
"""

import sys
from importlib.util import find_spec

import pytest

from hotlap.launch import Launcher
from hotlap.record import Phase, Status
from tests.e2e.running import SCRIPTS, assert_phases_sum_to_steps, median_ms, run_command, run_script

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
    assert found.ranks[1].compute_s > found.ranks[0].compute_s, "the second one sleeps"
    assert set(found.num_samples) == {8}
