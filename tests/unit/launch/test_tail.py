"""What is kept of a script's output: its beginning and its end."""

import io
import os
import threading

import pytest

from hotlap.launch.tail import Tail


def kept(data: bytes) -> str:
    return Tail(io.BytesIO(data)).text()


@pytest.mark.parametrize("data", [b"", b"one line\n", b"x" * 60_000])
def test_short_output_is_kept_whole(data: bytes) -> None:
    assert kept(data) == data.decode()


def test_of_long_output_the_beginning_and_the_end_are_kept() -> None:
    lines = [f"line {i}\n" for i in range(1_000_000)]
    text = kept("".join(lines).encode())
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 999998\nline 999999\n")
    assert "bytes left out" in text
    assert len(text) < 300_000


def test_what_was_left_out_is_counted() -> None:
    data = bytes(range(32, 127)) * 10_000
    text = kept(data)
    head, gap, tail = text.partition("\n[... ")[0], text.split("[... ")[1].split(" bytes")[0], text.split("...]\n")[1]
    assert len(head) + int(gap) + len(tail) == len(data)


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
