"""What is read of a system, from trees of files that look like one."""

from pathlib import Path

from hotlap.machine.facts import Facts, gather

GIB = 1 << 30


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def seen(root: Path, **environment: str) -> Facts:
    return gather(root=root, environment=environment)


def test_a_card_on_the_bus_is_seen_without_any_driver(tmp_path: Path) -> None:
    write(tmp_path, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
    write(tmp_path, "sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")
    write(tmp_path, "sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n")
    write(tmp_path, "sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n")  # its sound
    write(tmp_path, "sys/bus/pci/devices/0000:02:00.0/vendor", "0x8086\n")
    write(tmp_path, "sys/bus/pci/devices/0000:02:00.0/class", "0x030000\n")
    assert seen(tmp_path).nvidia_cards == 1


def test_the_governor_of_the_clocks_is_read_with_its_driver(tmp_path: Path) -> None:
    cpus = "sys/devices/system/cpu"
    write(tmp_path, f"{cpus}/cpu0/cpufreq/scaling_governor", "powersave\n")
    write(tmp_path, f"{cpus}/cpu0/cpufreq/scaling_driver", "intel_pstate\n")
    clocks = seen(tmp_path).clocks
    assert (clocks.governor, clocks.driver, clocks.preference) == ("powersave", "intel_pstate", None)


def test_only_variables_that_matter_are_kept(tmp_path: Path) -> None:
    facts = seen(tmp_path, OMP_NUM_THREADS="1", SECRET="x")
    assert facts.environment == {"OMP_NUM_THREADS": "1"}


def test_the_limit_of_memory_is_told_used_or_not(tmp_path: Path) -> None:
    assert seen(tmp_path).memory_limit_bytes is None
    write(tmp_path, "sys/fs/cgroup/memory.max", str(4 * GIB))
    write(tmp_path, "sys/fs/cgroup/memory.current", str(GIB))
    assert seen(tmp_path).memory_limit_bytes == 4 * GIB


def test_a_container_is_known_by_its_marks(tmp_path: Path) -> None:
    assert not seen(tmp_path).container
    assert seen(tmp_path, KUBERNETES_SERVICE_HOST="10.0.0.1").container
    write(tmp_path, ".dockerenv", "")
    assert seen(tmp_path).container


def test_this_machine_can_be_read() -> None:
    facts = gather()
    machine = facts.machine
    assert machine.system and machine.processor
    assert machine.memory_bytes >= machine.available_bytes > 0
    assert 1 <= facts.allowed <= machine.num_cores
    assert machine.physical_cores is None or 1 <= machine.physical_cores <= facts.allowed
