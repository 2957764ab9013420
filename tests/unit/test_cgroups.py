"""What the control groups leave to this process, from trees of files that look like them."""

from pathlib import Path

import psutil

from hotlap.cgroups import available_bytes, cpu_quota, memory_left_bytes


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_a_cgroup_nothing_is_limited(tmp_path: Path) -> None:
    assert memory_left_bytes(root=tmp_path, own=tmp_path / "none") is None
    assert cpu_quota(root=tmp_path, own=tmp_path / "none") == float("inf")


def test_what_is_available_is_never_more_than_the_machine_has() -> None:
    assert 0 < available_bytes() <= psutil.virtual_memory().total


def test_the_tightest_quota_of_all_parent_groups_counts(tmp_path: Path) -> None:
    own = write(tmp_path / "cgroup", "0::/jobs/mine\n3:cpu,cpuacct:/a\n")
    root = tmp_path / "fs"
    write(root / "jobs/mine/cpu.max", "400000 100000\n")
    write(root / "jobs/cpu.max", "150000 100000\n")
    write(root / "cpu/a/cpu.cfs_quota_us", "-1\n")
    assert cpu_quota(root=root, own=own) == 1.5


def test_the_tightest_of_all_parent_groups_counts(tmp_path: Path) -> None:
    own = write(tmp_path / "cgroup", "0::/jobs/mine\n")
    root = tmp_path / "fs"
    write(root / "jobs/mine/memory.max", "max\n")
    write(root / "jobs/mine/memory.current", "600\n")
    write(root / "jobs/memory.max", "1000\n")
    write(root / "jobs/memory.current", "700\n")
    write(root / "jobs/memory.stat", "anon 500\ninactive_file 50\n")
    assert memory_left_bytes(root=root, own=own) == 350


def test_version_1_is_read_too(tmp_path: Path) -> None:
    own = write(tmp_path / "cgroup", "5:cpu:/x\n4:memory:/docker/abc\n")
    write(tmp_path / "memory/memory.limit_in_bytes", "5000\n")
    write(tmp_path / "memory/memory.usage_in_bytes", "1000\n")
    write(tmp_path / "memory/memory.stat", "total_inactive_file 200\n")
    assert memory_left_bytes(root=tmp_path, own=own) == 4200


def test_a_group_without_a_limit_limits_nothing(tmp_path: Path) -> None:
    own = write(tmp_path / "cgroup", "4:memory:/\n")
    write(tmp_path / "memory/memory.limit_in_bytes", "9223372036854771712\n")
    write(tmp_path / "memory/memory.usage_in_bytes", "1000\n")
    assert memory_left_bytes(root=tmp_path, own=own) is None


def test_a_group_over_its_limit_leaves_nothing(tmp_path: Path) -> None:
    own = write(tmp_path / "cgroup", "0::/\n")
    write(tmp_path / "memory.max", "1000\n")
    write(tmp_path / "memory.current", "1500\n")
    assert memory_left_bytes(root=tmp_path, own=own) == 0
