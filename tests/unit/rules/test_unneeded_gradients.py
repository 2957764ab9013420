"""Gradients that are computed and thrown away, in real trainings: which are found, where, and which are somebody's."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.nn.modules import module as of_torch

from hotlap.levers.lever import Patch
from hotlap.probe.clock import Clock
from hotlap.probe.facts import Facts
from hotlap.probe.guard import Guard
from hotlap.probe.profilers.gradients import Gradients
from hotlap.probe.session import Session
from hotlap.record import Finding, Phase, Run
from hotlap.rules import repeated_backward, unneeded_gradients
from tests.sample_runs import optimizer, run_with

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
body, head = nn.Linear(64, 64), nn.Linear(64, 8)
net = nn.Sequential(body, head)
x, y = torch.randn(16, 64), torch.randn(16, 8)
"""

SECONDS = 0.006


class Stage:
    """What the profiler asks of its session; a script's steps are not counted."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.steps = 0
        self.clock = Clock()
        self.thread = SimpleNamespace(id=get_ident())
        self.collectives = SimpleNamespace(active=False)
        self.script = SimpleNamespace(on_forward=[])

    def own(self, work: Callable[[], None]) -> None:
        work()


def trained(folder: Path, body: str, *, stage: Stage) -> Run:
    """The run of such a training, whose passes took half of the backward phase each."""
    path = folder / "train.py"
    path.write_text(HEAD + body)
    profiler, patch = Gradients(), Patch()
    profiler.under(Guard(), profiler.close)
    profiler.install(cast(Session, stage), patch)
    made = torch.optim.Optimizer.__init__

    def init(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        stage.facts.made_optimizer(self)

    patch.set(torch.optim.Optimizer, "__init__", init)
    (told,) = stage.script.on_forward
    handle = of_torch.register_module_forward_hook(told, with_kwargs=True)
    # `remove` leaves its mark (torch 2.13), and torch.compile then warns of hooks that are gone.
    patch.on_undo(of_torch._global_forward_hooks_with_kwargs.clear)
    patch.on_undo(handle.remove)
    try:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__", "stage": stage})
        profiler.fields()
    finally:
        patch.undo()
    sites = (one for one in stage.facts.call_sites if one.calls == "backward")
    return replace(
        run_with(phases={Phase.FORWARD: 0.010, Phase.BACKWARD: 0.012, Phase.OPTIMIZER: 0.006, Phase.OTHER: 0.002}),
        optimizers=(optimizer(),),
        call_sites=tuple(replace(one, detail={**one.detail, "seconds": SECONDS}) for one in sites),
        sources={str(path): hashlib.sha256(path.read_bytes()).hexdigest()},
    )


def found(folder: Path, body: str, *, stage: Stage | None = None) -> Finding | None:
    return unneeded_gradients.check(trained(folder, body, stage=stage or Stage()))


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
TEACHER = FROZEN.replace("net(x), y", "head(x), body(x)[:, :8]")
IN_A_CLOSURE = """
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
def closure():
    optimizer.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()  # wasteful
    return loss
for _ in range(8):
    optimizer.step(closure)
"""
GAN = """
optimizer_g = torch.optim.SGD(body.parameters(), lr=0.1)
optimizer_d = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(8):
    optimizer_g.zero_grad()
    head(body(x)).mean().backward()  # wasteful
    optimizer_g.step()
    optimizer_d.zero_grad(set_to_none=False)
    head(torch.randn(16, 64)).mean().backward()
    optimizer_d.step()
"""
CRITIC_FIRST = """
optimizer_g = torch.optim.Adam(body.parameters())
optimizer_d = torch.optim.Adam(head.parameters())
for i in range(16):
    fake = body(torch.randn(16, 64))
    optimizer_d.zero_grad()
    (head(fake.detach()).mean() - head(x).mean()).backward()
    optimizer_d.step()
    for p in head.parameters():
        p.data.clamp_(-0.5, 0.5)
    if i % 4 == 3:
        body.zero_grad()
        (-head(fake).mean()).backward()  # wasteful
        optimizer_g.step()
"""
FORGOTTEN_DETACH = """
optimizer_g = torch.optim.Adam(body.parameters())
optimizer_d = torch.optim.Adam(head.parameters())
for _ in range(8):
    fake = body(torch.randn(16, 64))
    optimizer_d.zero_grad()
    (head(fake).mean() - head(x).mean()).backward()  # wasteful
    optimizer_d.step()
    optimizer_g.zero_grad()
    head.requires_grad_(False)
    (-head(body(x)).mean()).backward()
    head.requires_grad_(True)
    optimizer_g.step()
"""
IN_PART = {
    "a body that no optimizer has": (FROZEN, "4,680 gradients, 4,160 of them of 2 parameters", "no optimizer has"),
    "a teacher": (TEACHER, "4,160 of them", "no optimizer has"),
    "in a closure": (IN_A_CLOSURE, "4,160 of them", "no optimizer has"),
    "cleared by the module": (
        FROZEN.replace("optimizer.zero_grad()", "net.zero_grad()"), "4,160 of them", "no optimizer has"
    ),
    "through another optimizer's network": (GAN, "520 of them of 2 parameters", "another optimizer has"),
    "critic first, and more often": (CRITIC_FIRST, "520 of them", "another optimizer has"),
    "a detach that was forgotten": (FORGOTTEN_DETACH, "4,160 of them", "another optimizer has"),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PART)
def test_gradients_that_no_optimizer_wants_are_found_with_their_line_and_a_bound(name: str, tmp_path: Path) -> None:
    body, number, whose = IN_PART[name]
    finding = found(tmp_path, body)
    assert finding is not None and finding.advice
    assert finding.where == f"train.py:{line_of(body, '# wasteful')}"
    assert number in finding.evidence and f"that {whose}" in finding.evidence
    assert "at most 6.00 ms (20%) of a step" in finding.evidence


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
    finding = found(tmp_path, body)
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
ONCE_IN_FOUR = """
optimizer_g, optimizer_d = (torch.optim.SGD(part.parameters(), lr=0.1) for part in net)
for i in range(16):
    optimizer_g.zero_grad()
    net(x).square().mean().backward()
    optimizer_g.step()
    if i % 4 == 3:
        optimizer_d.step()
        optimizer_d.zero_grad()
"""
SHARED = """
optimizer_g, optimizer_d = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (body, net))
for _ in range(8):
    optimizer_g.zero_grad()
    net(x).square().mean().backward()
    optimizer_g.step()
    optimizer_d.step()
    optimizer_d.zero_grad()
"""
LBFGS = """
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)
def closure():
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    return loss
for _ in range(8):
    optimizer.step(closure)
"""
SOMEBODYS = {
    "updated by hand": BY_HAND,
    "SAM": SAM,
    "an attack on inputs": ATTACK,
    "accumulated": ACCUMULATED,
    "one optimizer is rarer": ONCE_IN_FOUR,
    "two optimizers share them": SHARED,
    "LBFGS": LBFGS,
    "read by the script": FROZEN + "\nprint(body.weight.grad)\n",
    "clipped": GAN.replace("  # wasteful", "; nn.utils.clip_grad_norm_(net.parameters(), 9.0)"),
    "a hook": "body.weight.register_post_accumulate_grad_hook(lambda p: None)\n" + FROZEN,
    "a scaler": "scaler = torch.amp.GradScaler('cpu', enabled=False)\n" + FROZEN,
    "several processes": "stage.collectives.active = True\n" + FROZEN,
    "too few steps": FROZEN.replace("range(8)", "range(2)"),
    "trained later on": FROZEN.replace("optimizer.step()", "optimizer.step(); stage.steps += 40"),
    "all trained": FROZEN.replace("head.parameters()", "net.parameters()"),
}


@pytest.mark.parametrize("name", SOMEBODYS)
def test_gradients_that_somebody_may_read_are_not_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert found(tmp_path, SOMEBODYS[name]) is None


def test_after_its_steps_it_hears_nothing_any_more(tmp_path: Path) -> None:
    heard = torch.Tensor.backward
    body = FROZEN.replace("range(8)", "range(40)") + "    stage.steps += 1\nstage.heard = torch.Tensor.backward\n"
    stage = Stage()
    assert found(tmp_path, body, stage=stage) is not None
    assert cast(SimpleNamespace, stage).heard is heard


def test_an_error_of_ours_is_not_the_scripts_and_nothing_is_claimed(tmp_path: Path) -> None:
    assert found(tmp_path, FROZEN + "    if _ == 5: stage.facts.optimizers = None\n") is None


MANY_TASKS = """
heads = nn.ModuleList(nn.Linear(64, 1) for _ in range(4))
optimizer = torch.optim.SGD([*body.parameters(), *heads.parameters()], lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    made = body(x)
    outs = [head(made) for head in heads]
    for out in outs:
        F.mse_loss(out, y[:, :1]).backward(retain_graph=True)  # again
    optimizer.step()
    stage.steps += 1
"""


def again(folder: Path, body: str) -> Finding | None:
    """Of passes that take three quarters of the phase where they are repeated: these are too short for a clock."""
    run = trained(folder, body, stage=Stage())
    sites = [one for one in run.call_sites if one.detail.get("again")]
    assert all(0 < float(one.detail["again_part"] or 0) < 1 for one in sites)
    part = tuple(replace(one, detail={**one.detail, "again_part": 0.75}) for one in sites)
    return repeated_backward.check(replace(run, call_sites=part))


def test_losses_that_are_gone_through_one_by_one_over_one_forward_pass_are_told_with_their_line(tmp_path: Path) -> None:
    told = again(tmp_path, MANY_TASKS)
    assert told is not None
    place = f"Line {line_of(MANY_TASKS, '# again')} of train.py goes backward over what"
    assert told.evidence.startswith(place) and "3 times a step" in told.evidence
    assert told.cost_s == pytest.approx(0.75 * 0.012)
    assert found(tmp_path, MANY_TASKS) is None


def test_two_losses_over_one_forward_pass_are_told_wherever_their_passes_are_made(tmp_path: Path) -> None:
    loop = "for out in outs:\n        F.mse_loss(out, y[:, :1]).backward(retain_graph=True)  # again"
    apart = "F.mse_loss(outs[0], y[:, :1]).backward(retain_graph=True)\n    outs[1].mean().backward()  # again"
    two = MANY_TASKS.replace(loop, apart)
    told = again(tmp_path, two)
    assert told is not None
    assert told.evidence.startswith(f"Line {line_of(two, '# again')} of train.py") and "once a step" in told.evidence
    alone = two.replace("made = body(x)", "made = x").replace("nn.Linear(64, 1)", "nn.Linear(x.shape[1], 1)")
    assert again(tmp_path, alone) is None, "no gradient of the two is the same"


@pytest.mark.parametrize(
    ("code", "other"),
    [
        ("(retain_graph=True)", "(retain_graph=out is not outs[-1])"),
        (
            "    outs = [head(made) for head in heads]\n    for out in outs:",
            "    for head in heads:\n        out = head(body(x))",
        ),
        (
            "loss(out, y[:, :1]).backward(retain_graph=True)",
            "loss(out, y[:, :1]).backward(retain_graph=True); optimizer.step(); optimizer.zero_grad()",
        ),
        (
            "    for out in outs:\n        F.mse_loss(out, y[:, :1])",
            "    for _ in range(1):\n        sum(F.mse_loss(out, y[:, :1]) for out in outs)",
        ),
    ],
    ids=["the last graph is freed", "a forward pass each", "an update each", "one pass"],
)
def test_only_passes_over_the_same_graph_whose_gradients_add_up_are_repeated(
    code: str, other: str, tmp_path: Path
) -> None:
    assert code in MANY_TASKS
    assert (again(tmp_path, MANY_TASKS.replace(code, other)) is not None) is ("is not" in other)
