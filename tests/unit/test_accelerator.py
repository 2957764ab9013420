"""One door to devices: who speaks to CUDA by name, read from the source; and what asking starts, which is nothing."""

import ast
from pathlib import Path

import torch

import hotlap
from hotlap import accelerator

ROOT = Path(hotlap.__file__).parent

# Besides hotlap/cuda.py: measurements of CUDA devices themselves, and loaders that are made for them.
SPEAK_TO_CUDA = ("machine/measure/", "lab/", "data/", "levers/no_debug.py")


def speaks_to_cuda(source: str) -> bool:
    """`torch.cuda` stands in the code of a file that imports torch, not only in text that is written into a script."""
    nodes = list(ast.walk(ast.parse(source)))
    imported = any(isinstance(node, ast.Import) and node.names[0].name == "torch" for node in nodes)
    return imported and any(
        isinstance(node, ast.Attribute) and node.attr == "cuda" and ast.unparse(node.value) == "torch" for node in nodes
    )


def test_one_file_speaks_to_cuda() -> None:
    files = (path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py")))
    found = [file for file in files if speaks_to_cuda((ROOT / file).read_text())]
    assert [file for file in found if not file.startswith(SPEAK_TO_CUDA)] == ["cuda.py"]


def test_without_a_device_every_question_has_its_answer() -> None:
    if accelerator.may_come():
        return
    assert accelerator.in_use() is None
    assert accelerator.peak_bytes() is None
    assert list(accelerator.random_states()) == []
    assert not accelerator.is_pinned(torch.ones(1))
    assert not accelerator.on_device(torch.ones(1))
    assert accelerator.name(torch.device("cpu")) == "cpu"
    accelerator.synchronize()
