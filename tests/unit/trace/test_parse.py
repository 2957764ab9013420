"""Bytes in any pieces give the same events; what is no trace, or not whole, is told in a sentence."""

import gzip
import json
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.errors import UserError
from hotlap.trace import files, parse, table
from tests.unit.trace.written import Written

EVENTS: list[dict[str, Any]] = [
    {"ph": "X", "name": 'a "quoted" }, { name', "ts": 1.5, "dur": 2, "args": {"x": [{"y": 1}, {"z": 2}]}},
    {"ph": "i", "name": "[memory]", "ts": 2},
    {"ph": "X", "name": "b\\", "ts": 3, "dur": 4.25, "args": {"Input Dims": [[2, 3], []], "correlation": 7}},
]
HEADER = {"schemaVersion": 1, "note": 'holds "traceEvents": [ as a text'}


def pieces(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def names(text: bytes, size: int = 1 << 20) -> list[object]:
    header: dict[str, Any] = {}
    return [event.name for some in parse.events(pieces(text, size), "t.json", header) for event in some]


@given(st.integers(1, 400), st.sampled_from([None, 1, 4]), st.booleans())
def test_pieces_of_any_size_give_the_same_events_and_fields(size: int, indent: int | None, last: bool) -> None:
    parts: list[dict[str, Any]] = [HEADER, {"traceEvents": EVENTS * 3}, {"traceName": "x.json", "end": [1, {"a": []}]}]
    document = {key: value for part in (parts if last else parts[1:]) for key, value in part.items()}
    header: dict[str, Any] = {}
    text = json.dumps(document, indent=indent).encode()
    found = [event for some in parse.events(pieces(text, size), "t.json", header) for event in some]
    assert [event.name for event in found] == [event["name"] for event in EVENTS] * 3
    assert found[2].args is not None
    assert found[2].args.correlation == 7
    assert header["traceName"] == "x.json"
    assert ("schemaVersion" in header) is last


def test_words_that_are_no_json_but_that_some_versions_write() -> None:
    text = b'{"traceEvents": [{"name": "a", "args": {"blocks per SM": inf, "x": -nan}}, {"name": "b"}]}'
    assert names(text) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        (b"cut \xe4\xbd", "cut \ufffd"),
        (rb"C:\data\\x\u0041.py", "C:\\data\\xA.py"),
        (rb"half \ud800", r"half \ud800"),
        (b"two\nlines", "two lines"),
    ],
)
def test_texts_that_are_no_json_but_that_some_versions_write(name: bytes, read: str) -> None:
    assert names(b'{"traceEvents": [{"name": "' + name + b'"}, {"name": "b"}]}') == [read, "b"]


def test_a_header_that_is_no_json_is_done_without() -> None:
    text = b'{"traceName": "C:\\Users\\me", "traceEvents": [{"name": "a"}], "displayTimeUnit": "ms"}'
    assert names(text) == ["a"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "is no trace"),
        (b'{"events": []}', "is no trace"),
        (b"\x00\x01\x02 not json", "is no trace"),
        (b'{"traceEvents": [{"name": "a"}, {"name": "b', "ends in the middle"),
        (b'{"traceEvents": [{"name": "a"}, {"name": "b", "args": {"x": 1}', "ends in the middle"),
    ],
)
def test_what_is_no_trace_is_told(text: bytes, why: str) -> None:
    with pytest.raises(UserError, match=why):
        names(text)


@pytest.mark.parametrize("rest", [{}, {"traceName": "x", "end": [1]}])
def test_a_trace_that_is_cut_anywhere_is_told(rest: dict[str, Any]) -> None:
    text = json.dumps({"traceEvents": EVENTS} | rest).encode()
    for end in range(len(text)):
        with pytest.raises(UserError, match=r"is no trace|ends in the middle"):
            names(text[:end])


def test_an_endless_event_is_refused_before_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "_LARGEST_EVENT", 1 << 16)
    text = b'{"traceEvents": [{"name": "' + b"x" * (1 << 18)
    with pytest.raises(UserError, match="is no trace: an event of more than"):
        names(text, 1 << 12)


def test_a_gzip_that_grows_as_no_trace_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_UNSUSPECTED", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (1 << 23)))
    with pytest.raises(UserError, match="unpacks to more than"):
        list(files.pieces(path))


def test_a_damaged_gzip_is_told(tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": EVENTS * 200}).encode())[:-9])
    with pytest.raises(UserError, match=r"cut\.json\.gz cannot be read"):
        list(files.pieces(path))


def test_folders_and_archives_are_looked_through(tmp_path: Path) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in (1, 0):
        Written().save(folder / f"rank{rank}.json.gz")
    (folder / "notes.txt").write_text("none of it")
    with tarfile.open(tmp_path / "ranks.tar.gz", "w:gz") as archive:
        archive.add(folder, "ranks")
    with files.found([str(folder), str(tmp_path / "ranks.tar.gz")]) as found:
        names = [one.name for one in found]
        assert names == ["rank0.json.gz", "rank1.json.gz", "ranks-rank0.json.gz", "ranks-rank1.json.gz"]
        assert all(b"".join(files.pieces(one)).startswith(b"{") for one in found)
    assert not found[2].exists()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_an_archive_that_was_cut_off_is_told(mode: str, tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(random.Random(0).randbytes(1 << 16))
    whole = tmp_path / "ranks.tar"
    with tarfile.open(whole, mode) as archive:  # type: ignore[call-overload]
        archive.add(tmp_path / "rank0.json", "rank0.json")
        archive.add(tmp_path / "rank0.json", "rank1.json")
    for num_bytes in (4096, 1 << 16, (1 << 16) + 700):
        cut = tmp_path / "cut.tar"
        cut.write_bytes(whole.read_bytes()[:num_bytes])
        with pytest.raises(UserError, match=r"cut\.tar.* cannot be read: .*Is the file complete\?"):
            read_bytes(str(cut))


def read_bytes(name: str) -> bytes:
    with files.found([name]) as found:
        return b"".join(piece for one in found for piece in files.pieces(one))


def test_an_archive_that_was_made_to_fill_a_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_UNSUSPECTED", 1 << 16)
    (tmp_path / "rank0.json").write_bytes(bytes(1 << 22))
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "rank0.json", "rank0.json")
    with pytest.raises(UserError, match=r"bomb\.tar\.gz unpacks to more than"):
        read_bytes(str(tmp_path / "bomb.tar.gz"))


def test_ranks_may_have_a_folder_each(tmp_path: Path) -> None:
    for rank in (1, 0):
        (tmp_path / f"rank{rank}").mkdir()
        Written().save(tmp_path / f"rank{rank}" / "host.pt.trace.json.gz")
    with files.found([str(tmp_path)]) as found:
        assert [one.parent.name for one in found] == ["rank0", "rank1"]


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_nothing_to_read_is_told(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such file|holds no trace"):
        read_bytes(str(tmp_path / name))


def test_a_file_that_is_damaged_in_its_midst_is_refused_at_the_first_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other end of a piece is tried, each of which would be read anew."""
    decoded, tried = parse._decoded, []

    def counted(listed: bytes, title: str, *, only_cut: bool = False) -> list[parse.Event] | None:
        tried.append(len(listed))
        return decoded(listed, title, only_cut=only_cut)

    monkeypatch.setattr(parse, "_decoded", counted)
    event = json.dumps(EVENTS[0]).encode()
    with pytest.raises(UserError, match="is damaged"):
        names(b'{"traceEvents": [' + event + b"], " + b", ".join([event] * 500) + b"]}")
    assert len(tried) == 1


KERNEL: dict[str, Any] = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "pid": 0, "tid": 7}
ODD: list[Any] = [KERNEL | odd for odd in ({"name": None}, {"ts": None}, {"dur": None}, {"dur": -1}, {"ts": 1e300})]
"""None of them has a name, a begin and an end."""


def test_odd_events_are_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    others: list[dict[str, Any]] = [{"ts": 3.5}, {"tid": "stream 7"}, {"args": {"correlation": [], "bytes": {}}}]
    path.write_text(json.dumps({"traceEvents": [KERNEL, *ODD, *(KERNEL | one for one in others)]}))
    trace = table.read(path)
    assert trace.start.tolist() == pytest.approx([0.0, 0.0, 0.0, 2.5e-6])
    assert trace.lanes == (("0", "7"),)
    assert trace.notes == (f"{len(ODD)} events without a name, a begin or an end were left out.",)


@pytest.mark.parametrize("odd", [3, KERNEL | {"ts": "soon"}, KERNEL | {"args": {"stream": {}}}, KERNEL | {"cat": []}])
def test_what_is_no_event_of_torchs_is_told(odd: object) -> None:
    with pytest.raises(UserError, match=r"an event that torch\.profiler does not write: Expected "):
        names(json.dumps({"traceEvents": [*EVENTS, odd, *EVENTS]}).encode())


def test_devices_have_the_names_that_the_driver_gives(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    boards = [{"id": 0, "name": "NVIDIA H200"}, {"id": 1, "name": ["?"]}, {"id": 2}, 3]
    path.write_text(json.dumps({"deviceProperties": boards, "traceEvents": [KERNEL]}))
    assert table.read(path).devices == {"0": "NVIDIA H200", "1": "['?']"}
