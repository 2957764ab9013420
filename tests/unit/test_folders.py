"""Where folders lie: kinds of file systems, room, and the cache folder of users with and without a home."""

import os
from pathlib import Path

import pytest

from hotlap import folders
from hotlap.folders import cache_folder, file_system, lies_in_memory, room_bytes

MOUNTS = """\
/dev/vda / ext4 rw,relatime 0 0
udev /dev devtmpfs rw 0 0
tmpfs /tmp tmpfs rw,nosuid 0 0
/dev/vdb /tmp/disk xfs rw 0 0
tmpfs /mnt/my\\040memory tmpfs rw 0 0
tmpfs /mnt/über\\012\\134 tmpfs rw 0 0
tmpfs /mnt/über\\012\\134 btrfs rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As /proc shows them."""
    monkeypatch.setattr(folders, "MOUNTS", tmp_path / "mounts")
    folders.MOUNTS.write_text(MOUNTS)
    return folders.MOUNTS


@pytest.mark.parametrize(
    ("folder", "in_memory"),
    [
        ("/tmp/a/b", True), ("/tmp/disk/a", False), ("/home/me/.cache", False), ("/tmpfile", False),
        ("/dev/shm/x", True), ("/mnt/my memory/x", True),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("mounts")
def test_a_folder_in_memory_is_told_from_one_on_disk(folder: str, in_memory: bool) -> None:
    assert lies_in_memory(Path(folder)) is in_memory


@pytest.mark.usefixtures("mounts")
def test_of_two_file_systems_at_one_place_the_later_one_holds_the_files() -> None:
    assert file_system(Path("/mnt/über\n\\/x")) == "btrfs"


def test_where_nobody_can_tell_a_folder_is_on_disk(mounts: Path, tmp_path: Path) -> None:
    mounts.unlink()
    assert not lies_in_memory(tmp_path)


def test_a_folder_that_is_not_there_yet_has_the_room_of_the_one_above_it(tmp_path: Path) -> None:
    assert room_bytes(tmp_path / "a" / "b") > 0
    assert room_bytes(Path("/proc/none")) == 0


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_a_cache_home_that_is_not_absolute_counts_as_not_set(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cache_folder() == Path.home() / ".cache/hotlap"


def test_the_cache_home_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "hotlap"


def test_a_user_without_a_home_has_a_cache_folder_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)  # nobody's
    assert not cache_folder().exists()
