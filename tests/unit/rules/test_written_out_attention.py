"""Attention that is written out: the code that is advised means the same, and what is something else is left alone."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from textwrap import indent

import pytest
import torch

from hotlap.record import Finding, Operator, Phase, Run
from hotlap.rules import written_out_attention
from tests.rule_runs import HEALTHY_SHARES, device_window, run_of_shares

HEAD = """\
import math
import torch
import torch.nn.functional as F
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.0)
        self.attend = nn.Softmax(dim=-1)
        self.attn = nn.MultiheadAttention(width, 2)
        self.scale = width ** -0.5
        self.register_buffer("mask", torch.tril(torch.ones(7, 7)))

    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
"""


def run_of(folder: Path, body: str) -> Run:
    path = folder / "train.py"
    path.write_text(HEAD + indent(body, "        "))
    run = run_of_shares({**HEALTHY_SHARES, Phase.BACKWARD: 0.3})
    return replace(run, sources={str(path): sha256(path.read_bytes()).hexdigest()}, operators=None)


def found(folder: Path, body: str) -> Finding | None:
    return written_out_attention.check(run_of(folder, body))


SAME = {
    "minGPT": """\
att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
att = att.masked_fill(self.mask[:7, :7] == 0, float("-inf"))
att = F.softmax(att, dim=-1)
att = self.drop(att)
y = att @ v
return y.relu()
""",
    "a mask made in between": """\
scores = (q @ k.transpose(-2, -1)) / 8.0
ahead = torch.ones(7, 7, dtype=torch.bool).triu(1)
mixed = F.softmax(scores.masked_fill(ahead, float("-inf")), dim=-1) @ v
return mixed
""",
    "added mask": """\
scores = torch.bmm(q, k.mT)
scores = self.scale * scores + (1.0 - self.mask) * -10000.0
weights = scores.softmax(dim=-1)
out = weights.matmul(v)
return out
""",
    "a layer for the softmax": """\
dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
attn = self.attend(dots)
return torch.matmul(attn, v)
""",
    "one expression": "return F.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1) @ v\n",
    "casts": "w = torch.softmax((q @ k.mT).float(), dim=-1).type_as(v)\nreturn w @ v\n",
    "keys turned before": "w = torch.softmax(q.matmul(k.permute(0, 2, 1)), -1)\nreturn w @ v\n",
    "weights that are thrown away": "out, _ = self.attn(q, k, v)\nreturn out\n",
    "the first of two results": "return self.attn(q, k, v)[0]\n",
}


@pytest.mark.parametrize("name", SAME)
def test_the_code_that_is_advised_means_the_same(tmp_path: Path, name: str) -> None:
    finding = found(tmp_path, SAME[name])
    assert finding is not None and finding.advice
    assert "scaled_dot_product_attention(" in finding.after or "need_weights=False)" in finding.after
    text, results = (tmp_path / "train.py").read_text(), []
    assert text.count(finding.before) == 1
    for one in (text, text.replace(finding.before, finding.after)):
        names: dict[str, object] = {}
        exec(compile(one, "train.py", "exec"), names)
        torch.manual_seed(0)
        model = names["Attention"](6)  # type: ignore[operator]
        x = torch.randn(2, 7, 6, requires_grad=True)
        out = model(x)
        out.square().sum().backward()
        assert x.grad is not None
        results.append((out.detach(), x.grad))
    for plain, fused in zip(*results, strict=True):
        torch.testing.assert_close(plain, fused)


OTHER = {
    "over another dimension": "w = F.softmax(q @ k.mT, dim=-2)\nreturn w @ v\n",
    "masked behind the softmax": "w = F.softmax(q @ k.mT, dim=-1)\nw = w.masked_fill(mask == 0, -1e9)\nreturn w @ v\n",
    "scaled behind a bias": "s = (q @ k.mT + self.mask) * self.scale\nreturn F.softmax(s, dim=-1) @ v\n",
    "two masks": (
        "s = (q @ k.mT).masked_fill(self.mask == 0, -1e9).masked_fill(mask == 0, -1e9)\n"
        "return F.softmax(s, dim=-1) @ v\n"
    ),
    "another function in between": "w = F.softmax(torch.tanh(q @ k.mT), dim=-1)\nreturn w @ v\n",
    "something else than dropout": "w = self.qkv(F.softmax(q @ k.mT, dim=-1))\nreturn w @ v\n",
    "scores of no product": "w = F.softmax(q * k, dim=-1)\nreturn w @ v\n",
    "weights that are used": "out, weights = self.attn(q, k, v)\nreturn out, weights\n",
    "weights that are asked for": "out, _ = self.attn(q, k, v, need_weights=True)\nreturn out\n",
    "second derivatives": "torch.autograd.grad(q, x, create_graph=True)\nreturn F.softmax(q @ k.mT, dim=-1) @ v\n",
}


@pytest.mark.parametrize("name", OTHER)
def test_what_is_something_else_is_left_alone(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, OTHER[name]) is None


def test_it_brings_no_more_than_operators_of_attention_take(tmp_path: Path) -> None:
    run = run_of(tmp_path, SAME["one expression"])
    seen = device_window(step_s=0.01)
    names = {"aten::bmm": 0.001, "aten::_softmax": 0.001, "aten::addmm": 0.005}
    operators = tuple(Operator(name=name, per_step=1, self_s=seconds) for name, seconds in names.items())
    run = replace(run, operators=replace(seen, operators=operators, wall_s=0.01))
    finding = written_out_attention.check(run)
    assert finding is not None and finding.cost_s == pytest.approx(0.002)
    few = replace(seen, operators=operators[2:], wall_s=0.01)
    assert written_out_attention.check(replace(run, operators=few)) is None
