"""Processors, read from trees of files that look like those of the kernel."""

from pathlib import Path

import pytest

from hotlap.machine import cores
from hotlap.machine.cores import numbers


def core(root: Path, cpu: int, siblings: str) -> None:
    folder = root / f"sys/devices/system/cpu/cpu{cpu}"
    (folder / "topology").mkdir(parents=True)
    (folder / "topology/core_cpus_list").write_text(f"{siblings}\n")


def test_hyper_threads_of_one_core_count_once(tmp_path: Path) -> None:
    for cpu in range(4):
        core(tmp_path, cpu, f"{cpu % 2},{cpu % 2 + 2}")
    seen = cores.look(root=tmp_path, allowed=range(4))
    assert (seen.allowed, seen.physical) == (4, 2)


def test_a_core_of_which_one_half_is_allowed_is_a_core(tmp_path: Path) -> None:
    for cpu in range(4):
        core(tmp_path, cpu, f"{cpu % 2},{cpu % 2 + 2}")
    seen = cores.look(root=tmp_path, allowed=(0, 2, 3))
    assert (seen.allowed, seen.physical) == (3, 2)


def test_without_topology_cores_are_unknown(tmp_path: Path) -> None:
    seen = cores.look(root=tmp_path, allowed=range(4))
    assert (seen.physical, seen.quota) == (None, None)


def test_a_quota_is_told_apart_from_the_affinity(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("150000 100000")
    seen = cores.look(root=tmp_path, allowed=range(4))
    assert (seen.allowed, seen.quota) == (4, 1.5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-2,7", {0, 1, 2, 7}), ("3", {3}), ("", set()), (None, set()), ("a-b,1", {1}), ("0, 2\n", {0, 2})],
)
def test_the_lists_of_the_kernel(text: str | None, expected: set[int]) -> None:
    assert numbers(text) == expected
