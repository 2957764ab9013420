"""The folders and the environment of one execution."""

import os
from pathlib import Path

import pytest

from hotlap.launch.workplace import Workplace, served
from hotlap.record import Plan, Turn, load


def plan_in(cwd: Path, *, replaced: dict[str, str] | None = None, turn: Turn | None = None) -> Plan:
    return Plan(command=("python", "train.py", "--lr", "1"), cwd=str(cwd), out="", replaced=replaced or {}, turn=turn)


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


def test_where_no_file_can_be_written_a_replaced_main_script_is_run_by_its_stand_in(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    replaced = {str((tmp_path / "train.py").resolve()): "print(1)"}
    place = Workplace(plan_in(tmp_path, replaced=replaced), base=tmp_path, number=1, folders=())
    python, stand_in, script = served(place.plan)[-5:-2]
    assert (python, script) == ("python", "train.py")
    assert Path(stand_in).name == "stand_in.py"
    place.remove()


def test_a_replaced_module_is_left_to_the_import_system() -> None:
    for command, file in ((("python", "train.py"), "/x/model.py"), (("python",), "/x/train.py")):
        assert served(Plan(command=command, cwd="/x", out="", replaced={file: ""})) == list(command)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="turns are taken over FIFOs")
def test_a_turn_gets_its_two_pipes(tmp_path: Path) -> None:
    place = Workplace(plan_in(tmp_path, turn=Turn(steps=5, ready="", go="")), base=tmp_path, number=1, folders=())
    assert place.plan.turn is not None
    assert all(Path(name).is_fifo() for name in (place.plan.turn.ready, place.plan.turn.go))
    place.remove()
