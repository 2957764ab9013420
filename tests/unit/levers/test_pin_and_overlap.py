"""pin-and-overlap: when it applies, and what is written at loaders and copies."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotlap.levers.pin_and_overlap import PinAndOverlap
from hotlap.record import Phase, Run
from hotlap.source import patch
from tests.conformance.recorded import run_of
from tests.sample_runs import loader, machine, run_with

LOADER = "loader = DataLoader(data, 64)"


def run_on_gpu(folder: Path, copies: str, *, line: str = LOADER, **facts: Any) -> Run:
    """Of a script whose loop copies like that."""
    path = folder / "train.py"
    path.write_text(f"from torch.utils.data import DataLoader\n{line}\nfor x, y in loader:\n    {copies}\n")
    recorded = run_of(path)
    return replace(
        run_with(phases={Phase.TRANSFER: 0.001, Phase.FORWARD: 0.002}),
        device="NVIDIA H200",
        loaders=(replace(loader(), **facts),),
        call_sites=recorded.call_sites,
        sources=recorded.sources,
    )


def after(run: Run) -> list[str]:
    """The lines of the loader and of the copies, after the patch."""
    (path,) = run.sources
    lines = patch(PinAndOverlap().edits(run), root=Path(path).parent).texts.get(path, Path(path).read_text())
    return [line.strip() for line in lines.splitlines()[1:] if not line.startswith("for")]


PINNED = "loader = DataLoader(data, 64, pin_memory=True)"


@pytest.mark.parametrize(
    ("copies", "new"),
    [
        ("f(x.to(device), y.to(device))", "f(x.to(device, non_blocking=True), y.to(device, non_blocking=True))"),
        ("x = x.cuda()", "x = x.cuda(non_blocking=True)"),
        ("x = x.to(device=args.device)", "x = x.to(device=args.device, non_blocking=True)"),
        ("x = x.to(device, non_blocking=False)", "x = x.to(device, non_blocking=True)"),
        ("loss = f(x.to(device)).to('cpu')", "loss = f(x.to(device, non_blocking=True)).to('cpu')"),
        ("x = x.to(device, non_blocking=args.overlap)", None),
        ("x, y = x.to(gpu), y.to(gpu)", "x, y = x.to(gpu, non_blocking=True), y.to(gpu, non_blocking=True)"),
        ("b = {k: v.to(gpu) for k, v in x.items()}", "b = {k: v.to(gpu, non_blocking=True) for k, v in x.items()}"),
        ("x = x.to(device=device, dtype=torch.half)", "x = x.to(device=device, dtype=torch.half, non_blocking=True)"),
        ("x = x.to(torch.float64)", None),
        ("x = place(x)", None),
    ],
)  # fmt: skip
def test_copies_that_held_the_host_up_do_so_no_more(copies: str, new: str | None, tmp_path: Path) -> None:
    assert after(run_on_gpu(tmp_path, copies)) == [PINNED, copies if new is None else new]


def test_a_copy_of_something_else_stays(tmp_path: Path) -> None:
    assert after(run_on_gpu(tmp_path, "t = table.to(device)")) == [PINNED, "t = table.to(device)"]


def test_batches_that_are_pinned_already_only_need_the_copy(tmp_path: Path) -> None:
    run = run_on_gpu(tmp_path, "x = x.to(device)", line=PINNED, pin_memory=True)
    assert PinAndOverlap().rejects(run, machine()) is None
    assert after(run) == [PINNED, "x = x.to(device, non_blocking=True)"]


def test_the_device_of_pinned_memory_stays_the_scripts_own(tmp_path: Path) -> None:
    line = "loader = DataLoader(data, 64, pin_memory_device='cuda:1')"
    assert after(run_on_gpu(tmp_path, "pass", line=line))[0] == f"{line[:-1]}, pin_memory=True)"


@pytest.mark.parametrize(
    ("facts", "line", "reason"),
    [
        ({"pin_memory": True}, PINNED, "Batches are pinned already, and no line"),
        ({"item_bytes": 100}, LOADER, "it is copied as fast without"),
        ({}, "loader = DataLoader(data, **settings)", "may be in a ** argument"),
    ],
)
def test_says_why_there_is_nothing_to_pin(facts: dict[str, Any], line: str, reason: str, tmp_path: Path) -> None:
    run = run_on_gpu(tmp_path, "x = x.to(device, non_blocking=True)", line=line, **facts)
    answer = PinAndOverlap().rejects(run, machine())
    assert answer is not None and reason in answer
    assert not PinAndOverlap().edits(run)


def test_on_the_cpu_and_where_copies_take_nothing_it_is_not_tried(tmp_path: Path) -> None:
    run = run_on_gpu(tmp_path, "x = x.to(device)")
    free = replace(run, phase_s={**run.phase_s, Phase.TRANSFER: (0.0,)})
    assert "Copies" in str(PinAndOverlap().rejects(free, machine()))
    assert "CPU" in str(PinAndOverlap().rejects(replace(run, device="cpu"), machine()))
