"""Files of records: written whole or not at all, refused by name."""

import json
import math
from pathlib import Path

import pytest

from hotlap.errors import RecordError, UserError
from hotlap.record import SCHEMA, Interval, Run, Status, Study, decode, encode, load, save
from hotlap.record.codec import OLDER, upgrade
from tests.samples import study_full


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "study.json"
    save(study_full(), path)
    assert load(path, Study) == study_full()


def test_nothing_but_the_file_is_left_behind(tmp_path: Path) -> None:
    save(study_full(), tmp_path / "study.json")
    save(study_full(), tmp_path / "study.json")
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    save(study_full(), path)
    with pytest.raises(TypeError):
        save(object(), path)
    assert load(path, Study) == study_full()


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"gone\.json cannot be read: No such file or directory\.$"):
        load(tmp_path / "gone.json", Study)


def test_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"cannot be read: Is a directory\.$"):
        load(tmp_path, Study)


def test_a_refusal_is_the_users_to_mend() -> None:
    assert issubclass(RecordError, UserError)
    assert RecordError.exit_code == 2


def test_a_record_of_another_kind_is_refused() -> None:
    with pytest.raises(RecordError, match="is damaged"):
        decode(encode(Run(status=Status.ENDED)), Study)


def test_an_older_version_becomes_this_one() -> None:
    assert upgrade({"command": []}, 1)["schema"] == SCHEMA


def test_a_study_of_version_1_is_read_without_its_intervals_from_few_processes_and_says_that_it_is_older() -> None:
    raw = json.loads(encode(study_full()))
    few, many = raw["trials"][0], raw["trials"][1]
    raw["schema"] = 1
    few["speedup"] = many["speedup"] = {"low": 3.1, "mid": 3.4, "high": 3.6}
    few["log_ratios"], many["log_ratios"] = [1.2], [1.2, 1.2, 1.3]
    study = decode(json.dumps(raw).encode(), Study)
    assert study.trials[0].speedup is None and study.trials[0].seen == pytest.approx(math.exp(1.2))
    assert study.trials[1].speedup == Interval(low=3.1, mid=3.4, high=3.6)
    assert OLDER in study.warnings
    assert OLDER not in decode(encode(study_full()), Study).warnings
