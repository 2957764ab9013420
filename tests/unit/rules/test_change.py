"""Code that would not run, or would do something else, is not shown; its place is."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from hotlap.record import Run
from hotlap.rules.change import Change
from tests.rule_runs import healthy

TEXT = """\
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return self.head(self.body(x))

def backward(loss):
    loss.backward()

def update(opt):
    opt.step()

for x in range(
    3
):
    h = f(
        net(x),
    )
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    return replace(healthy(), sources={str(path): sha256(TEXT.encode()).hexdigest()})


@pytest.mark.parametrize(
    ("line", "before", "after", "can_stand"),
    [
        (8, "loss.backward()", "loss.backward(inputs=[*nn.parameters()])", True),
        (8, "loss.backward()", "loss.backward(inputs=[p for p in opt.param_groups])", False),
        (5, "return self.head(self.body(x))", "return self.head(x)", True),
        (5, "return self.head(self.body(x))", "x = self.head(x)", False),
        (16, "h = f(\n    net(x),\n)", "h = f(0)", True),
        (16, "h = f(\n    net(x),\n)", "features = f(0)", False),
        (17, "net(x),", "with torch.no_grad():\n    net(x),", False),
        (13, "for x in range(", "with torch.no_grad():\n    for x in range(", False),
        (None, "", "torch.set_flush_denormal(True)", True),
        (None, "", "torch.cat([backbone(x)])", False),
    ],
)
def test_what_can_stand(run: Run, line: int | None, before: str, after: str, can_stand: bool) -> None:
    (path,) = run.sources
    assert Change(path, line, before, after).can_stand(run) is can_stand


def test_of_a_file_that_cannot_be_read_the_lines_tell() -> None:
    assert Change("/gone.py", 3, "y = f(x)", "y = g(x)").can_stand(healthy())
    assert not Change("/gone.py", 3, "return f(x)", "y = g(x)").can_stand(healthy())
    assert not Change("/gone.py", 3, "f(x),", "with torch.no_grad():\nf(x),").can_stand(healthy())
