"""What is said of machines that nobody has; each complaint has a machine beside it that gives no reason for it."""

from dataclasses import replace

import pytest

from hotlap.machine import checks
from hotlap.machine.facts import Clocks, Facts
from hotlap.record import Complaint, Driver, TorchBuild, Weight
from tests.unit.machine.made_up import (
    CARD,
    GIB,
    H200,
    HEALTHY,
    MACHINE,
    WITH_GPU,
    with_card,
    with_cores,
    with_torch,
)

CPU_BUILD = TorchBuild(version="2.8.0+cpu")
SHARED_BY_TWO = with_card(processes=(4711,), used_bytes=20 * GIB, utilisation=0.5)


def found(facts: Facts) -> dict[str, Complaint]:
    return {complaint.code: complaint for complaint in checks.complaints(facts)}


@pytest.mark.parametrize("facts", [HEALTHY, WITH_GPU])
def test_nothing_is_said_of_a_healthy_machine(facts: Facts) -> None:
    assert found(facts) == {}


def test_nothing_is_said_where_nothing_could_be_read() -> None:
    unknown = replace(MACHINE, physical_cores=None, shm_bytes=None, huge_pages=None, libc="")
    assert found(Facts(machine=unknown, allowed=16)) == {}


SICK: dict[str, list[Facts]] = {
    "cpu-torch-beside-gpu": [
        replace(WITH_GPU, torch=CPU_BUILD),
        replace(HEALTHY, nvidia_cards=1),
        replace(HEALTHY, nvidia_nodes=True),
    ],
    "driver-too-old": [
        replace(with_torch(devices=()), driver=Driver(version="470.82.01", gpus=(CARD,))),
        with_torch(cuda="13.0", devices=()),
    ],
    "gpu-not-reached": [
        replace(with_torch(devices=()), environment={"CUDA_VISIBLE_DEVICES": ""}),
        replace(with_torch(devices=()), container=True, nvidia_nodes=False),
        replace(with_torch(devices=()), driver=None),
        with_torch(devices=()),
    ],
    "gpu-not-in-build": [
        with_torch(arch_list=("sm_70", "sm_80")),
        with_torch(arch_list=("sm_80", "compute_80")),
        with_torch(devices=(replace(H200, capability=(6, 1)),)),
        with_torch(devices=(H200, replace(H200, capability=(12, 1))), arch_list=("sm_90", "sm_120a")),
    ],
    "gpu-shared": [SHARED_BY_TWO, with_card(used_bytes=20 * GIB, utilisation=0.5)],
    "slowed-down": [
        with_card(slowdowns=("sw_thermal_slowdown",)),
        with_card(slowdowns=("hw_power_brake_slowdown",)),
        with_card(slowdowns=("hw_thermal_slowdown", "hw_slowdown")),
    ],
    "cpu-quota": [with_cores(quota=2.0), with_cores(quota=0.5)],
    "few-threads": [
        replace(HEALTHY, environment={"OMP_NUM_THREADS": "1"}),
        replace(HEALTHY, environment={"MKL_NUM_THREADS": "2"}),
        replace(HEALTHY, environment={"OMP_NUM_THREADS": "4,2"}),
    ],
    "many-threads": [
        replace(HEALTHY, environment={"OMP_NUM_THREADS": "64"}),
        replace(with_cores(quota=2.0), environment={"OMP_NUM_THREADS": "8"}),
    ],
    "busy-machine": [replace(HEALTHY, load=5.0), replace(HEALTHY, load=40.0)],
    "slow-clocks": [
        replace(HEALTHY, clocks=Clocks(governor="powersave", driver="acpi-cpufreq")),
        replace(HEALTHY, clocks=Clocks(governor="powersave", driver="intel_pstate", preference="power")),
    ],
    "memory-limit": [replace(HEALTHY, memory_limit_bytes=4 * GIB)],
    "memory-short": [replace(HEALTHY, machine=replace(MACHINE, available_bytes=GIB))],
    "small-shm": [replace(HEALTHY, shm_bytes=64 << 20)],
}
CASES = [(code, facts) for code, machines in SICK.items() for facts in machines]


@pytest.mark.parametrize(("code", "facts"), CASES, ids=[f"{code}-{k}" for k, (code, _) in enumerate(CASES)])
def test_what_is_wrong_is_said_with_its_cost_and_its_remedy(code: str, facts: Facts) -> None:
    complaint = found(facts)[code]
    for sentence in (complaint.what, complaint.cost, complaint.fix):
        assert len(sentence) > 20 and "None" not in sentence and "  " not in sentence
    assert complaint.what.endswith((".", ")"))
    assert complaint.cost.endswith((".", ")"))


def test_each_part_of_a_machine_is_checked_under_codes_of_its_own() -> None:
    codes = [{one.code for facts in [f for _, f in CASES] for one in check(facts)} for check in checks.ALL]
    assert set.union(*codes) == set(SICK)
    assert sum(map(len, codes)) == len(SICK)


def test_what_several_gpus_have_in_common_is_said_once_with_the_places() -> None:
    hot = replace(CARD, slowdowns=("sw_thermal_slowdown",))
    facts = replace(WITH_GPU, driver=Driver(version="575.57.08", gpus=(hot, CARD, hot)))
    assert found(facts)["slowed-down"].about == "GPU 0, GPU 2"


def test_the_weightiest_comes_first() -> None:
    facts = replace(WITH_GPU, torch=CPU_BUILD, load=5.0, shm_bytes=1 << 20)
    weights = [complaint.weight for complaint in checks.complaints(facts)]
    assert weights == sorted(weights, key=list(Weight).index)
    assert weights[0] is Weight.BROKEN


def test_a_driver_that_is_too_old_is_told_from_a_gpu_that_is_hidden() -> None:
    old = with_torch(cuda="13.0", devices=())
    assert "gpu-not-reached" not in found(old)
    assert "580" in found(old)["driver-too-old"].fix
    assert "CUDA 12.x" in found(old)["driver-too-old"].fix
    hidden = replace(with_torch(devices=()), environment={"CUDA_VISIBLE_DEVICES": "-1"})
    assert "CUDA_VISIBLE_DEVICES" in found(hidden)["gpu-not-reached"].what


def test_a_compatibility_package_that_works_is_not_complained_about() -> None:
    assert "driver-too-old" not in found(with_torch(cuda="13.0"))


def test_an_old_card_is_told_apart_from_one_that_is_too_new() -> None:
    ptx = found(with_torch(arch_list=("sm_80", "compute_80")))["gpu-not-in-build"]
    none = found(with_torch(arch_list=("sm_70",)))["gpu-not-in-build"]
    assert ptx.weight is Weight.MINOR
    assert none.weight is Weight.BROKEN
    assert "sm_90" in none.fix


def test_a_quota_that_torch_keeps_to_is_only_worth_a_word() -> None:
    torch = replace(CPU_BUILD, num_threads=2)
    assert found(replace(with_cores(quota=2.0), torch=torch))["cpu-quota"].weight is Weight.MINOR
    assert found(with_cores(quota=2.0))["cpu-quota"].weight is Weight.COSTLY


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"used_bytes": 20 * GIB, "utilisation": 0.0}, "memory that an ended kernel left is nobody's work"),
    ],
)
def test_what_is_normal_is_not_complained_about(changes: dict[str, object], reason: str) -> None:
    assert found(with_card(**changes)) == {}, reason


def test_the_powersave_of_a_driver_that_chooses_itself_is_its_normal_state() -> None:
    clocks = Clocks(governor="powersave", driver="intel_pstate", preference="balance_performance")
    assert found(replace(HEALTHY, clocks=clocks)) == {}
