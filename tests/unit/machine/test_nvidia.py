"""What is read of a driver through NVML: a stand-in answers here, with the names and numbers of NVIDIA's bindings."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.machine import nvidia
from hotlap.record import Gpu


class UnknownError(Exception):
    """As NVML says that a card or a driver does not know."""


def unknown(*_: object) -> Any:
    raise UnknownError("Not Supported")


KNOWN: dict[str, object] = {
    "Name": "NVIDIA GeForce RTX 4090",
    "UUID": "GPU-12345678",
    "MemoryInfo": SimpleNamespace(total=24 << 30, used=1 << 30),
    "UtilizationRates": SimpleNamespace(gpu=37, memory=4),
    "ComputeRunningProcesses": [SimpleNamespace(pid=12), SimpleNamespace(pid=13)],
    # Idle, at its power cap, too hot.
    "CurrentClocksEventReasons": 0x1 | 0x4 | 0x40,
}


def about(answer: object) -> Any:
    return lambda _handle: answer


def bindings(known: dict[str, object], **others: Any) -> Any:
    """A module as pynvml is; `known`: nvmlDeviceGet... -> its answer."""
    usual = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "550.54.15",
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda number: number if number == 0 else unknown(),
    }
    usual |= {f"nvmlDeviceGet{name}": about(answer) for name, answer in known.items()}
    return SimpleNamespace(**{**usual, **others})


def answering(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)


def test_all_that_a_check_needs_is_read_and_a_gpu_that_does_not_answer_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, bindings(KNOWN))
    driver = nvidia.ask()
    assert driver is not None and driver.version == "550.54.15"
    (gpu,) = driver.gpus
    assert gpu == Gpu(
        name="NVIDIA GeForce RTX 4090",
        slowdowns=("hw_thermal_slowdown",),
        used_bytes=1 << 30,
        utilisation=0.37,
        processes=(12, 13),
    )


def test_what_an_old_driver_calls_otherwise_or_does_not_know_is_read_or_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = {"Name": "Tesla V100-SXM2-16GB", "UUID": "GPU-1", "CurrentClocksThrottleReasons": 0x8}
    module = bindings(old, nvmlDeviceGetMemoryInfo=unknown)
    answering(monkeypatch, module)
    driver = nvidia.ask()
    assert driver is not None
    assert driver.gpus == (Gpu(name="Tesla V100-SXM2-16GB", slowdowns=("hw_slowdown",)),)


@pytest.mark.parametrize(
    "module",
    [None, bindings({}, nvmlInit=unknown), bindings({}, nvmlSystemGetDriverVersion=unknown), SimpleNamespace()],
    ids=["not installed", "no driver", "a driver that says nothing", "another module of that name"],
)
def test_without_an_answer_there_is_no_driver(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    answering(monkeypatch, module)
    assert nvidia.ask() is None


def test_numbers_and_names_are_those_of_nvidias_bindings() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    for name, bit in nvidia.SLOWDOWNS.items():
        words = "".join(word.capitalize() for word in name.split("_"))
        assert getattr(pynvml, f"nvmlClocksThrottleReason{words}") == bit
    for name in (*KNOWN, "Count", "HandleByIndex"):
        assert hasattr(pynvml, f"nvmlDeviceGet{name}"), name
