"""Gradients that are computed and thrown away, in real trainings: which are found, where, and which are somebody's."""

from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.record import Finding, Run
from hotlap.rules import unneeded_gradients
from tests.gradient_runs import observed

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
body, head = nn.Linear(64, 64), nn.Linear(64, 8)
net = nn.Sequential(body, head)
x, y = torch.randn(16, 64), torch.randn(16, 8)
"""

SECONDS, UNTIL = 0.006, 0.8


def trained(folder: Path, body: str) -> Run:
    """The run of such a training, whose passes took half of the backward phase each."""
    path = folder / "train.py"
    path.write_text(HEAD + body)
    run = observed(path)
    sites = [
        replace(one, detail={**one.detail, "seconds": SECONDS, "until": UNTIL}) if one.calls == "backward" else one
        for one in run.call_sites
    ]
    return replace(run, call_sites=tuple(sites))


def found(folder: Path, body: str) -> Finding | None:
    return unneeded_gradients.check(trained(folder, body))


def line_of(body: str, code: str) -> int:
    return next(i for i, line in enumerate((HEAD + body).splitlines(), 1) if code in line)


FROZEN = """
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(8):
    loss = F.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()  # wasteful
    optimizer.step()
"""
GAN = """
optimizer_g = torch.optim.SGD(body.parameters(), lr=0.1)
optimizer_d = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(8):
    optimizer_g.zero_grad()
    head(body(x)).mean().backward()  # wasteful
    optimizer_g.step()
    optimizer_d.zero_grad()
    head(torch.randn(16, 64)).mean().backward()
    optimizer_d.step()
"""
KEPT = GAN.replace("backward()  # wasteful", "backward(retain_graph=True)  # wasteful")
IN_PART = {
    "a graph that is kept": (KEPT, "520 of them", "another optimizer has", "optimizer_g"),
    "a body that no optimizer has": (FROZEN, "4,680 gradients, 4,160 of them", "no optimizer has", "optimizer"),
    "through another optimizer's network": (GAN, "520 of them", "another optimizer has", "optimizer_g"),
}


@pytest.mark.parametrize("name", IN_PART)
def test_gradients_that_no_optimizer_wants_are_found_with_their_line_and_a_bound(name: str, tmp_path: Path) -> None:
    body, number, whose, optimizer = IN_PART[name]
    finding = found(tmp_path, body)
    assert finding is not None and finding.advice
    assert finding.where == f"train.py:{line_of(body, '# wasteful')}"
    assert f"{number} of parameters that {whose}" in finding.evidence
    bound = "2.40 ms (8%)" if "another optimizer" in whose else "6.00 ms (20%)"
    assert f"at most {bound} of a step" in finding.evidence
    kept = "retain_graph=True, " if "retain_graph" in body else ""
    assert f".backward({kept}inputs=[p for group in {optimizer}.param_groups for p in" in finding.after


IN_TWO_FUNCTIONS = """
def backward(loss):
    loss.backward()  # wasteful
def update(opt):
    opt.step()
    opt.zero_grad()
def fit(optimizer):
    for _ in range(8):
        backward(F.mse_loss(net(x), y))
        update(optimizer)
fit(torch.optim.SGD(head.parameters(), lr=0.1))
"""


def test_where_the_optimizer_has_no_name_the_remedy_is_told_in_words(tmp_path: Path) -> None:
    finding = found(tmp_path, IN_TWO_FUNCTIONS)
    assert finding is not None and finding.where == f"train.py:{line_of(IN_TWO_FUNCTIONS, '# wasteful')}"
    assert not finding.after and "`requires_grad_(False)` on these leaves them out; at most" in finding.evidence


CLEARED_BEFORE_THE_STEP = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    loss = F.mse_loss(net(x), y)
    loss.backward()  # in vain
    optimizer.zero_grad()
    optimizer.step()
"""
TWICE = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    loss = F.mse_loss(net(x), y)
    loss.backward(retain_graph=True)  # in vain
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ANOTHER_NETWORK = """
optimizer = torch.optim.SGD(nn.Linear(64, 8).parameters(), lr=0.1)
for _ in range(8):
    loss = F.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()  # in vain
    optimizer.step()
"""
IN_VAIN = {
    "cleared before the step": (CLEARED_BEFORE_THE_STEP, "cleared before an optimizer steps with them"),
    "cleared before the zeros": (
        CLEARED_BEFORE_THE_STEP.replace("zero_grad()", "zero_grad(set_to_none=False)"),
        "cleared before an optimizer steps with them",
    ),
    "computed twice": (TWICE, "cleared before an optimizer steps with them"),
    "an optimizer of another network": (ANOTHER_NETWORK, "of parameters that no optimizer has"),
}


@pytest.mark.parametrize("name", IN_VAIN)
def test_a_pass_of_which_nothing_is_used_is_found_with_its_cost(name: str, tmp_path: Path) -> None:
    body, why = IN_VAIN[name]
    run = trained(tmp_path, body)
    finding = unneeded_gradients.check(run)
    assert finding is not None and not finding.advice
    assert finding.where == f"train.py:{line_of(body, '# in vain')}"
    assert "takes 6.00 ms (20%) of each step" in finding.evidence
    assert why in finding.evidence and "nothing is learnt" in finding.evidence


BY_HAND = """
for _ in range(8):
    F.mse_loss(net(x), y).backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
    net.zero_grad()
"""
# What a library does: no line of the script's reads a gradient.
SAM = """
from sam import disturb
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    F.mse_loss(net(x), y).backward()
    moved = disturb(net)
    optimizer.zero_grad()
    F.mse_loss(net(x), y).backward()
    disturb(net, back=moved)
    optimizer.step()
    optimizer.zero_grad()
"""
ATTACK = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    inputs = x.clone().requires_grad_()
    F.mse_loss(net(inputs), y).backward()
    optimizer.zero_grad()
    F.mse_loss(net(inputs.detach()), y).backward()
    optimizer.step()
"""
ACCUMULATED = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(32):
    F.mse_loss(net(x), y).backward()
    if i % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("body", [BY_HAND, SAM, ATTACK, ACCUMULATED, FROZEN + "\nprint(body.weight.grad)\n"])
def test_gradients_that_somebody_may_read_are_not_found(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "sam.py").write_text(
        "import torch\n"
        "@torch.no_grad()\n"
        "def disturb(net, back=None):\n"
        "    moved = [p.grad.sign() * 0.05 for p in net.parameters()] if back is None else back\n"
        "    for p, by in zip(net.parameters(), moved):\n"
        "        p.add_(by, alpha=1 if back is None else -1)\n"
        "    return moved\n"
    )
    monkeypatch.syspath_prepend(library)
    assert found(tmp_path, body) is None


def test_the_bound_ends_where_the_last_of_them_is_computed(tmp_path: Path) -> None:
    """The critic's gradients come before the generator's: what takes time behind them is no part of it."""
    path = tmp_path / "train.py"
    path.write_text(f"import time\n{HEAD}{SLOW_GENERATOR}")
    (site,) = (one for one in observed(path).call_sites if one.calls == "backward")
    assert 0 < float(site.detail["until"] or 0) < 0.5


SLOW_GENERATOR = GAN.replace(
    "    head(body(x))", "    fake = body(x)\n    fake.register_hook(lambda _: time.sleep(0.15))\n    head(fake)"
)
