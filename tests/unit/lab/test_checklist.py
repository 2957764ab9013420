"""checklist: each recommendation on a script, by what was measured."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotlap import levers, rules
from hotlap.errors import UserError
from hotlap.lab import Settings, checklist
from hotlap.machine import checks as checks_folder
from hotlap.record import Checkup, Complaint, Finding, Interval, Study, Trial, Verdict, Weight
from tests.sample_runs import machine, run_with
from tests.unit.lab import samples


def interval(low: float, high: float) -> Interval:
    return Interval(low=low, mid=(low + high) / 2, high=high)


def trial(name: str, speedup: Interval | None, **changes: Any) -> Trial:
    return Trial(levers=({"name": name},), speedup=speedup, **changes)


ACCEPTED = trial(
    "cached-dataset", interval(2.0, 2.4), accepted=True, verdict=Verdict.UNHARMED, why="Losses are bit-equal."
)
HARMED = trial("bf16-autocast", interval(1.3, 1.5), verdict=Verdict.HARMED, why="Losses drift away.")
NO_GAIN = trial("fused-optimizer", interval(0.98, 1.03), why="No gain of 1.02x in 2 processes.")
REJECTED = trial("cudnn-benchmark", None, why="Not tried. The training runs on the CPU.")


def known(*trials: Trial, device: str = "cpu", **changes: Any) -> Study:
    return Study(
        command=("train.py",),
        cwd="/tmp",
        created="2026-01-01T00:00:00+00:00",
        key="",
        machine=machine(),
        baseline=(run_with(device=device),),
        trials=trials,
        **changes,
    )


HERE = Checkup(machine=machine(), created="")


def rows(study: Study, here: Checkup = HERE) -> dict[str, tuple[Any, str, str]]:
    result = checklist.tell(study, here, title="train.py")
    return {str(row[0]): (row[1], str(row[2]), str(row[3])) for row in result.tables[0].rows}


def test_every_recommendation_has_a_row_with_a_verdict_and_a_reason() -> None:
    found = rows(known())
    assert len(found) == len(checklist.RECOMMENDATIONS) == 17
    assert all(verdict and why.endswith(".") for _, verdict, why in found.values())


def test_an_accepted_lever_is_to_be_done_and_shows_its_interval() -> None:
    effect, verdict, why = rows(known(ACCEPTED))["Faster formats and readers"]
    assert effect == "2.20x (2.00-2.40x)"
    assert verdict == "do it"
    assert "bit-equal" in why


def test_a_lever_that_harms_training_is_not_to_be_done() -> None:
    _, verdict, why = rows(known(HARMED))["Mixed precision"]
    assert verdict == "do not: training is harmed"
    assert "drift away" in why


def test_no_gain_is_no_reason_to_do_it() -> None:
    effect, verdict, _ = rows(known(NO_GAIN))["Fused Adam"]
    assert effect == "1.00x (0.98-1.03x)"
    assert verdict == "no gain shown"


def test_slower_is_said_to_be_slower() -> None:
    slower = trial("fused-optimizer", interval(0.7, 0.8), why="No gain.")
    assert rows(known(slower))["Fused Adam"][1] == "do not: it is slower"


def test_a_gain_that_was_not_judged_is_not_proved() -> None:
    open_ = trial("fused-optimizer", interval(1.2, 1.4), why="The time was over.")
    assert rows(known(open_))["Fused Adam"][1] == "not proved"


def test_what_is_about_a_gpu_does_not_apply_to_a_cpu() -> None:
    found = rows(known(REJECTED))
    for advice in (
        "pin_memory with non_blocking",
        "Where shapes vary, preallocate",
        "cudnn.benchmark for fixed shapes",
        "Throw out needless .cpu(), .to(), .numpy()",
        "Create tensors on the device",
    ):
        assert found[advice][1] == "does not apply", advice


def test_on_a_gpu_a_rejected_lever_says_why() -> None:
    refused = trial("cudnn-benchmark", None, why="Not tried. The model has no convolution.")
    _, verdict, why = rows(known(refused, device="Some GPU"))["cudnn.benchmark for fixed shapes"]
    assert verdict == "does not apply"
    assert why == "cudnn-benchmark: The model has no convolution."


def test_waiting_for_the_device_is_told_with_its_evidence() -> None:
    finding = Finding(code="sync-bound", cost_s=0.001, share=0.5, evidence="Each step loses 1 ms at loss.item().")
    effect, verdict, why = rows(known(device="RTX 3090", findings=(finding,)))[
        "Throw out needless .cpu(), .to(), .numpy()"
    ]
    assert effect is None, "no ratio without an interval"
    assert verdict == "do it"
    assert "loss.item()" in why


def test_what_cannot_be_measured_here_names_the_command_that_tells() -> None:
    assert "`hotlap predict`" in rows(known())["A better GPU beats tricks"][2]


@pytest.mark.parametrize(("device", "without"), [("RTX 3090", "nothing to do"), ("cpu", "does not apply")])
def test_a_wrong_build_is_what_the_container_would_mend(device: str, without: str) -> None:
    wrong = Complaint(
        code="gpu-not-in-build", weight=Weight.BROKEN, what="No code for it.", cost="It runs nothing.", fix="Install."
    )
    found = known(device=device)
    assert rows(found)["NVIDIA's container: fitting CUDA, busy tensor cores"][1] == without
    _, verdict, why = rows(found, replace(HERE, complaints=(wrong,)))[
        "NVIDIA's container: fitting CUDA, busy tensor cores"
    ]
    assert verdict == "do it"
    assert why == "No code for it. It runs nothing. Install."


@pytest.mark.parametrize("refused", [(), ("native-ode",), ("native-ode", "compile")])
def test_a_levers_time_that_was_over_is_told(refused: tuple[str, ...]) -> None:
    """Also where another one behind the same recommendation does not apply."""
    trials = [trial(name, None, why="Not tried. It does not fit.") for name in refused]
    _, verdict, why = rows(known(*trials))["Fusing with a compiler"]
    assert verdict == "not tried"
    assert "--budget" in why
    all_of_them = [*trials, *(trial(name, None) for name in ("native-step", "native-ode", "compile"))]
    assert rows(known(*all_of_them))["Fusing with a compiler"][1] == "does not apply"


def test_each_name_behind_a_recommendation_exists() -> None:
    names = checklist.wanted_levers()
    assert set(names) <= {kind.name for kind in levers.ALL}
    assert len(set(names)) == len(names)
    looked_for = [one for one in checklist.RECOMMENDATIONS.values() if not isinstance(one, checklist.Said)]
    others = {name for one in looked_for for name in one} - set(names)
    checks = "".join(path.read_text() for path in Path(checks_folder.__file__).parent.glob("*.py"))
    assert all(name in rules.ALL or f'code="{name}"' in checks for name in others)


def test_the_story_tells_what_pays() -> None:
    story = checklist.tell(known(ACCEPTED), HERE, title="train.py").story
    assert "faster formats and readers: 2.20x (2.00-2.40x)" in story[0]


def test_without_a_gain_the_story_says_none() -> None:
    story = checklist.tell(known(NO_GAIN), HERE, title="train.py").story
    assert "None of the 17 recommendations was shown to make it faster" in story[0]


def test_a_script_must_be_given() -> None:
    with pytest.raises(UserError, match=r"hotlap lab checklist train\.py"):
        checklist.run(Settings(), samples.nothing)
