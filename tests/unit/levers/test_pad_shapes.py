"""pad-shapes: which scripts it is for, and that only the padding changes."""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn.utils import rnn

from hotlap.levers import Patch
from hotlap.levers.pad_shapes import PadShapes
from hotlap.record import Run, ShapeFacts
from hotlap.source import patch
from tests.conformance.recorded import OWN, run_of
from tests.sample_runs import loader, machine

SCRIPT = OWN["pad-shapes"]


def changed(old: str, new: str, folder: Path) -> Run:
    """The run of the script with something else in one place."""
    text = SCRIPT.read_text()
    assert old in text
    path = folder / "train.py"
    path.write_text(text.replace(old, new))
    return run_of(path)


def reason(run: Run) -> str:
    return PadShapes().rejects(run, machine()) or "taken"


# Which scripts it is for


def test_a_script_whose_loss_ignores_the_padding_is_taken() -> None:
    assert reason(run_of(SCRIPT)) == "taken"


def test_a_loss_that_counts_padding_is_left_alone(tmp_path: Path) -> None:
    run = changed("nn.CrossEntropyLoss(ignore_index=-100)", "nn.CrossEntropyLoss()  # no mask: lengths", tmp_path)
    assert reason(run).startswith("The loss in line ")
    assert "counts padded positions as data" in reason(run)


def test_a_loss_that_is_called_where_it_stands_is_seen_too(tmp_path: Path) -> None:
    run = changed("criterion(model", "nn.functional.cross_entropy(model", tmp_path)
    assert reason(run).startswith("The loss in line ")


def test_a_loss_of_one_label_a_sequence_has_no_padding_in_it(tmp_path: Path) -> None:
    old = "criterion(model(x).reshape(-1, 4), y.reshape(-1))"
    assert reason(changed(old, "nn.functional.cross_entropy(model(x, lengths), y)", tmp_path)) == "taken"


def test_a_script_that_does_not_know_its_padding_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    text = SCRIPT.read_text().replace("criterion = nn.CrossEntropyLoss(ignore_index=-100)", "")
    text = text.replace("criterion(model(x).reshape(-1, 4), y.reshape(-1))", "model(x).mean()")
    path.write_text(text.replace("lengths", "sizes"))
    assert reason(run_of(path)).startswith("Nothing in the script tells padding from data")


def test_batch_normalisation_takes_padding_into_account(tmp_path: Path) -> None:
    run = changed("self.head = nn.Linear(8, 4)", "self.head = nn.BatchNorm1d(8)", tmp_path)
    assert "statistics over padding" in reason(run)


def test_packed_batches_change_their_shapes_all_the_same(tmp_path: Path) -> None:
    run = changed("self.head(self.embedding(tokens))", "rnn.pack_padded_sequence(tokens, lengths)", tmp_path)
    path = Path(next(iter(run.sources)))
    path.write_text("from torch.nn.utils import rnn\n" + path.read_text())
    assert reason(run_of(path)).startswith("Batches are packed in line ")


@pytest.mark.parametrize(
    "call",
    [
        'pad_sequence(tokens, True, PAD, "left")',
        "pad_sequence(tokens, first, PAD)",
        "pad_sequence(*tokens)",
        "pad_sequence(tokens, True, padding_value=next(values))",
    ],
)
def test_calls_of_which_not_all_is_known_are_left_alone(call: str, tmp_path: Path) -> None:
    run = changed("pad_sequence(tokens, True, PAD)", call, tmp_path)
    assert len(PadShapes().edits(run)) == 1, "the other one"


def test_shapes_that_do_not_churn_are_left_alone() -> None:
    run = replace(run_of(SCRIPT), shapes=ShapeFacts(num_steps=100, num_shapes=8, num_new_late=0))
    assert reason(run) == "The model was given no more than 8 different shapes, so they do not churn."
    assert reason(replace(run, shapes=None)) == "It was not looked at how many shapes the model is given."


def test_workers_that_would_not_know_of_it_are_told() -> None:
    spawned = replace(loader(), num_workers=2, start_method="spawn")
    assert "started by spawn" in reason(replace(run_of(SCRIPT), loaders=(spawned,)))


def test_wide_buckets_are_tried_where_there_are_many_lengths() -> None:
    run = run_of(SCRIPT)
    assert [lever.multiple for lever in PadShapes.candidates(run, machine())] == [16]
    run = replace(run, shapes=ShapeFacts(num_steps=1000, num_shapes=300, num_new_late=9))
    assert [lever.multiple for lever in PadShapes.candidates(run, machine())] == [16, 64]


# What it could save


def test_it_saves_at_most_what_new_shapes_took_beyond_known_ones() -> None:
    run = run_of(SCRIPT)
    new = range(20, 20 + 50)
    shapes = ShapeFacts(num_steps=100, num_shapes=60, num_new_late=0, new_steps=tuple(new))
    slow = tuple(0.008 if step in new else 0.005 for step in run.step_index)
    run = replace(run, shapes=shapes, step_s=slow)
    assert PadShapes().saves_at_most_s(run, ()) == pytest.approx(0.0015)
    fast = replace(run, step_s=(0.005,) * 100)
    assert PadShapes().saves_at_most_s(fast, ()) == 0.0, "new shapes cost nothing here"
    assert PadShapes().saves_at_most_s(replace(fast, device="NVIDIA H200"), ()) > 0, "the allocator is not seen"


# What it does


@pytest.fixture
def tagger(tmp_path: Path) -> Iterator[tuple[ModuleType, Patch]]:
    """The script up to its training, imported under the lever."""
    text = SCRIPT.read_text()
    path = tmp_path / "tagger.py"
    path.write_text(text[: text.index("\nlengths = ")])
    installed = Patch()
    PadShapes(multiple=16).install(installed)
    spec = importlib.util.spec_from_file_location("tagger", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module, installed
    installed.undo()


def sentences(*lengths: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.arange(1, n + 1) % 29 + 1, torch.arange(n) % 4) for n in lengths]


def test_both_calls_on_a_line_get_their_own_padding(tagger: tuple[ModuleType, Patch]) -> None:
    module, _ = tagger
    module.collate(sentences(40, 9))
    tokens, tags = module.collate(sentences(20, 17))
    assert tokens.shape == tags.shape == (2, 32)
    assert set(tokens[0, 20:].tolist()) == {0}
    assert set(tags[0, 20:].tolist()) == {-100}
    assert tokens[0, :20].tolist() == sentences(20)[0][0].tolist()


def test_losses_and_gradients_of_a_model_that_knows_its_padding_stay(tagger: tuple[ModuleType, Patch]) -> None:
    module, installed = tagger
    module.collate(sentences(40))
    wide = module.collate(sentences(20, 17, 3))
    installed.undo()
    narrow = _plainly(sentences(20, 17, 3))
    assert wide[0].shape != narrow[0].shape
    model = module.Tagger()
    criterion = torch.nn.CrossEntropyLoss(ignore_index=-100)
    found = []
    for x, y in (narrow, wide):
        model.zero_grad()
        loss = criterion(model(x).reshape(-1, 4), y.reshape(-1))
        loss.backward()
        found.append([loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def _plainly(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, tags = [token for token, _ in pairs], [tag for _, tag in pairs]
    return rnn.pad_sequence(tokens, True), rnn.pad_sequence(tags, True, -100)


def test_calls_that_the_edits_leave_alone_are_left_alone_by_the_lever_too(tagger: tuple[ModuleType, Patch]) -> None:
    for length in (40, 20):
        given: Any = [[torch.ones(length)]]
        hidden = rnn.pad_sequence(*given)
        plain = rnn.pad_sequence([torch.ones(length)])
    assert hidden.shape == (20, 1)
    assert plain.shape == (32, 1)


def test_the_patched_script_pads_as_the_lever_did(tagger: tuple[ModuleType, Patch], tmp_path: Path) -> None:
    module, installed = tagger
    batches = [sentences(40, 2), sentences(20, 17), sentences(55), sentences(41)]
    under_lever = [module.collate(batch) for batch in batches]
    installed.undo()
    script = Path(str(module.__file__))
    text = patch(PadShapes(multiple=16).edits(run_of(script)), root=tmp_path).texts[str(script)]
    names: dict[str, object] = {"__name__": "patched"}
    exec(compile(text, str(tmp_path / "patched.py"), "exec"), names)
    collate = names["collate"]
    assert callable(collate)
    for batch, wanted in zip(batches, under_lever, strict=True):
        for one, other in zip(collate(batch), wanted, strict=True):
            assert torch.equal(one, other)
