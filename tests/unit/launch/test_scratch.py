"""Where trials leave what they write: outside of the user's folders, with room, and nothing of it stays."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.launch import scratch
from hotlap.launch.reaper import delete
from hotlap.launch.scratch import Scratch


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three folders that a scratch may lie in, in this order."""
    found = [tmp_path / name for name in ("first", "second", "third")]
    for place in found:
        place.mkdir()
    monkeypatch.setattr(scratch, "_candidates", lambda: iter(found))
    return found


def where() -> str:
    held = Scratch(())
    held.close()
    return held.folder.parent.name


def test_it_lies_outside_of_the_users_folders(places: list[Path]) -> None:
    held = Scratch((str(places[0].resolve()),))
    assert held.folder.parent == places[1].resolve()
    held.close()
    assert not any(list(place.iterdir()) for place in places)


def test_a_disk_goes_before_memory_and_memory_before_what_layers_cannot_lie_on(
    places: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {"first": "overlay", "second": "tmpfs", "third": "ext4"}
    monkeypatch.setattr(scratch, "file_system", lambda folder: kinds[folder.name])
    monkeypatch.setattr(scratch, "lies_in_memory", lambda folder: kinds[folder.name] == "tmpfs")
    assert where() == "third"
    kinds["third"] = "nfs4"
    assert where() == "second"
    kinds["second"] = "fuse.sshfs"
    assert where() == "first"


def test_a_folder_that_the_user_named_goes_before_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "lies_in_memory", lambda folder: True)
    held = Scratch(())
    held.close()
    assert held.folder.parent == tmp_path.resolve()


def test_without_room_it_says_what_there_is_and_what_to_do(places: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "room_bytes", lambda folder: 3 << 20)
    places[2].rmdir()
    places[2].write_text("a file")
    with pytest.raises(UserError, match=r"first has only 3\.00 MiB left, .*third cannot be written.*TMPDIR"):
        Scratch((str(places[1].resolve()),))


def test_room_that_runs_out_ends_the_trial(places: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    held = Scratch(())
    (held.folder / "checkpoint").write_bytes(bytes(1 << 20))
    held.check(now=True)
    monkeypatch.setattr(scratch, "room_bytes", lambda folder: 1 << 20)
    held.check()  # looked a moment ago
    with pytest.raises(UserError, match=r"wrote in its trial leaves only 1\.00 MiB in .*first"):
        held.check(now=True)
    held.close()


def test_what_a_killed_process_left_is_removed_by_the_next_and_a_living_ones_is_not(places: list[Path]) -> None:
    living = Scratch(())
    child = os.fork()
    if child == 0:
        (Scratch(()).folder / "checkpoint").write_text("large")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list(places[0].iterdir())) == 2
    others = places[1] / "hotlap-somebody-elses"  # without a lock of ours
    others.mkdir()
    (places[0] / "hotlap-link").symlink_to(others)
    held = Scratch(())
    assert set(places[0].iterdir()) == {living.folder, held.folder, places[0] / "hotlap-link"}
    assert others.is_dir()
    held.close()
    living.close()


def test_a_folder_of_the_users_stays_whatever_it_is_called_and_holds(places: list[Path]) -> None:
    living = Scratch(())
    locks = {"results": b"", "study": b"4711", "copy": (living.folder / "lock").read_bytes(), "binary": b"\xff" * 99}
    for name, text in locks.items():
        (places[0] / f"hotlap-{name}").mkdir()
        (places[0] / f"hotlap-{name}" / "results.csv").touch()
        (places[0] / f"hotlap-{name}" / "lock").write_bytes(text)
    (places[0] / "hotlap-waits").mkdir()
    os.mkfifo(places[0] / "hotlap-waits" / "lock")
    Scratch(()).close()
    assert len(list(places[0].glob("hotlap-*/results.csv"))) == len(locks)
    living.close()


def test_a_folder_goes_whatever_rights_its_parts_have_and_links_lead_nowhere(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o500)
    closed = tmp_path / "scratch" / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner" / "file").write_text("x")
    (closed / "link").symlink_to(precious)
    (closed / "inner").chmod(0)
    closed.chmod(0o500)
    delete(tmp_path / "scratch")
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert precious.stat().st_mode & 0o777 == 0o500
