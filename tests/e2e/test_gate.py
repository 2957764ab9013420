"""What the gate refuses, from real runs of tiny scripts."""

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hotlap.experiment import Sizes
from hotlap.launch import Launcher
from hotlap.levers import Numerics
from hotlap.record import Verdict, as_float
from hotlap.search import GateRuns
from hotlap.tune import Options, StudyLog
from tests.e2e.running import SCRIPTS
from tests.unit.tune.world import MACHINE, Silent, new_study

pytestmark = pytest.mark.e2e

SIZES = Sizes(step_s=0.001, setup_s=5.0, block=11, steps=60, warmup=5, evidence_steps=24, together=4, cores=2.0)
SCRIPT = SCRIPTS / "refused.py"
SAVED = SCRIPTS / "saved.py"
IN_PARTS = SCRIPTS / "in_parts.py"
VALIDATED = SCRIPTS / "validated.py"
ACTS = SCRIPTS / "acts.py"
DROPPED = SCRIPTS / "dropped.py"


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    with Launcher(environment=lambda plan: {}, folders=[SCRIPTS], timeout_s=400.0, templates=True) as launcher:
        yield launcher


def gate_runs(launcher: Launcher, kind: str) -> GateRuns:
    options = Options(command=(sys.executable, str(SCRIPT), kind), cwd=str(SCRIPTS), title=SCRIPT.name)
    return gate_runs_of(launcher, options, SIZES)


def gate_runs_of(launcher: Launcher, options: Options, sizes: Sizes) -> GateRuns:
    log = StudyLog(new_study(options), options, MACHINE, launcher, Silent())
    return GateRuns(log, log.executor(sizes))


def test_an_update_that_misses_rows_of_a_strided_parameter_is_refused(launcher: Launcher) -> None:
    """Fused by hand: the lever itself steps aside for such a parameter."""
    text = SCRIPT.read_text()
    fused = text.replace("lr=0.01)", "lr=0.01, fused=True)")
    assert fused != text
    judging = gate_runs(launcher, "strided")
    ruling = judging.judge(({"name": "fused-optimizer"},), replaced={str(SCRIPT): fused})
    assert ruling.verdict is Verdict.HARMED, ruling.why
    same = judging.judge(({"name": "fused-optimizer"},), replaced={str(SCRIPT): f"{text}# nothing changed\n"})
    assert same.verdict is Verdict.UNHARMED, "it is not the script that is refused"


@pytest.mark.slow  # the same of recorded losses, under every contract: tests/unit/gate/test_gate.py
def test_a_loss_that_is_nan_from_the_start_leaves_nothing_to_pass(launcher: Launcher) -> None:
    judging = gate_runs(launcher, "nan")
    ruling = judging.judge(({"name": "threads", "count": 2},))
    assert ruling.verdict is not Verdict.UNHARMED
    assert "finite" in ruling.why or "NaN" in ruling.why
    losses = [as_float(loss) for run in judging.known for loss in run.loss]
    assert losses and all(loss != loss for loss in losses)  # noqa: PLR0124 - NaN is what differs from itself


UNSEEN_IN_THE_LOSS = {
    "an average of the weights that is not updated": ("            average.update(model)\n", "", "Average.shadow"),
    "an averaged copy that is not updated": (
        "old.lerp_(new, 0.1)",
        "pass",
        "Sequential (2 of 2).0.weight, which is not trained",
    ),
    "an averaged copy with another decay": (
        "old.lerp_(new, 0.1)",
        "old.lerp_(new, 0.2)",
        "times as far as in the baseline",
    ),
    "statistics that stand still": (
        "BatchNorm1d(32)",
        "BatchNorm1d(32, momentum=0.0)",
        "where it has eps 1e-05, momentum 0.1, training True",
    ),
    "a dropout that is off": ("torch.nn.Dropout(0.1)", "torch.nn.Identity()", "with gradients draw no random numbers"),
    "one of two dropouts that is off": (
        "torch.nn.Tanh(),\n        torch.nn.Dropout(0.1)",
        "torch.nn.Tanh(),\n        torch.nn.Identity()",
        "in 2 calls; in the baseline",
    ),
    "a limit of gradients that none reaches here": (
        "parameters(), 1000.0",
        "parameters(), 2000.0",
        "norm 2000 instead of norm 1000",
    ),
    "gradients that are not clipped": (
        "            torch.nn.utils.clip_grad_norm_(model.parameters(), 1000.0)\n",
        "",
        "none instead of norm 1000",
    ),
    "a checkpoint that is not written": (
        '        torch.save(parts, "last.pt")\n',
        "",
        "does not write last.pt; in the baseline it does",
    ),
    "a checkpoint of another model": (
        '"model": model.',
        '"model": copied.',
        "The file last.pt (model) has other settings or counters",
    ),
    "half the epochs": ("range(100)", "range(50)", "make 1,600 steps; in the baseline 3,200"),
    "a dropout that is left on": ("        model.eval()\n", "", "without gradients draw random numbers at step 32"),
    "a validation that is wrong": ("{held_out:.4f}", "{1.05 * held_out:.4f}", "the script prints"),
    "a schedule that is not stepped": ("            schedule.step()\n", "", "StepLR has other settings or counters"),
}


def test_what_no_training_loss_shows_is_refused_and_another_text_is_not(launcher: Launcher) -> None:
    """A script that makes more than trained weights. One test for all: the baseline runs are made once, and others are
    forks only where no variable of the environment differs, which one of pytest's does from test to test."""
    options = Options(command=(sys.executable, str(SAVED)), cwd=str(SCRIPTS), title=SAVED.name)
    saving = gate_runs_of(launcher, options, replace(SIZES, evidence_steps=40))  # an epoch has 32
    text = SAVED.read_text()
    for name, (old, new, said) in UNSEEN_IN_THE_LOSS.items():
        assert old in text
        ruling = saving.judge((), replaced={str(SAVED): text.replace(old, new)})
        assert ruling.verdict is Verdict.HARMED, name
        assert said in ruling.why, name
    # Its losses are bit-equal, so that less than bits would do.
    for old, new, said in (
        ("step(held_out)", "step(loss)", "the script gives"),
        ("Plateau(optimizer)", "Plateau(optimizer, factor=0.2)", "ReduceLROnPlateau has other settings"),
        ("value.clone()", "value", "follows the training"),
        ('"model": model.', '"model": copied.', "The file last.pt (model) has other"),
        (": average.shadow", ": dict(model.named_parameters())", "The file last.pt (average) is another one"),
        ('"average": average.shadow, ', "", "The file last.pt (average) is not written"),
    ):
        ruling = saving.judge((), replaced={str(SAVED): text.replace(old, new)}, numerics=Numerics.ROUNDING)
        assert ruling.verdict is Verdict.HARMED and said in ruling.why, ruling.why
    same = saving.judge((), replaced={str(SAVED): f"{text}# nothing changed\n"})
    assert same.verdict is Verdict.UNHARMED


HARMLESS_IN_PARTS = {
    "no graph of what is frozen": (
        "            features = torch.relu(trunk(x))\n",
        "            with torch.no_grad():\n                features = torch.relu(trunk(x))\n",
    ),
    "a critic that needs no gradients while the head is trained": (
        "            loss = nn.functional.mse_loss(made, y) - 0.1 * critic(made).mean()\n",
        "            critic.requires_grad_(False)\n"
        "            loss = nn.functional.mse_loss(made, y) - 0.1 * critic(made).mean()\n"
        "            critic.requires_grad_(True)\n",
    ),
    "a critic that needs none at the end of a step": (
        "            loss = critic(made.detach()).mean() - critic(y).mean()\n",
        "            critic.requires_grad_(True)\n            loss = critic(made.detach()).mean() - critic(y).mean()\n",
        "            loss = nn.functional.mse_loss",
        "            critic.requires_grad_(False)\n            loss = nn.functional.mse_loss",
    ),
}
HARMFUL_IN_PARTS = {
    "half of the samples": ("trunk(x)", "trunk(x[:8])", "made, y)", "made, y[:8])", "critic(y)", "critic(y[:8])"),
    "a critic with gradients of another loss": (
        "            of_critic.zero_grad()\n",
        "",
        "            of_critic.step()\n",
        "            of_critic.step()\n            of_critic.zero_grad()\n",
    ),
    "a critic that is never trained": ("            of_critic.step()\n", ""),
}


def edited(text: str, edits: tuple[str, ...]) -> str:
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    return text


def test_models_that_are_called_in_a_row_may_be_edited(launcher: Launcher) -> None:
    """A frozen part that builds no graph is given no samples to train on, and what is frozen for a while is trained."""
    options = Options(command=(sys.executable, str(IN_PARTS)), cwd=str(SCRIPTS), title=IN_PARTS.name)
    gate, text = gate_runs_of(launcher, options, SIZES), IN_PARTS.read_text()
    for name, edits in HARMLESS_IN_PARTS.items():
        ruling = gate.judge((), replaced={str(IN_PARTS): edited(text, edits)})
        assert ruling.verdict is Verdict.UNHARMED, f"{name}: {ruling.why}"
    for name, edits in HARMFUL_IN_PARTS.items():
        ruling = gate.judge((), replaced={str(IN_PARTS): edited(text, edits)})
        assert ruling.verdict is Verdict.HARMED, f"{name}: {ruling.why}"


HARMFUL_IN_VALIDATION = {
    "between steps 15 and 16 has other batches": (
        "in held_out:\n",
        "in itertools.islice(held_out, 4):\n",
        "import logging\n",
        "import itertools, logging\n",
    ),
    "validates 1 time in 40 steps; in the baseline 2": (
        "    with torch.no_grad():\n        for",
        "    with torch.no_grad():\n        for inputs, target in held_out if epoch % 2 == 0 else ():\n"
        "            total += torch.nn.functional.mse_loss(model(inputs), target).item()\n        for",
        "in held_out:\n",
        "in ():\n",
    ),
    "the script prints": ("total / 384)", "total / 380)"),
}


def test_another_validation_is_refused_whatever_is_promised_and_one_in_other_batches_is_not(launcher: Launcher) -> None:
    options = Options(command=(sys.executable, str(VALIDATED)), cwd=str(SCRIPTS), title=VALIDATED.name)
    gate, text = gate_runs_of(launcher, options, replace(SIZES, evidence_steps=40)), VALIDATED.read_text()
    for said, edits in HARMFUL_IN_VALIDATION.items():
        ruling = gate.judge((), replaced={str(VALIDATED): edited(text, edits)})
        assert ruling.verdict is Verdict.HARMED and said in ruling.why, ruling.why
        if "prints" not in said:
            assert gate.harm_by(Numerics.STATISTICAL) is not None, said
    merged = edited(text, ("batch_size=48", "batch_size=192"))
    ruling = gate.judge((), replaced={str(VALIDATED): merged}, numerics=Numerics.ROUNDING)
    assert ruling.verdict is Verdict.UNHARMED, ruling.why


GRADIENTS_FOR_NOBODY = {
    "a validation": ("def validate", "@torch.no_grad()\ndef validate"),
    "acting": ("model(x[step : step + 1]).item()", "torch.no_grad()(model)(x[step : step + 1]).item()"),
}


def test_gradients_that_nobody_asks_for_may_go_where_batches_are_drawn_by_hand(launcher: Launcher) -> None:
    """What a model is given without being trained on is no batch; bits hold."""
    options = Options(command=(sys.executable, str(ACTS)), cwd=str(SCRIPTS), title=ACTS.name)
    gate, text = gate_runs_of(launcher, options, replace(SIZES, evidence_steps=40)), ACTS.read_text()
    for name, edits in GRADIENTS_FOR_NOBODY.items():
        ruling = gate.judge((), replaced={str(ACTS): edited(text, edits)})
        assert ruling.verdict is Verdict.UNHARMED and "bit-equal" in ruling.why, f"{name}: {ruling.why}"
    fewer = edited(text, ("range(512, 640, 64)", "range(512, 576, 64)", "total / 2", "total"))
    ruling = gate.judge((), replaced={str(ACTS): fewer})
    assert ruling.verdict is Verdict.HARMED and "the script prints" in ruling.why, ruling.why


BY_HAND = """        scores = q @ k.transpose(1, 2) / 4
        weights = scores.masked_fill(padding[:, None], float("-inf")).softmax(-1)
        return self.told(self.dropout(weights) @ v)
"""
FUSED = """        p = 0.3 if self.training else 0.0
        return self.told(functional.scaled_dot_product_attention(q, k, v, ~padding[:, None], p))
"""
NOISE = "teacher(x + 0.3 * torch.randn_like(x) * real)"
HARMLESS_BESIDE_DROPOUTS: dict[str, tuple[str, ...]] = {
    "attention in one kernel, the graph on the other side": (
        BY_HAND,
        FUSED,
        "norm @ torch.tanh(self.embedded(x))",
        'torch.einsum("ij,bjc->bic", norm, torch.tanh(self.embedded(x)))',
    ),
    "channels in front, so that elements are dropped in another order; weights that backward computes again": (
        "self.dropout(norm @ torch.tanh(self.embedded(x)))",
        "self.dropout((norm @ torch.tanh(self.embedded(x))).transpose(1, 2).contiguous()).transpose(1, 2)",
        "self.told(self.dropout(weights) @ v)",
        "self.told(torch.utils.checkpoint.checkpoint(self.weighted, weights, v, use_reentrant=False))\n\n"
        "    def weighted(self, weights, v):\n"
        "        return functional.dropout(weights, 0.3, self.training) @ v",
    ),
}
HARMFUL_BESIDE_DROPOUTS: dict[str, tuple[str, ...]] = {
    "a mask that leaks": ('masked_fill(padding[:, None], float("-inf"))', "masked_fill(padding[:, None], -4.0)"),
    "a graph normalised by rows": (
        "beside.sum(0).rsqrt()[:, None] * beside * beside.sum(1).rsqrt()",
        "beside / beside.sum(1, keepdim=True)",
    ),
    "one noise for both": (NOISE, "teacher(noisy)"),
}


def test_what_dropouts_hide_is_refused_and_another_order_of_what_they_drop_is_not(launcher: Launcher) -> None:
    options = Options(command=(sys.executable, str(DROPPED)), cwd=str(SCRIPTS), title=DROPPED.name)
    gate, text = gate_runs_of(launcher, options, SIZES), DROPPED.read_text()  # harm shows before any update
    for name, edits in HARMLESS_BESIDE_DROPOUTS.items():
        ruling = gate.judge((), replaced={str(DROPPED): edited(text, edits)}, numerics=Numerics.STATISTICAL)
        assert ruling.verdict is Verdict.UNHARMED, f"{name}: {ruling.why}"
    for name, edits in HARMFUL_BESIDE_DROPOUTS.items():
        ruling = gate.judge((), replaced={str(DROPPED): edited(text, edits)}, numerics=Numerics.STATISTICAL)
        assert ruling.verdict is Verdict.HARMED, f"{name}: {ruling.why}"
