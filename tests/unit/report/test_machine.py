"""A checkup as text."""

from dataclasses import replace

import pytest

from hotlap.record import (
    Checkup,
    Complaint,
    Figure,
    Interval,
    Machine,
    TorchBuild,
    TorchDevice,
    Unit,
    Weight,
)
from hotlap.report import machine
from hotlap.report.terminal import WIDTH, plain

FIGURE = Figure(
    name="matmul",
    device="cpu",
    variant="float32",
    unit=Unit.FLOP_PER_S,
    value=Interval(low=98e9, mid=100e9, high=102e9),
    spread=0.01,
    threads=8,
)
COMPLAINT = Complaint(
    code="small-shm",
    weight=Weight.COSTLY,
    what="It is small.",
    cost="Workers die.",
    fix="Make it larger.",
    about="GPU 1",
)
CHECKUP = Checkup(
    machine=Machine(
        system="Linux",
        processor="A processor",
        num_cores=16,
        usable_cores=16.0,
        physical_cores=10,
        memory_bytes=64 << 30,
        available_bytes=48 << 30,
        shm_bytes=None,
        huge_pages=None,
        libc="",
        gpus=("NVIDIA H200",),
    ),
    created="2026-01-01T00:00:00+00:00",
    torch=TorchBuild(
        version="2.8.0",
        cuda="12.9",
        num_threads=10,
        devices=(TorchDevice(name="NVIDIA H200", capability=(9, 0)),),
    ),
    figures=(FIGURE, replace(FIGURE, device="cuda:0", threads=None, value=Interval(low=6e14, mid=7e14, high=8e14))),
    complaints=(COMPLAINT,),
    notes=("Repeats lie 1% apart.",),
    elapsed_s=9.0,
)


def rendered(checkup: Checkup) -> str:
    return plain(machine.sections(checkup))


def test_everything_that_is_known_is_shown() -> None:
    shown = rendered(CHECKUP)
    for part in (
        "A processor",
        "10 cores",
        "NVIDIA H200",
        "CUDA 12.9",
        "100 GFLOP/s",
        "98 to 102 GFLOP/s",
        "cuda:0: NVIDIA H200",
        "700 TFLOP/s",
        "small-shm                  It is small. Workers die.",
        "costly, GPU 1              Fix: Make it larger.",
        "Fix: Make it larger.",
        "Repeats lie 1% apart.",
        "2026-01-01",
    ):
        assert part in shown, part
    assert all(len(line) <= WIDTH for line in shown.splitlines())


def test_a_machine_without_fault_and_figures_is_shown_too() -> None:
    shown = rendered(replace(CHECKUP, figures=(), complaints=(), torch=None))
    assert "Nothing is wrong with it" in shown


def test_what_a_file_says_cannot_steer_the_terminal() -> None:
    evil = "\x1b[31mred\x1b]0;title\x07 [bold]x"
    shown = rendered(
        replace(
            CHECKUP,
            machine=replace(CHECKUP.machine, processor=evil, gpus=(evil,)),
            figures=(replace(FIGURE, name=evil, variant=evil, device=evil),),
            complaints=(replace(COMPLAINT, code=evil, what=evil, cost=evil, fix=evil, about=evil),),
            notes=(evil,),
        )
    )
    assert "\x1b" not in shown and "\x07" not in shown
    assert "[bold]x" in shown


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (3.12e11, Unit.FLOP_PER_S, "312 GFLOP/s"),
        (9.89e14, Unit.FLOP_PER_S, "989 TFLOP/s"),
        (1.04e10, Unit.BYTE_PER_S, "10.4 GB/s"),
        (12.0, Unit.BYTE_PER_S, "12 B/s"),
        (2.3e-6, Unit.SECOND, "2.30 us"),
    ],
)
def test_quantities_carry_the_unit_that_fits(value: float, unit: Unit, shown: str) -> None:
    assert machine.quantity(value, unit) == shown
