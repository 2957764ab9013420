"""What a person is advised to change: the place, the code before and after, and when nothing is said."""

import re
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from textwrap import indent

import pytest

from hotlap import rules
from hotlap.record import Finding, Phase, Run, SightingKind, SwitchFacts
from hotlap.source import scripts
from tests.rule_runs import HEALTHY_SHARES, calls, device_window, firing, run_of_shares, sighting
from tests.sample_runs import machine


@pytest.fixture
def run_of(tmp_path: Path) -> Callable[[str], Run]:
    """The run of a script of that text, whose own Python shows."""

    def made(text: str) -> Run:
        path = tmp_path / "train.py"
        path.write_text(text)
        run = run_of_shares({**HEALTHY_SHARES, Phase.BACKWARD: 0.3})
        return replace(run, sources={str(path): sha256(text.encode()).hexdigest()}, switches=SwitchFacts())

    return made


def found(code: str, run: Run) -> Finding:
    finding = rules.ALL[code](run, machine())
    assert finding is not None
    return finding


def test_says_where_and_what_and_at_most_how_much() -> None:
    finding = found("denormal-numbers", firing("denormal-numbers"))
    assert (finding.where, finding.before) == ("digits.py, behind its imports", "")
    assert finding.advice and not finding.try_levers
    assert re.fullmatch(r".* are denormal; at most \d+\.?\d* ms \(\d+%\) of a step is to be had\.", finding.evidence)


def _debugging(run: Run) -> Finding:
    return found("debug-left-on", replace(run, switches=SwitchFacts(anomaly_mode=True)))


def test_what_stands_on_several_lines_is_shown_whole(run_of: Callable[[str], Run]) -> None:
    finding = _debugging(
        run_of("from torch import autograd as o\nif y:\n    o.set_detect_anomaly(\n        True,\n    )  # on\n")
    )
    assert (finding.where, finding.before, finding.after) == (
        "train.py:3", "o.set_detect_anomaly(\n    True,\n)  # on", "torch.autograd.set_detect_anomaly(False)  # on",
    )  # fmt: skip


@pytest.mark.parametrize(("name", "after"), [("SGD", "items = nn.Embedding(9, 4, sparse=True)"), ("Adam", "")])
def test_sparse_gradients_are_written_for_optimizers_that_take_them(
    run_of: Callable[[str], Run], name: str, after: str
) -> None:
    run = firing("dense-embedding-gradients")
    (one,) = run.optimizers
    own = replace(one, name=f"torch.optim.{name}", settings={"momentum": "0.0", "weight_decay": "0.0"})
    script = run_of("from torch import nn\nitems = nn.Embedding(9, 4)\n")
    finding = found("dense-embedding-gradients", replace(run, sources=script.sources, optimizers=(own,)))
    assert finding.after == after


def test_of_a_script_that_changed_or_is_gone_no_code_is_shown(run_of: Callable[[str], Run], tmp_path: Path) -> None:
    run = run_of("import torch\ntorch.autograd.set_detect_anomaly(True)")
    assert _debugging(run).after
    (tmp_path / "train.py").write_text("import torch\ntorch.autograd.set_detect_anomaly(True)  # again")
    assert not _debugging(run).after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("from torch import autograd\nautograd.set_detect_anomaly(True)\n", "torch.autograd.set_detect_anomaly(False)"),
        ("from torch.autograd import set_detect_anomaly as look\nlook(mode=True)\n", "torch.autograd.set_detect_"),
        ("import torch.autograd as ag\nwith ag.detect_anomaly():\n    pass\n", "with torch.autograd.set_detect_"),
        ("import torch, sys\ntorch.autograd.set_detect_anomaly('--debug' in sys.argv)\n", ""),
        ("def set_detect_anomaly(on): ...\nset_detect_anomaly(True)\n", ""),
    ],
)
def test_a_debug_switch_is_shown_where_a_constant_sets_it(run_of: Callable[[str], Run], text: str, after: str) -> None:
    finding = found("debug-left-on", replace(run_of(text), switches=SwitchFacts(anomaly_mode=True)))
    assert finding.after.startswith(after) and bool(finding.after) == bool(after)


def test_deterministic_algorithms_stay_and_only_the_filling_goes(run_of: Callable[[str], Run]) -> None:
    finding = found("debug-left-on", replace(run_of(""), switches=SwitchFacts(deterministic=True)))
    assert "fill_uninitialized_memory = False" in finding.after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (
            "x = x.double()\nmodel = Net().double().to(device)\nSGD(model.parameters())\n",
            "model = Net().float().to(device)",
        ),
        ("net.double().train()\nfit(net.parameters())\n", "net.float().train()"),
        ("fit(net.parameters())\nclose += ((out - y).abs() < 0.1).double().mean()\n", ""),
        ("import torch\ntorch.set_default_dtype(torch.float64)\n", "torch.set_default_dtype(torch.float32)"),
        ("import torch\nx = torch.zeros(3, dtype=torch.float64)\n", ""),
    ],
)
def test_double_precision_is_shown_where_the_script_asks_for_it(
    run_of: Callable[[str], Run], text: str, after: str
) -> None:
    run = replace(firing("double-precision"), sources=run_of(text).sources)
    assert found("double-precision", run).after == after


IN_VAIN = {
    "guess = net(x).argmax(1)": "with torch.no_grad():\n    guess = net(x).argmax(1)",
    "right += (net(x).argmax(1) == y).sum()": (
        "with torch.no_grad():\n    net_out = net(x)\nright += (net_out.argmax(1) == y).sum()"
    ),
    "loss = F.mse_loss(out, y) + 0 * norm(net(x))": (
        "with torch.no_grad():\n    net_out = net(x)\nloss = F.mse_loss(out, y) + 0 * norm(net_out)"
    ),
    "value = accuracy(\n    net(x),\n    y,\n)": (
        "with torch.no_grad():\n    net_out = net(x)\nvalue = accuracy(\n    net_out,\n    y,\n)"
    ),
    "if late: guess = net(x)": "",
    "guess = [net(part) for part in x]": "",
    "for row in net(x):\n    print(row)": "",
}


@pytest.mark.parametrize("text", IN_VAIN)
def test_a_forward_pass_in_vain_is_shown_under_no_grad_alone(run_of: Callable[[str], Run], text: str) -> None:
    run = run_of(f"for x, y in z:\n{indent(text, '    ')}\n")
    (script,) = scripts(run)
    call = next(call for call in script.all_calls if script.code(call.func) == "net")
    span = {"end_line": call.end_lineno or 0, "col": call.col_offset, "end_col": call.end_col_offset or 0}
    seen = sighting(SightingKind.WASTED_FORWARD, cost_s=0.5 * run.mean_step_s(), **span)
    seen = replace(seen, path=script.path, line=call.lineno, text=script.text.splitlines()[call.lineno - 1].strip())
    finding = found("wasted-forward", replace(run, sightings=(seen,)))
    assert finding.after == IN_VAIN[text]
    assert finding.before and finding.where.startswith("train.py:")
    shared = replace(seen, detail={"evaluation": False})
    finding = found("wasted-forward", replace(run, sightings=(shared,)))
    assert finding.where and not finding.after, "other passes of that line are used"


def test_a_sum_of_losses_is_shown_without_waiting() -> None:
    seen = replace(sighting(SightingKind.SYNC, cost_s=0.002), what="Tensor.item", text="total += loss.item()")
    run = replace(firing("sync-bound"), sightings=(seen,))
    assert found("sync-bound", run).after == "total += loss.detach()"
    assert not found("sync-bound", replace(run, sightings=(replace(seen, text="log(loss.item())"),))).after


def test_denormal_numbers_are_told_where_they_are_slow() -> None:
    run = firing("denormal-numbers")
    assert "set_flush_denormal(True)" in found("denormal-numbers", run).after
    assert "20% are denormal" in found("denormal-numbers", run).evidence
    assert rules.ALL["denormal-numbers"](replace(run, device="NVIDIA H200"), None) is None
    half = replace(run, calls=calls(step_s=run.step_s[0], arithmetic=0.4))
    assert found("denormal-numbers", half).share < found("denormal-numbers", run).share, "Python has no such numbers"
    assert [one.code for one in rules.check(run)] == ["denormal-numbers"], "compute-bound has no edit to try"
    few = replace(run.optimizers[0], denormals=1e-4)
    assert rules.ALL["denormal-numbers"](replace(run, optimizers=(few,)), None) is None


@pytest.mark.parametrize(("text", "hides"), [("if torch.cuda.is_available(): ...", True), ("x.cuda()", False)])
def test_a_small_model_is_told_how_to_stay_on_the_cpu(run_of: Callable[[str], Run], text: str, hides: bool) -> None:
    run = replace(run_of(text), device="NVIDIA H200")
    run = replace(run, operators=replace(device_window(step_s=0.01), flops=1e6, moved_bytes=1e6))
    assert found("too-small-for-gpu", run).environment == ({"CUDA_VISIBLE_DEVICES": ""} if hides else {})
