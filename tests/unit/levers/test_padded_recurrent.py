"""Which scripts padded-recurrent is for, and how it tells that it found nothing to do."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from hotlap.levers import Patch
from hotlap.levers.native import PaddedRecurrent
from hotlap.record import Run
from hotlap.source import patch
from tests.conformance.recorded import OWN, SCRIPTS, run_of
from tests.sample_runs import machine

SCRIPT = OWN["padded-recurrent"]


def test_a_script_that_packs_is_taken() -> None:
    run = run_of(SCRIPT)
    assert PaddedRecurrent().rejects(run, machine()) is None
    new = patch(PaddedRecurrent().edits(run), root=SCRIPT.parent).texts[str(SCRIPT)]
    assert "from hotlap.recurrent import padded_recurrent\n" in new
    assert "\npadded_recurrent()\n" in new


def with_line(folder: Path, line: str) -> Run:
    path = folder / "train.py"
    path.write_text(f"{SCRIPT.read_text()}{line}\n")
    return run_of(path)


@pytest.mark.parametrize("line", ["torch.autograd.grad(loss, [], create_graph=True)", "torch.jit.script(model)"])
def test_what_the_changed_layers_cannot_do_is_a_reason(tmp_path: Path, line: str) -> None:
    reason = PaddedRecurrent().rejects(with_line(tmp_path, line), machine())
    assert reason is not None
    assert ("create_graph" in reason) == ("create_graph" in line)


def test_others_are_refused() -> None:
    run = run_of(SCRIPT)
    reasons = [
        PaddedRecurrent().rejects(one, machine())
        for one in (
            run_of(SCRIPTS[0]),
            replace(run, device="NVIDIA H200"),
            replace(run, compiled=True),
            replace(run, autocast=True),
        )
    ]
    assert None not in reasons
    assert "packs sequences" in str(reasons[0])
    assert "cuDNN" in str(reasons[1])


def test_it_says_what_it_found_nothing_to_do_for() -> None:
    installed = Patch()
    PaddedRecurrent().install(installed)
    try:
        batch = pack_sequence([torch.randn(3, 2, dtype=torch.float64)])
        nn.GRU(2, 2).double()(batch)
        assert "no float32" in str(installed.why_idle())
        nn.GRU(2, 2)(pack_sequence([torch.randn(3, 2)]))
        assert installed.why_idle() is None
    finally:
        installed.undo()
