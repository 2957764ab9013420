"""What is read of a machine, from trees of files that look like one."""

import shutil
import sysconfig
from collections.abc import Collection
from pathlib import Path

import psutil
import pytest

from hotlap import machine
from hotlap.record import Machine

GIB = 1 << 30


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_an_empty_tree_leaves_unknown_what_only_files_could_say(root: Path) -> None:
    seen = machine.look(root=root)
    assert isinstance(seen, Machine)
    assert seen.huge_pages is None
    assert seen.shm_bytes is None
    assert seen.cpu_flags == ()
    assert seen.num_cores >= 1
    assert 0 < seen.usable_cores <= seen.num_cores


def test_the_processor_and_the_flags_that_matter_are_read(root: Path) -> None:
    write(
        root,
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8481C\n"
        "flags\t\t: fpu avx2 fma amx_bf16 avx512_bf16\n\n"
        "processor\t: 1\nmodel name\t: another\nflags\t\t: avx512f\n",
    )
    seen = machine.look(root=root)
    assert seen.processor == "Intel(R) Xeon(R) Platinum 8481C"
    assert set(seen.cpu_flags) == {"avx2", "fma", "amx_bf16", "avx512_bf16"}


def test_arm_calls_its_flags_features(root: Path) -> None:
    write(root, "proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd bf16 sve\n")
    assert set(machine.look(root=root).cpu_flags) == {"bf16", "sve"}


@pytest.mark.parametrize("chosen", ["always", "madvise", "never"])
def test_the_state_of_huge_pages_stands_in_brackets(root: Path, chosen: str) -> None:
    words = [f"[{word}]" if word == chosen else word for word in ("always", "madvise", "never")]
    write(root, "sys/kernel/mm/transparent_hugepage/enabled", " ".join(words) + "\n")
    assert machine.look(root=root).huge_pages == chosen


@pytest.mark.parametrize("text", ["", "always madvise never", "]madvise["])
def test_without_brackets_it_is_unknown(root: Path, text: str) -> None:
    write(root, "sys/kernel/mm/transparent_hugepage/enabled", text)
    assert machine.look(root=root).huge_pages is None


@pytest.mark.parametrize(("name", "text"), [("cpu.max", "50000 100000\n"), ("cpu/cpu.cfs_quota_us", "50000\n")])
def test_a_quota_of_half_a_core_is_seen_in_either_version(root: Path, name: str, text: str) -> None:
    write(root, f"sys/fs/cgroup/{name}", text)
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert machine.look(root=root).usable_cores == 0.5


@pytest.mark.parametrize(
    ("name", "text"), [("cpu.max", "max 100000\n"), ("cpu/cpu.cfs_quota_us", "-1\n"), ("cpu.max", "")]
)
def test_no_quota_leaves_all_cores(root: Path, name: str, text: str) -> None:
    unlimited = machine.look(root=root).usable_cores
    write(root, f"sys/fs/cgroup/{name}", text)
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert machine.look(root=root).usable_cores == unlimited


def test_what_the_cgroup_leaves_is_what_is_available(root: Path) -> None:
    write(root, "sys/fs/cgroup/memory.max", f"{64 << 20}\n")
    write(root, "sys/fs/cgroup/memory.current", f"{16 << 20}\n")
    assert machine.look(root=root).available_bytes == 48 << 20


def test_a_limit_above_the_memory_does_not_add_any(root: Path) -> None:
    write(root, "sys/fs/cgroup/memory.max", str(1 << 60))
    write(root, "sys/fs/cgroup/memory.current", "0")
    assert machine.look(root=root).available_bytes <= psutil.virtual_memory().total


def test_shared_memory_is_what_is_free_in_it(root: Path) -> None:
    (root / "dev/shm").mkdir(parents=True)
    seen = machine.look(root=root).shm_bytes
    assert seen is not None and seen > 0


def test_a_file_that_is_not_text_is_as_good_as_none(root: Path) -> None:
    path = root / "proc/cpuinfo"
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe model name: x\n")
    assert machine.look(root=root).cpu_flags == ()


def test_a_compiler_counts_only_with_pythons_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.delenv("CXX", raising=False)
    assert machine.look().compiler is None
    (tmp_path / "Python.h").touch()
    assert machine.look().compiler == "/usr/bin/g++"
    monkeypatch.setenv("CXX", "clang++-18")
    assert machine.look().compiler == "/usr/bin/clang++-18"


def write_core(root: Path, cpu: int, siblings: str) -> None:
    write(root, f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", f"{siblings}\n")


@pytest.mark.parametrize("allowed", [range(4), (0, 2, 3)])
def test_hyper_threads_of_one_core_count_once_and_half_a_core_is_one(root: Path, allowed: Collection[int]) -> None:
    for cpu in range(4):
        write_core(root, cpu, f"{cpu % 2},{cpu % 2 + 2}")
    seen = machine.look(root=root, allowed=allowed)
    assert (seen.usable_cores, seen.physical_cores) == (len(allowed), 2)


def test_without_topology_cores_are_unknown(root: Path) -> None:
    write_core(root, 0, "0")
    assert machine.look(root=root, allowed=range(4)).physical_cores is None


def test_a_quota_is_less_than_the_affinity_leaves(root: Path) -> None:
    write(root, "sys/fs/cgroup/cpu.max", "150000 100000")
    assert machine.look(root=root, allowed=range(4)).usable_cores == 1.5
