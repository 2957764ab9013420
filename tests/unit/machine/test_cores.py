"""Processors, read from trees of files that look like those of the kernel."""

from pathlib import Path

import pytest

from hotlap.machine import cores
from hotlap.machine.files import in_brackets, numbers


def core(root: Path, cpu: int, siblings: str, *, khz: int | None = None) -> None:
    folder = root / f"sys/devices/system/cpu/cpu{cpu}"
    (folder / "topology").mkdir(parents=True)
    (folder / "topology/core_cpus_list").write_text(f"{siblings}\n")
    if khz is not None:
        (folder / "cpufreq").mkdir()
        (folder / "cpufreq/cpuinfo_max_freq").write_text(f"{khz}\n")


def test_hyper_threads_of_one_core_count_once(tmp_path: Path) -> None:
    for cpu in range(4):
        core(tmp_path, cpu, f"{cpu % 2},{cpu % 2 + 2}")
    seen = cores.look(root=tmp_path, allowed=range(4))
    assert (seen.allowed, seen.physical, seen.fast) == (4, 2, 2)


def test_a_core_of_which_one_half_is_allowed_is_a_core(tmp_path: Path) -> None:
    for cpu in range(4):
        core(tmp_path, cpu, f"{cpu % 2},{cpu % 2 + 2}")
    seen = cores.look(root=tmp_path, allowed=(0, 2, 3))
    assert (seen.allowed, seen.physical) == (3, 2)


def test_an_i5_of_the_12th_generation_has_six_fast_cores_and_four_slow_ones(tmp_path: Path) -> None:
    for cpu in range(12):
        core(tmp_path, cpu, f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}", khz=4_900_000)
    for cpu in range(12, 16):
        core(tmp_path, cpu, str(cpu), khz=3_600_000)
    seen = cores.look(root=tmp_path, allowed=range(16))
    assert (seen.physical, seen.fast) == (10, 6)


def test_favoured_cores_of_one_kind_are_no_kind_of_their_own(tmp_path: Path) -> None:
    for cpu, khz in enumerate((5_000_000, 4_700_000, 4_700_000, 5_000_000)):
        core(tmp_path, cpu, str(cpu), khz=khz)
    assert cores.look(root=tmp_path, allowed=range(4)).fast == 4


def test_where_clocks_are_hidden_the_list_of_efficiency_cores_decides(tmp_path: Path) -> None:
    for cpu in range(4):
        core(tmp_path, cpu, str(cpu))
    (tmp_path / "sys/devices/cpu_atom").mkdir()
    (tmp_path / "sys/devices/cpu_atom/cpus").write_text("2-3\n")
    assert cores.look(root=tmp_path, allowed=range(4)).fast == 2


def test_without_topology_cores_are_unknown(tmp_path: Path) -> None:
    seen = cores.look(root=tmp_path, allowed=range(4))
    assert (seen.physical, seen.fast, seen.quota) == (None, None, None)


def test_a_quota_is_told_apart_from_the_affinity(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("150000 100000")
    seen = cores.look(root=tmp_path, allowed=range(4))
    assert (seen.allowed, seen.quota) == (4, 1.5)


def test_this_machine_is_seen() -> None:
    seen = cores.look()
    assert 1 <= seen.allowed <= seen.logical
    assert seen.physical is None or 1 <= (seen.fast or 1) <= seen.physical <= seen.allowed


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-2,7", {0, 1, 2, 7}), ("3", {3}), ("", set()), (None, set()), ("a-b,1", {1}), ("0, 2\n", {0, 2})],
)
def test_the_lists_of_the_kernel(text: str | None, expected: set[int]) -> None:
    assert numbers(text) == expected


def test_the_word_in_brackets() -> None:
    assert in_brackets("always [madvise] never") == "madvise"
    assert in_brackets("always madvise") is None
    assert in_brackets(None) is None
