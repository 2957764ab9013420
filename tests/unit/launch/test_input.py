"""Standard input: every execution reads the same, from its beginning."""

import os
from pathlib import Path

import pytest

from hotlap.launch import StandardInput


def read(stdin: StandardInput) -> bytes:
    with stdin.opened() as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read()


def test_a_pipe_is_read_once_and_given_to_all() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"5\nyes\n")
    os.close(writer)
    stdin = StandardInput(reader)
    assert [read(stdin), read(stdin)] == [b"5\nyes\n"] * 2
    stdin.close()
    os.close(reader)


def test_what_is_kept_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    stdin = StandardInput(reader)
    assert read(stdin) == b"text"
    assert list(tmp_path.iterdir()) == []
    stdin.close()
    os.close(reader)


def test_a_file_is_opened_anew_and_left_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "answers.txt"
    path.write_bytes(b"answers")
    with path.open("rb") as file:
        file.read(3)
        stdin = StandardInput(file.fileno())
        assert [read(stdin), read(stdin)] == [b"answers"] * 2
        assert path.read_bytes() == b"answers"


def test_a_pipe_that_nobody_writes_to_is_empty() -> None:
    reader, writer = os.pipe()
    stdin = StandardInput(reader)
    assert read(stdin) == b""
    stdin.close()
    os.close(reader)
    os.close(writer)


def test_the_null_device_is_empty() -> None:
    with open(os.devnull, "rb") as file:
        assert read(StandardInput(file.fileno())) == b""


def test_a_closed_descriptor_is_empty() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    assert read(StandardInput(reader)) == b""
