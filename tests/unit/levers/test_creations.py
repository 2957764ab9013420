"""What is made on the host and moved at once is made where it goes, if nothing else was asked of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hotlap.levers import Lever, Patch
from hotlap.levers.create_on_device import CreateOnDevice
from hotlap.levers.random_on_device import RandomOnDevice
from hotlap.source import patch
from tests.conformance.recorded import run_of
from tests.sample_runs import machine


@pytest.fixture
def installed() -> Iterator[Patch]:
    patch = Patch()
    yield patch
    patch.undo()


def changed(folder: Path, line: str, lever: Lever, *, head: str = "for _ in range(3):\n    ") -> str | None:
    """The line after the patch; None where it stays."""
    path = folder / "train.py"
    path.write_text(f"import torch\nfrom torch import randn\nx = torch.ones(3)\ndevice = x.device\n{head}{line}\n")
    run = replace(run_of(path), device="NVIDIA H200")
    new = patch(lever.edits(run), root=folder).texts.get(str(path))
    assert (lever.rejects(run, machine()) is None) == (new is not None)
    return None if new is None else new.splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("y = torch.zeros(3).to(device)", "y = torch.zeros(3, device=device)"),
        ("y = torch.zeros((3, 2), dtype=int).to(x.device)", "y = torch.zeros((3, 2), dtype=int, device=x.device)"),
        ("y = torch.full((3,), 0.9).cuda()", 'y = torch.full((3,), 0.9, device="cuda")'),
        ("y = torch.ones(3,).to('cuda:0')", "y = torch.ones(3, device='cuda:0')"),
        ("y = torch.arange(len(x)).to(device=device)", "y = torch.arange(len(x), device=device)"),
        ("y = torch.zeros(3).to(device) + torch.ones(3).to(device)",
         "y = torch.zeros(3, device=device) + torch.ones(3, device=device)"),
        ("y = torch.zeros(3).to(device) + torch.zeros(3).to(device)", None),
        ("y = torch.zeros(3).to(torch.float64)", None),
        ("y = torch.zeros(3).to(device, torch.float64)", None),
        ("y = torch.zeros(3).to(x)", None),
        ("y = torch.zeros(3, device='cpu').to(device)", None),
        ("y = torch.zeros(3, pin_memory=True).to(device, non_blocking=True)", None),
        ("y = torch.arange(0, 1, 0.1).to(device)", None),
        ("y = torch.randn(3).to(device)", None),
        ("y = torch.zeros(*shape).to(device)", None),
        ("y = torch.tensor([1]).to(device)", None),
    ],
)  # fmt: skip
def test_what_is_the_same_everywhere_is_made_where_it_goes(tmp_path: Path, line: str, new: str | None) -> None:
    assert changed(tmp_path, line, CreateOnDevice()) == new


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("y = torch.randn(3, 4).to(device, non_blocking=True)", "y = torch.randn(3, 4, device=device)"),
        ("y = torch.randint(0, 5, (3,)).cuda()", 'y = torch.randint(0, 5, (3,), device="cuda")'),
        ("y = torch.rand(3, generator=g).to(device)", None),
        ("y = randn(3).to(device)", None),
        ("y = torch.zeros(3).to(device)", None),
    ],
)
def test_random_numbers_are_another_lever(tmp_path: Path, line: str, new: str | None) -> None:
    assert changed(tmp_path, line, RandomOnDevice()) == new


@pytest.mark.parametrize("head", ["", "def __init__(self):\n    ", "if True:\n    "])
def test_what_is_made_once_stays(tmp_path: Path, head: str) -> None:
    assert changed(tmp_path, "y = torch.zeros(3).to(device)", CreateOnDevice(), head=head) is None


def test_what_a_function_makes_for_each_batch_is_changed(tmp_path: Path) -> None:
    head = "def noise(n):\n    "
    assert changed(tmp_path, "return torch.zeros(3).to(device)", CreateOnDevice(), head=head) is not None


def test_only_the_lines_concerned_make_theirs_elsewhere(tmp_path: Path, installed: Patch) -> None:
    path = tmp_path / "train.py"
    text = "import torch\ndevice = 'meta'\nfor _ in range(2):\n    y = torch.zeros(3).to(device)\nz = torch.zeros(3)\n"
    path.write_text(text)
    asked: list[str | None] = []

    def seen(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def wrapper(*args: int, device: str | None = None) -> torch.Tensor:
            asked.append(device)
            return make(*args, device=device)

        return wrapper

    installed.set(torch, "zeros", seen(torch.zeros))
    CreateOnDevice().install(installed)
    exec(compile(text, str(path), "exec"), {})
    exec(compile(text, "another file", "exec"), {})
    # "meta" stands in for a device that is not there.
    assert asked == ["meta", "meta", None, None, None, None]
