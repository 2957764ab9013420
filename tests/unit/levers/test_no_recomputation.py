"""Each way to turn activation checkpointing on is turned off; what may hold something else stays as it is."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.levers.no_recomputation import NoRecomputation
from hotlap.record import OperatorWindow, Phase
from hotlap.source import patch
from tests.conformance.recorded import run_of
from tests.sample_runs import machine

HEAD = """\
import torch
from torch.utils import checkpoint as cp
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

"""

LEVER = NoRecomputation()


def written(tmp_path: Path, text: str) -> list[str]:
    """Lines that the patch adds."""
    path = tmp_path / "train.py"
    path.write_text(HEAD + text)
    run = run_of(path)
    edits = LEVER.edits(run)
    assert (LEVER.rejects(run, machine()) is None) == bool(edits)
    if not edits:
        return []
    patched = patch(edits, root=tmp_path)
    ast.parse(patched.texts[str(path)])
    return [line[1:] for line in (patched.diff or "").splitlines() if line.startswith("+") and line[1:2] != "+"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = checkpoint(block, x, use_reentrant=False)", "y = block(x)"),
        ("y = checkpoint(self.blocks[i], x, mask, preserve_rng_state=False)", "y = self.blocks[i](x, mask)"),
        ("y = cp.checkpoint(block, x, mask=m, use_reentrant=True)", "y = block(x, mask=m)"),
        ("y = torch.utils.checkpoint.checkpoint(make(), *given)", "y = make()(*given)"),
        ("y = checkpoint(lambda a: a + 1, x, context_fn=some)", "y = (lambda a: a + 1)(x)"),
        ("y = checkpoint(f, checkpoint(g, x))", "y = f(checkpoint(g, x))"),
        ("y = checkpoint_sequential(layers, 4, x)", "y = checkpoint_sequential(layers, 1, x)"),
        (
            "y = checkpoint_sequential(layers, segments=n, input=x)",
            "y = checkpoint_sequential(layers, segments=1, input=x)",
        ),
        ("model.gradient_checkpointing_enable()", "model.gradient_checkpointing_disable()"),
        ("self.model.set_grad_checkpointing()", "self.model.set_grad_checkpointing(False)"),
        ("args = Arguments(gradient_checkpointing=True, n=1)", "args = Arguments(gradient_checkpointing=False, n=1)"),
        ("net = Net(activation_checkpointing=True)", "net = Net(activation_checkpointing=False)"),
    ],
)
def test_it_is_turned_off_where_it_is_written(tmp_path: Path, before: str, after: str) -> None:
    assert written(tmp_path, f"{before}\n") == [after]


def test_arguments_keep_the_lines_that_they_have(tmp_path: Path) -> None:
    text = "for x in xs:\n    y = checkpoint(block, [\n        x,  # first\n    ], use_reentrant=False)\n"
    assert written(tmp_path, text) == ["    y = block([", "    ])"]


@pytest.mark.parametrize(
    "text",
    [
        "y = block(x)",
        "y = checkpoint(block, x, **settings)",
        "y = checkpoint(*given)",
        "y = load.checkpoint(path)",
        "model.set_grad_checkpointing(False)",
        "args = Arguments(gradient_checkpointing=False)",
        "args = Arguments(gradient_checkpointing=options.checkpoint)",
    ],
)
def test_what_is_off_or_may_mean_something_else_stays(tmp_path: Path, text: str) -> None:
    assert written(tmp_path, f"{text}\n") == []


def test_it_is_refused_where_nothing_was_computed_again_and_where_memory_is_short(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"{HEAD}y = checkpoint(block, x, use_reentrant=False)\n")
    seen = OperatorWindow(num_steps=4, wall_s=0.01, operators=(), num_calls=1, recomputed_s=0.002)
    run = replace(run_of(path), operators=seen)
    assert LEVER.rejects(run, machine()) is None
    assert LEVER.saves_at_most_s(run, ()) == 0.002
    assert LEVER.saves_at_most_s(replace(run, operators=None), ()) == run.mean_phase_s(Phase.BACKWARD)
    none = replace(run, operators=replace(seen, recomputed_s=0.0))
    assert LEVER.rejects(none, machine()) == "The backward pass computes nothing of the forward pass again."
    here = machine()
    large = replace(run, rss_peak_bytes=here.available_bytes + 1)
    assert "of memory are left" in (LEVER.rejects(large, here) or "")
    assert LEVER.rejects(replace(large, device="NVIDIA H100"), here) is None
