"""Where folders lie: kinds of file systems, room, and the cache folder of users with and without a home."""

import os
from pathlib import Path

import pytest

from hotlap.folders import cache_folder, file_system, lies_in_memory, room_bytes

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:5 / /dev rw - devtmpfs udev rw
25 22 0:26 / /tmp rw,nosuid shared:1 - tmpfs tmpfs rw
26 25 254:1 / /tmp/disk rw - xfs /dev/vdb rw
27 22 0:30 / /mnt/my\\040memory rw - tmpfs tmpfs rw
28 22 0:31 / /mnt/über\\012\\134 rw - tmpfs tmpfs rw
29 28 0:32 / /mnt/über\\012\\134 rw - btrfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("folder", "in_memory"),
    [
        ("/tmp/a/b", True), ("/tmp/disk/a", False), ("/home/me/.cache", False), ("/tmpfile", False),
        ("/dev/shm/x", True), ("/mnt/my memory/x", True),
    ],
)  # fmt: skip
def test_a_folder_in_memory_is_told_from_one_on_disk(folder: str, in_memory: bool, tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert lies_in_memory(Path(folder), mounts=tmp_path / "mountinfo") is in_memory


def test_of_two_file_systems_at_one_place_the_later_one_holds_the_files(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert file_system(Path("/mnt/über\n\\/x"), mounts=tmp_path / "mountinfo") == "btrfs"


def test_where_nobody_can_tell_a_folder_is_on_disk(tmp_path: Path) -> None:
    assert not lies_in_memory(tmp_path, mounts=tmp_path / "none")


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
