"""Attention that is written out is found, replaced by one operator, and means the same; near misses are left alone."""

from pathlib import Path
from textwrap import indent

import pytest
import torch

from hotlap.levers.sdpa import Sdpa
from hotlap.source import patch
from tests.conformance.recorded import OWN, SCRIPTS, run_of
from tests.sample_runs import machine

HEAD = """\
import math
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.0)
        self.attend = nn.Softmax(dim=-1)
        self.scale = width ** -0.5
        self.register_buffer("mask", torch.tril(torch.ones(7, 7)))

    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
"""


def script(folder: Path, body: str, *, head: str = HEAD) -> Path:
    path = folder / "train.py"
    path.write_text(head + indent(body, "        "))
    return path


def changed(path: Path) -> str | None:
    """The patched text; None where nothing is changed."""
    return patch(Sdpa().edits(run_of(path)), root=path.parent).texts.get(str(path))


CAUSAL = {
    "a mask made in between": """\
scores = (q @ k.transpose(-2, -1)) / 8.0
ahead = torch.ones(7, 7, dtype=torch.bool).triu(1)
mixed = F.softmax(scores.masked_fill(ahead, float("-inf")), dim=-1) @ v
return mixed
""",
    "minGPT": """\
att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
att = att.masked_fill(self.mask[:7, :7] == 0, float("-inf"))
att = F.softmax(att, dim=-1)
att = self.drop(att)
y = att @ v
return y.relu()
""",
    "a triangle that is turned around": """\
seen = torch.tril(torch.ones((x.size(1), x.size(1)))).bool()[None]
w = (q @ k.mT).masked_fill(~seen, -1e9)
return torch.softmax(w, dim=-1) @ v
""",
}

SAME = CAUSAL | {
    "plain": """\
att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
att = F.softmax(att, dim=-1)
return att @ v
""",
    "mask if there is one": """\
scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale
if mask is not None:
    scores = scores.masked_fill(mask == 0, -1e9)
weights = torch.softmax(scores, -1)
return torch.matmul(weights, v)
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
attn = F.dropout(attn, p=0.0, training=self.training)
return torch.matmul(attn, v)
""",
    "in place, no scale": """\
s = q @ k.transpose(-2, -1)
s /= 3
s = s.masked_fill(~(self.mask > 0), -math.inf)
return (nn.Softmax(dim=-1)(s.float()).type_as(v) @ v)
""",
    "one expression": "return F.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1) @ v\n",
    "values and a scale in between": """\
w = q @ k.mT
scale = 0.5
w = F.softmax(w * scale, dim=-1)
v = v * 2
return w @ v
""",
    "keys turned before": """\
w = torch.softmax(q.matmul(k.permute(0, 2, 1)), dim=-1)
return w @ v
""",
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
@pytest.mark.parametrize("given", [False, True])
def test_the_change_means_the_same(tmp_path: Path, body: str, given: bool) -> None:
    path = script(tmp_path, body)
    new = changed(path)
    assert new is not None and "scaled_dot_product_attention" in new and "oftmax(" not in new.partition("forward")[2]
    results = []
    for text in (path.read_text(), new):
        names: dict[str, object] = {}
        exec(compile(text, "train.py", "exec"), names)
        torch.manual_seed(0)
        model = names["Attention"](6)  # type: ignore[operator]
        x = torch.randn(2, 7, 6, requires_grad=True)
        out = model(x, torch.tril(torch.ones(7, 7)) if given else None)
        out.square().sum().backward()
        assert x.grad is not None
        results.append((out.detach(), x.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("body", CAUSAL.values(), ids=CAUSAL)
def test_a_causal_mask_is_said_in_a_word(tmp_path: Path, body: str) -> None:
    new = changed(script(tmp_path, body))
    assert new is not None and "is_causal=True" in new and "attn_mask" not in new
    assert "ahead" not in new and "torch.ones(7, 7, dtype" not in new, "nobody reads it any more"


NOT_CAUSAL = {
    "itself hidden": "m = torch.ones(7, 7, dtype=torch.bool).triu()\n",
    "one more seen": "m = torch.ones(7, 7, dtype=torch.bool).triu(2)\n",
    "earlier ones hidden": "m = torch.ones(7, 7, dtype=torch.bool).tril(-1)\n",
    "not square": "m = torch.ones(1, 7, dtype=torch.bool).triu(1)\n",
    "random": "m = torch.rand(7, 7).triu(1) > 0.5\n",
}


@pytest.mark.parametrize("made", NOT_CAUSAL.values(), ids=NOT_CAUSAL)
def test_other_masks_are_passed_on(tmp_path: Path, made: str) -> None:
    body = f"s = q @ k.mT\n{made}return F.softmax(s.masked_fill(m, -1e9), dim=-1) @ v\n"
    new = changed(script(tmp_path, body))
    assert new is not None and "attn_mask=~m" in new and made in new


OTHER = {
    "over another dimension": "w = F.softmax(q @ k.mT, dim=-2)\nreturn w @ v\n",
    "weights are used elsewhere": "w = F.softmax(q @ k.mT, dim=-1)\nself.last = w\nreturn w @ v\n",
    "weights are returned, too": "w = F.softmax(q @ k.mT, dim=-1)\nreturn w @ v, w\n",
    "scores are read elsewhere": "s = q @ k.mT\nw = F.softmax(s, dim=-1)\nx = w @ v\nreturn x + s.sum()\n",
    "masked behind the softmax": "w = F.softmax(q @ k.mT, dim=-1)\nw = w.masked_fill(mask == 0, -1e9)\nreturn w @ v\n",
    "a mild penalty": "s = (q @ k.mT).masked_fill(self.mask == 0, -1.0)\nreturn F.softmax(s, dim=-1) @ v\n",
    "scaled behind a bias": "s = (q @ k.mT + self.mask) * self.scale\nreturn F.softmax(s, dim=-1) @ v\n",
    "two masks": (
        "s = (q @ k.mT).masked_fill(self.mask == 0, -1e9).masked_fill(mask == 0, -1e9)\n"
        "return F.softmax(s, dim=-1) @ v\n"
    ),
    "another function in between": "w = F.softmax(torch.tanh(q @ k.mT), dim=-1)\nreturn w @ v\n",
    "a query that changes": "s = q @ k.mT\nq = q * 2\nw = F.softmax(s, dim=-1)\nreturn w @ v + q\n",
    "a change in place": "s = q @ k.mT\nm = q.mul_(2)\nw = F.softmax(s, dim=-1)\nreturn w @ v + m\n",
    "scores read in between": "s = q @ k.mT\nn = s.sum()\nw = F.softmax(s, dim=-1)\nreturn w @ v * n\n",
    "a call in between": "s = q @ k.mT\nprint(q)\nw = F.softmax(s, dim=-1)\nreturn w @ v\n",
    "something else than dropout": "w = self.qkv(F.softmax(q @ k.mT, dim=-1))\nreturn w @ v\n",
    "scores of no product": "w = F.softmax(q * k, dim=-1)\nreturn w @ v\n",
    "dimensions that may be others": "w = F.softmax(q @ k.transpose(1, 0), dim=-1)\nw = w + 1\nreturn w @ v\n",
}


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
def test_what_is_written_otherwise_is_left_alone(tmp_path: Path, body: str) -> None:
    assert changed(script(tmp_path, body)) is None
    reason = Sdpa().rejects(run_of(tmp_path / "train.py"), machine())
    assert reason is not None and "No attention is written out" in reason


def test_second_derivatives_are_refused(tmp_path: Path) -> None:
    path = script(tmp_path, SAME["plain"])
    assert Sdpa().rejects(run_of(path), machine()) is None
    path.write_text(path.read_text() + "\ntorch.autograd.grad(y, x, create_graph=True)\n")
    reason = Sdpa().rejects(run_of(path), machine())
    assert reason is not None and "create_graph" in reason


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("out, _ = self.attn(x, x, x)", True),
        ("out = self.attn(x, x, x, attn_mask=m)[0]", True),
        ("out, weights = self.attn(x, x, x)", True),
        ("out, weights = self.attn(x, x, x); print(weights)", False),
        ("out, _ = self.attn(x, x, x, need_weights=True)", False),
        ("out, _ = self.attn(x, x, x, None, True)", False),
        ("out, _ = self.attn(*given)", False),
        ("out = self.attn(x, x, x)", False),
        ("out, _ = self.other(x, x, x)", False),
    ],
)
def test_weights_that_are_thrown_away_are_not_asked_for(tmp_path: Path, line: str, taken: bool) -> None:
    head = HEAD.replace("self.attend = nn.Softmax(dim=-1)", "self.attn = nn.MultiheadAttention(6, 2)")
    new = changed(script(tmp_path, f"{line}\nreturn out\n", head=head))
    assert (new is not None) == taken
    if new is not None:
        assert "need_weights=False)" in new


def test_scripts_without_attention_are_not_tried() -> None:
    for path in SCRIPTS:
        assert Sdpa().rejects(run_of(path), machine()) is not None


def test_a_name_that_the_file_lacks_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(OWN["sdpa"].read_text())
    new = changed(path)
    assert new is not None and "from torch.nn import functional as F\n" in new


def test_lines_of_what_is_written_have_the_margin_of_what_was_there(tmp_path: Path) -> None:
    body = """\
att = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(k.size(-1)), dim=-1)
att = self.drop(att)
return torch.cat([
    att @ v,
    x,
])
"""
    new = changed(script(tmp_path, body))
    assert new is not None and new.endswith("""\
        return torch.cat([
            F.scaled_dot_product_attention(
                q, k, v, dropout_p=self.drop.p if self.drop.training else 0.0, scale=1 / math.sqrt(k.size(-1))
            ),
            x,
        ])
""")
