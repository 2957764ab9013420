"""What a command is given and what is kept of its output: the same standard input for each, and the end of a stream."""

import io
import os
import threading
from pathlib import Path

import pytest

from hotlap.launch.streams import StandardInput, Tail


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


def kept(data: bytes) -> str:
    return Tail(io.BytesIO(data)).text()


@pytest.mark.parametrize("data", [b"", b"one line\n", b"x" * 40_000])
def test_short_output_is_kept_whole(data: bytes) -> None:
    assert kept(data) == data.decode()


def test_of_long_output_the_end_is_kept() -> None:
    text = kept("".join(f"line {i}\n" for i in range(1_000_000)).encode())
    assert text.endswith("line 999998\nline 999999\n")
    assert 40_000 < len(text) < 300_000


def test_bytes_that_are_no_text_do_not_hurt() -> None:
    assert kept(b"\xe9t\xe9 \xff\n") == "\ufffdt\ufffd \ufffd\n"


def test_it_reads_while_the_script_writes() -> None:
    reader, writer = os.pipe()
    tail = Tail(os.fdopen(reader, "rb"))
    chunk, total = b"y" * 4096, 400  # more than a pipe holds: without a reader this would never end

    def write() -> None:
        with os.fdopen(writer, "wb") as stream:
            for _ in range(total):
                stream.write(chunk)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert tail.text().startswith("yyyy")
    tail._stream.close()
