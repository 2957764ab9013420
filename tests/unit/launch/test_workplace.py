"""The folders and the environment of one execution."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.launch.workplace import Workplace
from hotlap.record import Plan, Turn, load


def plan_in(cwd: Path, *, turn: Turn | None = None) -> Plan:
    return Plan(command=("python", "train.py", "--lr", "1"), cwd=str(cwd), out="", turn=turn)


def test_the_plan_lies_where_the_environment_says(tmp_path: Path) -> None:
    place = Workplace(plan_in(tmp_path), base=tmp_path, number=3, folders=())
    environ = place.environment({"GLIBC_TUNABLES": "x"})
    assert load(Path(environ["HOTLAP_PLAN"]), Plan) == place.plan
    assert environ["HOTLAP_PARENT"] == str(os.getpid())
    assert environ["GLIBC_TUNABLES"] == "x"
    place.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_users_python_path_stays_behind_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/my/modules")
    place = Workplace(plan_in(tmp_path), base=tmp_path, number=1, folders=())
    first, *rest = place.environment({})["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "sitecustomize.py").is_file()
    assert rest == ["/my/modules"]
    place.remove()


def test_a_hash_seed_of_the_users_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Workplace(plan_in(tmp_path), base=tmp_path, number=1, folders=())
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    assert place.environment({})["PYTHONHASHSEED"] == "0"
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    assert place.environment({})["PYTHONHASHSEED"] == "77"
    place.remove()


def test_experiment_trackers_are_told_to_stay_away(tmp_path: Path) -> None:
    place = Workplace(plan_in(tmp_path), base=tmp_path, number=1, folders=())
    assert place.environment({})["WANDB_MODE"] == "disabled"
    place.remove()


def test_each_run_has_a_marker_of_its_own(tmp_path: Path) -> None:
    places = [Workplace(plan_in(tmp_path), base=tmp_path, number=1, folders=()) for _ in range(3)]
    assert len({place.environment({})["HOTLAP_RUN"] for place in places}) == 3
    for place in places:
        place.remove()


def test_the_command_goes_to_the_script_word_by_word(tmp_path: Path) -> None:
    place = Workplace(plan_in(tmp_path), base=tmp_path, number=1, folders=())
    assert place.command()[-4:] == ["python", "train.py", "--lr", "1"]
    place.remove()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="turns are taken over FIFOs")
def test_a_turn_gets_its_two_pipes(tmp_path: Path) -> None:
    place = Workplace(plan_in(tmp_path, turn=Turn(steps=5, ready="", go="")), base=tmp_path, number=1, folders=())
    assert place.plan.turn is not None
    assert all(Path(name).is_fifo() for name in (place.plan.turn.ready, place.plan.turn.go))
    place.remove()


@pytest.mark.parametrize(("number", "known"), [(1, True), (1001, False)])
def test_files_that_a_run_for_the_gate_has_written_are_known_by_name(tmp_path: Path, number: int, known: bool) -> None:
    plan = replace(plan_in(tmp_path), evidence=True)
    place = Workplace(plan, base=tmp_path, number=1, folders=("/home/me/project",))
    upper = place.out / "scratch" / "0" / "upper"
    for name in (".cache/x", "__pycache__/a.pyc", "out/.lock", *(f"out/{k}.pt" for k in range(number))):
        (upper / name).parent.mkdir(parents=True, exist_ok=True)
        (upper / name).touch()
    (upper / "out" / "deleted").symlink_to(upper / "nowhere")
    place.clear()
    assert place.written == (("out/0.pt",) if known else None)
    assert not upper.exists()
    place.remove()


def test_nothing_is_known_of_what_a_run_has_written_where_its_folders_were_not_covered(tmp_path: Path) -> None:
    plan = replace(plan_in(tmp_path), evidence=True)
    place = Workplace(plan, base=tmp_path, number=1, folders=("/home/me/project",))
    (place.out / "not-enclosed").write_text("Operation not permitted")
    place.clear()
    assert place.written is None
    place.remove()
