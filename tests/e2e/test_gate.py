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
        "Sequential.0.weight, which is not trained",
    ),
    "an averaged copy with another decay": (
        "old.lerp_(new, 0.1)",
        "old.lerp_(new, 0.2)",
        "times as far as in the baseline",
    ),
    "statistics that stand still": ("BatchNorm1d(32)", "BatchNorm1d(32, momentum=0.0)", "running_mean"),
    "a dropout that is off": ("torch.nn.Dropout(0.1)", "torch.nn.Identity()", "with gradients draw no random numbers"),
    "one of two dropouts that is off": (
        "torch.nn.Tanh(),\n        torch.nn.Dropout(0.1)",
        "torch.nn.Tanh(),\n        torch.nn.Identity()",
        "in 1 call; in the baseline",
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
        '        torch.save(model.state_dict(), "last.pt")\n',
        "",
        "does not write last.pt; in the baseline it does",
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
    saving = gate_runs_of(launcher, options, replace(SIZES, evidence_steps=60))
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
    ):
        ruling = saving.judge((), replaced={str(SAVED): text.replace(old, new)}, numerics=Numerics.ROUNDING)
        assert ruling.verdict is Verdict.HARMED and said in ruling.why, ruling.why
    same = saving.judge((), replaced={str(SAVED): f"{text}# nothing changed\n"})
    assert same.verdict is Verdict.UNHARMED
