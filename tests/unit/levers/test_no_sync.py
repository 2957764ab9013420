"""The last pass before an update is told by the script's own condition; where that is not sure, nothing is written."""

import ast
from pathlib import Path

import pytest

from hotlap.levers.no_sync import NoSync
from hotlap.source import patch
from tests.conformance.recorded import run_of
from tests.sample_runs import machine

HEAD = """\
from torch import optim
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(net)
optimizer = optim.Adam(model.parameters())
"""

BY_CONDITION = """\
for epoch in range(3):
    for i, x in enumerate(loader):
        loss = model(x).mean() / 4
        loss.backward()
        if (i + 1) % 4 == 0 or i + 1 == len(loader):
            norm = clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()
"""

IN_LOOP = """\
while True:
    for micro in range(steps):
        with autocast():
            loss = model(x).mean() / steps
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def written(tmp_path: Path, text: str) -> list[str]:
    """Lines that the patch adds."""
    path = tmp_path / "train.py"
    path.write_text(HEAD + text)
    run = run_of(path)
    edits = NoSync().edits(run)
    assert (NoSync().rejects(run, machine()) is None) == bool(edits)
    patched = patch(edits, root=tmp_path) if edits else None
    if patched is None:
        return []
    ast.parse(patched.texts[str(path)])
    return [line[1:] for line in (patched.diff or "").splitlines() if line.startswith("+") and line[1:2] != "+"]


def test_the_condition_of_the_update_says_when_gradients_are_exchanged(tmp_path: Path) -> None:
    flag = "        model.require_backward_grad_sync = (i + 1) % 4 == 0 or i + 1 == len(loader)"
    assert written(tmp_path, BY_CONDITION) == [flag]


@pytest.mark.parametrize(("count", "last"), [("steps", "steps - 1"), ("args.steps", "args.steps - 1"), ("4", "3")])
def test_in_a_loop_of_passes_it_is_the_last_one(tmp_path: Path, count: str, last: str) -> None:
    flag = f"            model.require_backward_grad_sync = micro == {last}"
    assert written(tmp_path, IN_LOOP.replace("range(steps)", f"range({count})")) == [flag]


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (BY_CONDITION, "        if (i + 1) % 4 == 0 or i + 1 == len(loader):", "        if True and ready():"),
        (BY_CONDITION, "loss.backward()", "loss.backward(); i += 1"),
        (BY_CONDITION, "loss.backward()", "loss.backward(); print(net.weight.grad)"),
        (BY_CONDITION, "loss.backward()", "clip_grad_norm_(model.parameters(), 1.0); loss.backward()"),
        (BY_CONDITION, "        scheduler.step()", "    optimizer.step()"),
        (BY_CONDITION, "loss = model(x)", "model.require_backward_grad_sync = i % 4 == 3; loss = model(x)"),
        (
            BY_CONDITION,
            "        if (i + 1) % 4 == 0 or i + 1 == len(loader):",
            "        if skip: continue\n        if i % 4:",
        ),
        (BY_CONDITION, "loss.backward()", "pass"),
        (BY_CONDITION, "loss = model(x).mean() / 4", "loss = Join([model(x)]).mean()"),
        (IN_LOOP, "loss.backward()", "if bad: break\n        loss.backward()"),
        (IN_LOOP, "range(steps)", "range(next(counts))"),
        (IN_LOOP, "loss.backward()", "loss.backward(); steps += 1"),
        (IN_LOOP, "    optimizer.step()", "    update()"),
        (IN_LOOP, "for micro in range(steps)", "for x in batches"),
    ],
)
def test_where_the_last_pass_is_not_sure_nothing_is_written(tmp_path: Path, text: str, old: str, new: str) -> None:
    assert old in text
    assert written(tmp_path, text.replace(old, new)) == []


def test_one_process_has_nobody_to_exchange_with(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("model = net\nmodel(x)\n")
    assert NoSync().rejects(run_of(path), machine()) == "One process trains here."
