"""Files of records: written whole or not at all, refused by name."""

import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from hotlap.errors import RecordError, UserError
from hotlap.record import SCHEMA, Run, Status, Study, decode, encode, load, save
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


@pytest.mark.parametrize(("version", "age"), [(SCHEMA - 1, "an older"), (SCHEMA + 1, "a newer")])
def test_a_study_of_another_version_is_refused(version: int, age: str) -> None:
    raw = {**json.loads(encode(study_full())), "schema": version}
    with pytest.raises(RecordError, match=f"was written by {age} hotlap"):
        decode(json.dumps(raw).encode(), Study)


def test_numbers_of_numpy_are_numbers() -> None:
    run = Run(status=Status.COMPLETE, num_threads=cast(int, np.int64(2)))
    assert decode(encode(run), Run).num_threads == 2
