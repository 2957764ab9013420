"""Gradients that are cleared unread: the code that is advised trains the same; where one may be wanted nothing is."""

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.record import Finding
from hotlap.rules import unneeded_gradients
from tests.gradient_runs import Stage, observed, played

HEAD = """\
import copy
import torch
from torch import nn
torch.manual_seed(0)
generator, critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4)), nn.Linear(4, 1)
optimizer_g = torch.optim.Adam(generator.parameters(), lr=0.01)
optimizer_d = torch.optim.SGD(critic.parameters(), lr=0.01, momentum=0.9)
"""

TAIL = """
print([p.sum().item() for p in (*generator.parameters(), *critic.parameters())])
"""

CRITIC_FIRST = """
for _ in range(8):
    real, fake = torch.randn(6, 4), generator(torch.randn(6, 3))
    optimizer_d.zero_grad()
    (critic(fake.detach()).mean() - critic(real).mean()).backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    g_loss = -critic(fake).mean()
    g_loss.backward()  # wasteful
    optimizer_g.step()
"""

GENERATOR_FIRST = """
def train():
    for _ in range(8):
        optimizer_g.zero_grad()
        fake = generator(torch.randn(6, 3))
        g_loss = -critic(fake).mean()
        g_loss.backward()  # wasteful
        optimizer_g.step()
        optimizer_d.zero_grad(set_to_none=False)
        (critic(fake.detach()).mean() - critic(torch.randn(6, 4)).mean()).backward()
        optimizer_d.step()
train()
"""

FIVE_CRITIC_STEPS = """
for i in range(30):
    optimizer_d.zero_grad()
    fake = generator(torch.randn(6, 3)).detach()
    (critic(fake).mean() - critic(torch.randn(6, 4)).mean()).backward()
    optimizer_d.step()
    for p in critic.parameters():
        p.data.clamp_(-0.5, 0.5)
    if i % 5 == 4:
        generator.zero_grad()
        (-critic(generator(torch.randn(6, 3))).mean()).backward()  # wasteful
        optimizer_g.step()
"""

# As it is written in many repositories: a class, target networks, one update a step.
DDPG = """
class Agent:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def update(self, state, action, reward, next_state):
        with torch.no_grad():
            target_q = self.critic_target(torch.cat([next_state, self.actor_target(next_state)], 1))
            target_q = reward + 0.99 * target_q
        critic_loss = nn.functional.mse_loss(self.critic(torch.cat([state, action], 1)), target_q)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        actor_loss = -self.critic(torch.cat([state, self.actor(state)], 1)).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()  # wasteful
        self.actor_optimizer.step()

        for target, source in ((self.actor_target, self.actor), (self.critic_target, self.critic)):
            for a, b in zip(target.parameters(), source.parameters()):
                a.data.copy_(0.995 * a.data + 0.005 * b.data)

agent = Agent()
for _ in range(8):
    agent.update(torch.randn(6, 3), torch.randn(6, 1), torch.randn(6, 1), torch.randn(6, 3))
generator, critic = agent.actor, agent.critic
"""

FROZEN_BY_OMISSION = """
head = nn.Linear(1, 2)
optimizer = torch.optim.Adam(head.parameters())
for _ in range(8):
    optimizer.zero_grad()
    head(critic(generator(torch.randn(6, 3)))).square().mean().backward()  # wasteful
    optimizer.step()
print(head.weight.tolist())
"""

TWO_NEEDED = """
encoder = nn.Linear(3, 3)
optimizer_e = torch.optim.Adam(encoder.parameters())
schedule = torch.optim.lr_scheduler.StepLR(optimizer_g, 3)
for _ in range(8):
    optimizer_d.zero_grad()
    critic(generator(encoder(torch.randn(6, 3))).detach()).mean().backward()
    optimizer_d.step()
    optimizer_e.zero_grad(); optimizer_g.zero_grad()
    (-critic(generator(encoder(torch.randn(6, 3)))).mean()).backward()  # wasteful
    optimizer_g.step()
    schedule.step()
    optimizer_e.step()
print(encoder.weight.tolist())
"""

CLEARED_BY_MODULE = FROZEN_BY_OMISSION.replace(
    "optimizer.zero_grad()", "nn.Sequential(generator, critic, head).zero_grad()"
)

FORGOTTEN_DETACH = """
for _ in range(8):
    real, fake = torch.randn(6, 4), generator(torch.randn(6, 3))
    optimizer_d.zero_grad()
    d_loss = critic(fake).mean() - critic(real).mean()
    d_loss.backward(retain_graph=True)  # wasteful
    optimizer_d.step()
    optimizer_g.zero_grad()
    critic.requires_grad_(False)
    (-critic(fake).mean()).backward()
    critic.requires_grad_(True)
    optimizer_g.step()
"""

WASTEFUL = {
    "a detach that was forgotten": FORGOTTEN_DETACH,
    "cleared by the module": CLEARED_BY_MODULE,
    "critic first": CRITIC_FIRST,
    "generator first": GENERATOR_FIRST,
    "five critic steps": FIVE_CRITIC_STEPS,
    "DDPG": DDPG,
    "frozen by omission": FROZEN_BY_OMISSION,
    "two needed": TWO_NEEDED,
    "another steps between": TWO_NEEDED.replace(
        "    schedule.step()\n", "    optimizer_d.zero_grad()\n    optimizer_d.step()\n"
    ),
}


def script(folder: Path, body: str) -> Path:
    path = folder / "train.py"
    path.write_text(HEAD + body + TAIL)
    return path


def found(path: Path, *, stage: Stage | None = None) -> Finding | None:
    run = observed(path, stage=stage)
    sites = [
        replace(one, detail={**one.detail, "seconds": 0.006}) if one.calls == "backward" else one
        for one in run.call_sites
    ]
    return unneeded_gradients.check(replace(run, call_sites=tuple(sites)))


@pytest.mark.parametrize("name", WASTEFUL)
def test_the_code_that_is_advised_trains_the_same_to_the_last_bit(name: str, tmp_path: Path) -> None:
    path = script(tmp_path, WASTEFUL[name])
    plain, text = played(path), path.read_text()
    finding = found(path)
    assert finding is not None and finding.advice and finding.before.endswith("# wasteful")
    assert text.count(finding.before) == 1 and ("inputs=[" in finding.after or name in NO_GRADIENTS_AT_ALL)
    path.write_text(changed(text, finding))
    assert played(path) == plain


NO_GRADIENTS_AT_ALL = ("frozen by omission", "cleared by the module")


def changed(text: str, finding: Finding) -> str:
    """With the advice taken, wherever its place is indented to."""
    indent = next(line for line in text.splitlines() if finding.before.splitlines()[0] in line).partition(
        finding.before.splitlines()[0]
    )[0]
    assert textwrap.indent(finding.before, indent) in text
    return text.replace(textwrap.indent(finding.before, indent), textwrap.indent(finding.after, indent))


# Distillation as it is written, without `no_grad`: {} is where the teacher is called.
DISTILLED = """
student = nn.Linear(3, 4)
optimizer = torch.optim.Adam(student.parameters())
teacher = generator
for _ in range(8):
    x = torch.randn(6, 3)
    {}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(student.weight.tolist())
"""
ON_ITS_LINE = "wanted = teacher(x).mT"
TEACHERS = {
    "on its line": (
        f"{ON_ITS_LINE}\n    loss = (student(x) - wanted.mT).square().mean()",
        ON_ITS_LINE,
        f"with torch.no_grad():\n    {ON_ITS_LINE}",
    ),
    "in the loss": (
        "loss = nn.functional.mse_loss(student(x), teacher(x))",
        "loss = nn.functional.mse_loss(student(x), teacher(x))",
        "with torch.no_grad():\n    teacher_out = teacher(x)\nloss = nn.functional.mse_loss(student(x), teacher_out)",
    ),
}


@pytest.mark.parametrize("name", TEACHERS)
def test_a_teacher_is_called_without_gradients(name: str, tmp_path: Path) -> None:
    body, before, after = TEACHERS[name]
    path = script(tmp_path, DISTILLED.format(body))
    plain, text = played(path), path.read_text()
    finding = found(path)
    assert finding is not None and finding.advice
    assert (finding.before, finding.after) == (before, after)
    line = next(i for i, code in enumerate(text.splitlines(), 1) if before in code)
    assert finding.where == f"train.py:{line}"
    assert f"nothing that is trained goes into the call at train.py:{line}; at most" in finding.evidence
    path.write_text(changed(text, finding))
    assert played(path) == plain
    assert found(path) is None, "nothing is left to do"


GOES_THROUGH = {
    "a critic": CRITIC_FIRST,
    "what a trained model made": DISTILLED.format("loss = teacher(student(x)[:, :3]).square().mean()"),
    "an input that has gradients": DISTILLED.format(
        "loss = (student(x) - teacher(x + torch.zeros(6, 3, requires_grad=True))).square().mean()"
    ),
    "one that is trained elsewhere": DISTILLED.format("loss = (student(x) - teacher(x)).square().mean()").replace(
        "student.parameters()", "[*student.parameters(), *generator.parameters()]"
    ),
}


@pytest.mark.parametrize("name", GOES_THROUGH)
def test_what_a_gradient_has_to_go_through_keeps_its_graph(name: str, tmp_path: Path) -> None:
    finding = found(script(tmp_path, GOES_THROUGH[name]))
    assert finding is None or "no_grad" not in finding.after


def test_what_is_left_out_is_not_computed(tmp_path: Path) -> None:
    path = script(tmp_path, CRITIC_FIRST)
    finding, text = found(path), path.read_text()
    assert finding is not None
    once = "\nprint(critic.weight.grad)".join(text.replace("range(8)", "range(1)").rsplit("\n", 1))
    path.write_text(once)
    whole = played(path)
    path.write_text(once.replace(finding.before, finding.after))
    assert played(path) != whole, "the critic's gradient is its own loss's alone"


ACCUMULATED = """
for i in range(16):
    loss = critic(generator(torch.randn(6, 3))).square().mean()
    loss.backward()
    if i % 4 == 3:
        for one in (optimizer_g, optimizer_d):
            one.step()
            one.zero_grad()
"""

USED_LATER = CRITIC_FIRST.replace("    optimizer_d.zero_grad()\n", "").replace("range(8):", "range(8):\n    pass")
ONCE_IN_FOUR = """
for i in range(16):
    optimizer_g.zero_grad()
    critic(generator(torch.randn(6, 3))).square().mean().backward()
    optimizer_g.step()
    if i % 4 == 3:
        optimizer_d.step()
        optimizer_d.zero_grad()
"""
ONE_OPTIMIZER = """
optimizer = torch.optim.Adam([*generator.parameters(), *critic.parameters()])
for _ in range(8):
    optimizer.zero_grad()
    critic(generator(torch.randn(6, 3))).square().mean().backward()
    optimizer.step()
"""
SHARED = """
optimizer_d = torch.optim.SGD([*critic.parameters(), *generator.parameters()], lr=0.01)
for _ in range(8):
    optimizer_g.zero_grad()
    critic(generator(torch.randn(6, 3))).square().mean().backward()
    optimizer_g.step()
    optimizer_d.step()
    optimizer_d.zero_grad()
"""
LBFGS = """
optimizer = torch.optim.LBFGS(generator.parameters(), max_iter=4)
x = torch.randn(6, 3)
def closure():
    optimizer.zero_grad()
    loss = generator(x).square().mean()
    loss.backward()
    return loss
for _ in range(8):
    optimizer.step(closure)
"""


NOT_TOLD = [ACCUMULATED, USED_LATER, ONCE_IN_FOUR, ONE_OPTIMIZER, SHARED, LBFGS]


@pytest.mark.parametrize("body", NOT_TOLD)
def test_gradients_that_an_optimizer_uses_are_none_of_them(body: str, tmp_path: Path) -> None:
    assert found(script(tmp_path, body)) is None


def inserted(line: str) -> str:
    """The generator's half, with a line behind its backward pass."""
    return CRITIC_FIRST.replace("  # wasteful\n", f"\n    {line}\n")


EVERYTHING = "[*generator.parameters(), *critic.parameters()]"

UNCLEAR = {
    "clipped together": inserted(f"nn.utils.clip_grad_norm_({EVERYTHING}, 9.0)"),
    "values clipped": inserted(f"nn.utils.clip_grad_value_({EVERYTHING}, 9.0)"),
    "their norm": inserted("nn.utils.get_total_norm([torch.ones(1)])"),
    "read by hand": inserted("print(critic.weight.grad.norm())"),
    "kept by hand": inserted("fake.retain_grad()"),
    "arguments": CRITIC_FIRST.replace("g_loss.backward()", "g_loss.backward(torch.ones(()))"),
    "a hook": "def look(p): pass\ncritic.weight.register_post_accumulate_grad_hook(look)\n" + CRITIC_FIRST,
    "an input's": CRITIC_FIRST.replace("-critic(fake)", "-critic(fake + torch.zeros(6, 4, requires_grad=True))"),
    "a scaler": "scaler = torch.amp.GradScaler('cpu', enabled=False)\n" + CRITIC_FIRST,
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_where_it_is_unclear_who_reads_them_nothing_is_said(name: str, tmp_path: Path) -> None:
    assert found(script(tmp_path, UNCLEAR[name])) is None


def test_one_function_that_trains_both_is_left_alone(tmp_path: Path) -> None:
    body = """
def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for _ in range(8):
    fake = generator(torch.randn(6, 3))
    update(optimizer_d, critic(fake.detach()).mean() - critic(torch.randn(6, 4)).mean())
    update(optimizer_g, -critic(fake).mean())
"""
    assert found(script(tmp_path, body)) is None


def test_processes_that_train_together_are_left_alone(tmp_path: Path) -> None:
    stage = Stage()
    stage.collectives.active = True
    assert found(script(tmp_path, CRITIC_FIRST), stage=stage) is None
