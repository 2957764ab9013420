"""preallocate: which runs it is for, and what it becomes in the source."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from hotlap.errors import UserError
from hotlap.levers import Patch, from_spec
from hotlap.levers.preallocate import Preallocate
from hotlap.record import Run, ShapeFacts, SwitchFacts
from hotlap.source import patch
from tests.conformance.recorded import SCRIPTS, run_of
from tests.sample_runs import machine

SCRIPT = next(path for path in SCRIPTS if path.stem == "flat")
GROWING = ShapeFacts(num_steps=100, num_shapes=40, num_new_late=4, largest=(32, 512), dtype="int64")


def run_with_shapes(shapes: ShapeFacts | None = GROWING, **changes: Any) -> Run:
    return replace(run_of(SCRIPT), **{"device": "NVIDIA H200", "shapes": shapes, **changes})


def reason(run: Run) -> str:
    (lever,) = Preallocate.candidates(run, machine())
    return lever.rejects(run, machine()) or "taken"


def test_the_largest_batch_that_was_seen_is_tried() -> None:
    assert Preallocate.candidates(run_with_shapes(), machine()) == (Preallocate(shape="32x512", dtype="int64"),)
    assert reason(run_with_shapes()) == "taken"


def test_it_is_one_line_in_front_of_the_optimizer() -> None:
    (lever,) = Preallocate.candidates(run_with_shapes(), machine())
    text = patch(lever.edits(run_with_shapes()), root=SCRIPT.parent).texts[str(SCRIPT)]
    assert "from hotlap.data import preallocate\n" in text
    assert "\npreallocate(model, (32, 512), dtype=torch.int64)\noptimizer = SGD(" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "cpu"}, "serves NVIDIA's GPUs"),
        ({"device": "mps"}, "serves NVIDIA's GPUs"),
        ({"shapes": None}, "not seen to change"),
        ({"shapes": replace(GROWING, num_shapes=2)}, "not seen to change"),
        ({"shapes": replace(GROWING, largest=())}, "one tensor alone"),
        ({"shapes": replace(GROWING, dtype="uint8")}, "takes uint8"),
        ({"compiled": True}, "torch.compile"),
        ({"world_size": 2}, "Several processes"),
        ({"loaders": ()}, "no batches from a DataLoader"),
        ({"switches": SwitchFacts(anomaly_mode=True)}, "Anomaly mode"),
        (
            {"switches": SwitchFacts(environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})},
            "grows its blocks already",
        ),
    ],
)
def test_says_why_not(changes: dict[str, Any], words: str) -> None:
    assert words in reason(run_with_shapes(**changes))


def test_models_of_which_one_takes_the_largest_batch_are_left_alone() -> None:
    run = run_with_shapes()
    (call,) = (site for site in run.call_sites if site.calls == "forward")
    twice = (*run.call_sites, replace(call, line=call.line + 1))
    assert "several places" in reason(replace(run, call_sites=twice))
    tuples = tuple(replace(site, detail={**site.detail, "returns": "tuple"}) for site in run.call_sites)
    assert "nothing to go backward from" in reason(replace(run, call_sites=tuples))


@pytest.mark.parametrize("shape", ["", "32,512", "32x", "x", "32x512\n", "-1", "os.abort()"])
def test_a_shape_out_of_a_file_is_a_shape(shape: str) -> None:
    with pytest.raises(UserError, match="shape"):
        from_spec({"name": "preallocate", "shape": shape})


def test_under_the_lever_training_on_the_cpu_is_as_it_was() -> None:
    found = []
    for install in (False, True):
        installed = Patch()
        if install:
            Preallocate(shape="16x4").install(installed)
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
        try:
            found.append(model(torch.ones(3, 4)).tolist())
        finally:
            installed.undo()
    assert found[0] == found[1]
