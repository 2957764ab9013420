"""What a study came to: whether its patch needs hotlap, and what can be had without."""

from dataclasses import replace

import pytest

from hotlap.record import CallSite, CpuUse, Finding, Phase, Sweep, Verdict
from hotlap.report import document, findings, html, markdown, outcome, terminal
from tests.sample_measured import study_measured
from tests.sample_runs import run_with
from tests.samples import KEPT, study_full, study_without_gain


@pytest.mark.parametrize(
    ("names", "plain"),
    [
        (("cached-dataset",), False),
        (("cached-dataset", "threads"), True),
        (("cached-dataset", "malloc"), False),
        (("cached-dataset", "malloc", "threads"), True),
    ],
)
def test_the_plain_part_of_a_patch_is_offered_where_there_is_one(names: tuple[str, ...], plain: bool) -> None:
    study = study_full()
    assert study.result is not None
    environment = {"GLIBC_TUNABLES": KEPT} if "malloc" in names else {}
    result = replace(study.result, levers=tuple({"name": name} for name in names), environment=environment)
    study = replace(study, patch="+from hotlap.data import cached\n", result=result)
    told = outcome.runs_on(study)
    assert told is not None and told.endswith("it calls cached.")
    assert ("hotlap apply --without hotlap" in dict(outcome.apply_commands(study))) is plain


def test_the_step_that_is_told_is_the_one_that_the_patched_step_was_compared_with() -> None:
    study = study_full()
    slow, beside, after = (run_with(step_s=step_s) for step_s in (0.005, 0.0026, 0.0007))
    told = document.time_per_step(replace(study, baseline=(slow,), beside=beside, after=after))
    assert "Median step 2.60 ms" in told.lead
    assert "2.60 ms -> 700 us" in " ".join(told.notes)


def test_what_the_answer_says_is_no_warning_as_well() -> None:
    study = study_full()
    assert study.result is not None
    why = "bf16-autocast gained 1.13x a step, and the budget was over."
    result = replace(study.result, verdict=Verdict.UNDECIDED, levers=(), why=why)
    told = document.warnings(replace(study, result=result, trials=(), warnings=(why, "It was busy.")))
    assert told is not None
    assert told.notes == ("It was busy.",)


def test_what_a_training_on_the_cpu_does_not_have_is_not_told_as_not_measured() -> None:
    (run,) = study_full().baseline[:1]
    unknown = replace(run, device="cpu", phase_s=dict.fromkeys(Phase, None) | {Phase.FORWARD: run.step_s})
    told = document.time_per_step(replace(study_full(), baseline=(unknown,), beside=None, after=None))
    assert told.notes[0] == "not measured: input, backward, optimizer, other"
    elsewhere = replace(unknown, device="NVIDIA H200", world_size=2)
    told = document.time_per_step(replace(study_full(), baseline=(elsewhere,), beside=None, after=None))
    assert told.notes[0] == "not measured: input, transfer, backward, communication, optimizer, sync, other"


def test_of_advice_it_is_told_what_it_brings_at_most() -> None:
    study = study_measured()
    advice = Finding(code="denormal-numbers", cost_s=0.009, share=0.85, evidence="So it is.", advice=True)
    told = outcome.conclusion(replace(study, findings=(advice, *study.findings))).sentence
    assert told == "Of each step, costliest first: denormal-numbers (up to 85%), sync-bound (28%), input-bound (19%)."


# 51.0 ms of validation for each step of 3.85 ms.
BETWEEN = Finding(code="frequent-validation", cost_s=0.051, share=0.93, evidence="So it is.", between_steps=True)


def test_a_bound_that_is_measured_later_than_the_finding_is_not_named_before() -> None:
    study = study_measured()
    waits = Finding(code="input-bound", cost_s=0.003, share=0.27, evidence="So it is.")
    assert findings.cost(replace(study, ceilings=()), waits) == "3.00 ms, 27% of a step"
    python, early = replace(waits, code="host-bound"), replace(study, ceilings=())
    assert findings.cost(early, python) == "3.00 ms, 27% of a step, about 1.37x"
    called = replace(python, at_most_share=0.5)
    assert findings.cost(early, called) == "3.00 ms, 27% of a step, about 2.00x", "with all that its line calls"
    known = tuple(replace(one, name="host") for one in study.ceilings[:1])
    assert findings.cost(replace(study, ceilings=known), called).endswith("about 2.00x")
    assert findings.cost(early, replace(called, code="launch-bound")).endswith("at most 2.00x"), "a loop as a whole"
    timed = replace(waits, code="thread-oversubscription")
    assert findings.cost(early, timed) == "3.00 ms, 27% of a step, about 1.37x", "turns of a few steps are no bound"
    assert findings.cost(early, replace(timed, advice=True)).endswith("at most 1.37x")
    cpu = CpuUse(usable_cores=2.0, main=0.9, others=0.0, threads=0.5)
    beside = replace(early, baseline=(replace(study.baseline[0], cpu=cpu),))
    assert findings.cost(beside, python) == "3.00 ms, 27% of a step", "it may wait for other threads"
    busy = CpuUse(usable_cores=2.0, main=0.5, others=0.0, runnable=1.5)
    crowded = replace(early, baseline=(replace(study.baseline[0], cpu=busy),))
    assert findings.cost(crowded, replace(called, code="launch-bound")).endswith("about 2.00x"), (
        "the rest is longer too"
    )
    assert findings.cost(study, waits) == "3.00 ms, 27% of a step, at most 1.27x", "not 1 / (1 - 0.27)"


def test_what_computes_as_much_when_it_is_fixed_has_no_bound() -> None:
    wrong = Finding(code="attention-over-batch", cost_s=0.005, share=0.72, evidence="So it is.")
    assert findings.cost(study_measured(), wrong) == "5.00 ms, 72% of a step"


def test_no_bound_is_named_of_next_to_nothing() -> None:
    little = Finding(code="memory-growth", cost_s=0.00003, share=0.003, evidence="So it is.")
    assert findings.cost(study_measured(), little) == "30.0 us, 0.3% of a step"


def test_what_is_spent_between_steps_is_told_as_a_part_of_all_time_everywhere() -> None:
    study = study_measured()
    both = replace(study, findings=(BETWEEN, *study.findings))
    heading = "51.0 ms beside each step, 93% of all time, at most 14.29x"
    for report in (terminal, html, markdown):
        told = " ".join(report.render(both).split())
        assert "Costliest first: frequent-validation (93% of all time), sync-bound (28% of a step)," in told
        assert "93% of a step" not in told
    assert findings.cost(both, BETWEEN) == heading
    assert heading in markdown.render(both)
    assert heading in html.render(both)
    assert findings.cost(both, study.findings[0]) == "3.10 ms, 28% of a step, at most 1.39x"
    advice = replace(BETWEEN, advice=True)
    assert findings.cost(both, advice) == f"up to {heading}"
    left = outcome.conclusion(replace(study_without_gain(), findings=(advice,))).sentence
    assert "What is left is for you to change: frequent-validation, up to 93% of all time" in left


@pytest.mark.parametrize("own", [True, False])
def test_a_measurement_says_that_fewer_threads_are_faster_and_how_to_prove_it(own: bool) -> None:
    """The sweep comes behind the findings, and is not lost. A number that the script sets itself, no trial changes."""
    study = study_measured()
    site = CallSite(
        calls="torch.set_num_threads", path="train.py", sha256="", line=1, end_line=1, col=0, end_col=1
    )  # fmt: skip
    run = replace(study.baseline[0], call_sites=(site,) if own else ())
    swept = Sweep(
        times=(),
        fewer="With 1 thread instead of 2, a step is 31.76x (20.10-35.00x) as fast. Other programs used the cores.",
    )
    plain = document.answer(replace(study, baseline=(run,)))
    told = document.answer(replace(study, baseline=(run,), sweep=swept))
    assert told.lines == (swept.fewer, *plain.lines)
    command = ("hotlap tune --levers threads train.py --epochs 3", "tries fewer threads, and proves what helps")
    assert told.commands == (plain.commands if own else (command, *plain.commands))
    threads = replace(study.findings[0], try_levers=("threads",))
    twice = document.answer(replace(study, baseline=(run,), sweep=swept, findings=(threads,)))
    assert sum("hotlap tune" in command for command, _ in twice.commands) == 1, "one that tries threads is enough"
    silent = document.answer(replace(study, sweep=replace(swept, fewer=""), findings=()))
    assert silent.lines == () and silent.commands == ()


def test_a_study_without_a_gain_names_advice_as_what_is_left() -> None:
    advice = Finding(code="frozen-features", cost_s=0.1, share=0.7, evidence=".", advice=True)
    told = outcome.conclusion(replace(study_without_gain(), findings=(advice,))).sentence
    assert "What is left is for you to change: frozen-features, up to 70% of a step" in told
