"""What is kept of a script's output: its end."""

import io
import os
import threading

import pytest

from hotlap.launch.tail import Tail


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
