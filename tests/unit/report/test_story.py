"""The sentences that all reports share."""

import dataclasses
from html import unescape

import pytest

from hotlap.record import (
    CpuUse,
    Finding,
    Interval,
    Noise,
    NonFinite,
    Phase,
    Result,
    Run,
    State,
    Status,
    Trial,
    Verdict,
)
from hotlap.report import document, html, markdown, outcome, story, terminal
from hotlap.report.findings import change_lines
from hotlap.report.outcome import Outcome
from hotlap.units import duration
from tests import sample_measured, samples


def test_a_gain_is_told_with_its_interval() -> None:
    conclusion = outcome.conclusion(samples.study_full())
    assert conclusion.outcome is Outcome.GAIN
    assert conclusion.title == "3.11x as fast", "the whole training's time"
    assert "3.02-3.20x" in conclusion.sentence
    assert "A typical step: 4.87x (95% interval 4.71-5.04x)" in conclusion.sentence


@pytest.mark.parametrize(
    ("verdict", "comes_to"), [(Verdict.HARMED, Outcome.HARM), (Verdict.UNDECIDED, Outcome.UNPROVEN)]
)
def test_speed_without_proof_of_harmlessness_is_no_gain(verdict: Verdict, comes_to: Outcome) -> None:
    full = samples.study_full()
    assert full.result is not None
    study = dataclasses.replace(full, result=dataclasses.replace(full.result, verdict=verdict))
    assert outcome.conclusion(study).outcome is comes_to


def test_no_command_is_given_for_a_patch_that_does_harm() -> None:
    assert outcome.apply_commands(samples.study_not_finite()) == ()
    assert outcome.apply_commands(samples.study_full()) != ()


def test_an_interval_that_reaches_down_to_the_noise_is_no_gain() -> None:
    result = Result(
        levers=(samples.THREADS,),
        speedup=Interval(low=1.0, mid=1.05, high=1.10),
        verdict=Verdict.UNHARMED,
        why="equal",
    )
    study = dataclasses.replace(samples.study_full(), result=result)
    assert outcome.conclusion(study).outcome is Outcome.NO_GAIN


def test_no_gain_is_told_in_one_honest_sentence() -> None:
    conclusion = outcome.conclusion(samples.study_without_gain())
    assert conclusion.outcome is Outcome.NO_GAIN
    assert conclusion.sentence == (
        "2 levers tried, and none makes this script faster without harm (gains below 1.034x cannot be seen here). "
        "It can stay as it is."
    )


def test_no_gain_is_claimed_of_levers_that_could_not_be_timed() -> None:
    study = samples.study_without_gain()
    trials = tuple(dataclasses.replace(trial, speedup=None, log_ratios=()) for trial in study.trials)
    conclusion = outcome.conclusion(dataclasses.replace(study, trials=trials))
    assert (conclusion.outcome, conclusion.title) == (Outcome.UNTRIED, "Nothing timed")
    assert "nothing is known of a gain" in conclusion.sentence


def test_a_stopped_study_says_what_was_accepted_until_then() -> None:
    conclusion = outcome.conclusion(samples.study_interrupted())
    assert conclusion.outcome is Outcome.UNFINISHED
    assert "stopped before its end" in conclusion.sentence
    assert "cached-dataset + threads count=1" in conclusion.sentence


def test_a_crash_is_told_with_its_exit_code() -> None:
    study = samples.study_crashed()
    assert outcome.conclusion(study).outcome is Outcome.FAILED
    assert story.failure(study.baseline[0]) == "The script raised ValueError at its step 3 (exit code 1)."


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPLETE])
def test_every_bad_end_has_a_sentence_even_without_an_error_text(status: Status) -> None:
    failure = story.failure(Run(status=status))
    assert failure is not None
    assert failure.endswith(".")


def test_phases_come_in_the_order_of_a_training_loop_without_those_that_took_no_time() -> None:
    run = samples.run_with(phases={Phase.OTHER: 0.001, Phase.SYNC: 0.0, Phase.INPUT: 0.003})
    parts = story.phases(run)
    assert [part.phase for part in parts] == [Phase.INPUT, Phase.OTHER]
    assert [part.share for part in parts] == pytest.approx([0.75, 0.25])


def test_a_phase_that_was_not_measured_is_not_zero() -> None:
    run = samples.run_with()
    run = dataclasses.replace(run, phase_s={**run.phase_s, Phase.SYNC: None})
    assert story.phases(run)[-2].mean_s is None


def test_losses_that_are_not_numbers_are_counted() -> None:
    losses = (2.0, NonFinite.NAN, 1.0, NonFinite.POSITIVE, None)
    assert "2 of 4 were NaN or infinite" in story.loss_sentence(samples.run_with(num_steps=5, losses=losses))
    assert story.loss_sentence(samples.run_with(num_steps=2, losses=(None, None))) == "No loss was seen."
    assert "2 of 2 were NaN or infinite" in story.loss_sentence(
        samples.run_with(num_steps=2, losses=(NonFinite.NAN, NonFinite.NAN))
    )


def test_noise_says_what_cannot_be_told() -> None:
    noise = Noise(scope="step", speedup=Interval(low=0.99, mid=1.0, high=1.01), smallest_gain=1.03)
    assert story.noise_sentence(noise) == (
        "A/A test inside one process, step by step: 0.99-1.01x; gains below 1.030x cannot be told from noise here by 4 "
        "processes that vary no more than these"
    )


def test_of_noise_seen_too_rarely_it_says_what_was_seen_and_no_interval() -> None:
    few = Noise(scope="process", speedup=None, smallest_gain=None, log_ratios=(0.04, -1.8))
    assert story.noise_sentence(few) == (
        "A/A test between processes: equal runs differed by 4% and 505%, too few to say which gains are noise here"
    )
    again = Noise(scope="again", speedup=None, smallest_gain=None, log_ratios=(0.04, -0.04))
    assert story.noise_sentence(again) == "from one run of this script to the next its step differs by about 4%"


@pytest.mark.parametrize(
    ("kind", "accepted", "outcome", "subject"),
    [
        ("lever", True, "accepted", "threads count=1"),
        ("lever", False, "not taken", "threads count=1"),
        ("leave-one-out", True, "kept", "with and without threads count=1"),
        ("leave-one-out", False, "dropped", "with and without threads count=1"),
        ("patch", True, "confirmed", "the patched script"),
        ("patch", False, "not confirmed", "the patched script"),
    ],
)
def test_trials_are_told_as_what_they_are(kind: str, accepted: bool, outcome: str, subject: str) -> None:
    trial = Trial(levers=(samples.THREADS,), kind=kind, accepted=accepted)
    assert story.trial_outcome(trial) == outcome
    assert story.trial_subject(trial) == subject


def test_a_lever_that_was_left_out_at_the_end_is_no_longer_accepted() -> None:
    taken = tuple(Trial(levers=(lever,), accepted=True) for lever in (samples.CACHED, samples.THREADS))
    dropped = Trial(levers=(samples.THREADS,), kind="leave-one-out", accepted=False)
    study = dataclasses.replace(samples.study_interrupted(), trials=(*taken, dropped))
    assert outcome.accepted(study) == (samples.CACHED,)


def test_why_there_is_no_patch_depends_on_how_far_the_study_came() -> None:
    interrupted = samples.study_interrupted()
    assert "when the study is complete" in outcome.patch_missing(interrupted)
    assert "could not be written" in outcome.patch_missing(dataclasses.replace(interrupted, state=State.COMPLETE))


RENDERS = (terminal.render, markdown.render, html.render)


def test_a_step_of_many_forward_passes_is_told_by_the_pass() -> None:
    full = samples.study_full()
    run = dataclasses.replace(
        full.baseline[0],
        step_s=tuple(0.001 * k for k in range(10, 110)),
        num_forwards=tuple(range(10, 110)),
        phase_s={},
    )
    for render in RENDERS:
        text = " ".join(render(dataclasses.replace(full, baseline=(run,))).split())
        assert "A step makes 60 forward passes in the mean, those of loss modules included: 1.00 ms for each." in text
    few = dataclasses.replace(run, num_forwards=(2,) * len(run.step_s))
    assert "forward passes" not in story.step_sentence(few)
    alike = dataclasses.replace(run, num_forwards=(30,) * len(run.step_s))
    assert "those of loss modules included: 1.98 ms for each." in story.step_sentence(alike)


def test_steps_that_grow_longer_are_told_and_one_odd_stretch_is_not() -> None:
    def told(*levels_ms: float, work: int = 0, followed: bool = False, busy: float = 0.0) -> str:
        step_s = tuple(level / 1000 for level in levels_ms for _ in range(5))
        forwards = tuple(1 + work * k for k in range(len(step_s)))
        long = sample_measured.study_long().baseline[0].long if followed else None
        full = samples.study_full().baseline[0]
        cpu = CpuUse(usable_cores=2.0, main=1.0 - busy, others=0.0, runnable=1.0)
        run = dataclasses.replace(full, step_s=step_s, num_forwards=forwards, phase_s={}, long=long, cpu=cpu)
        return story.growth_sentence(run) or ""

    grows = (34, 40, 51, 65, 72, 76, 94, 99)
    assert told(*grows).startswith(
        "Steps grow longer: 34.0 ms in the first eighth of them, 99.0 ms in the last (2.91x)"
    )
    assert told(34, 40, 51, 65, 72, 70, 94, 99), "one eighth may be odd"
    assert not told(34, 34, 35, 90, 34, 34, 36, 38)
    assert not told(34, 34, 34, 34, 34, 34, 34, 99)
    assert not told(*grows, work=1), "more forward passes"
    assert not told(*grows, followed=True)
    assert not told(*grows, busy=0.84), "others may have taken more and more of the cores"


def test_a_machine_that_was_busy_is_named_beside_the_step() -> None:
    def told(runnable: float | None = None, throttled: float = 0.0) -> bool:
        cpu = CpuUse(usable_cores=2.0, main=0.5, others=0.2, runnable=runnable, throttled=throttled)
        sentence = story.step_sentence(dataclasses.replace(samples.study_full().baseline[0], cpu=cpu))
        assert ("had a core for 35% of the time" in sentence) == ("The machine was busy" in sentence)
        return "The machine was busy" in sentence

    assert told(runnable=2.0)
    assert not told(), "the kernel does not count it"
    assert not told(runnable=0.75)
    assert not told(runnable=6.0), "its own threads wait for each other"
    assert not told(runnable=2.0, throttled=0.3), "its quota holds it"


def test_what_a_person_is_to_change_is_shown_in_every_report() -> None:
    finding = Finding(
        code="host-bound",
        cost_s=0.01,
        share=0.2,
        evidence="Each step spends 10 ms (20%) on that.",
        before="m = Categorical(p)",
        after="once()\nm = Categorical(p)",
        environment={"OMP_NUM_THREADS": "1"},
    )
    study = dataclasses.replace(samples.study_full(), command=("train.py", "--name", "a b"), findings=(finding,))
    for render in RENDERS:
        text = " ".join(render(study).replace("&#39;", "'").split())
        assert "OMP_NUM_THREADS=1 python train.py --name 'a b'" in text
        assert "+ once()" in text
        assert "- m = Categorical(p)" not in text, "a line that stays is not taken away"
    assert story.command_under(dataclasses.replace(study, command=("--", "torchrun", "a.py")), {"A": "1"}) == (
        "A=1 torchrun a.py"
    )


def test_a_change_of_one_line_of_a_statement_stands_in_its_place() -> None:
    finding = Finding(
        code="double-precision", cost_s=0.01, share=0.2, evidence="", before="a(\n  b,\n  c)", after="a(\n  b,\n  d)"
    )
    assert change_lines(samples.study_full(), finding) == ("  a(", "    b,", "-   c)", "+   d)")


@pytest.mark.parametrize("patch", [samples.PATCH, None])
def test_variables_that_no_line_of_source_can_set_are_told_with_the_command(patch: str | None) -> None:
    study = samples.study_full()
    assert study.result is not None
    assert outcome.start_commands(study) == ()
    variables = {"GLIBC_TUNABLES": "a b"}
    study = dataclasses.replace(
        study, patch=patch, result=dataclasses.replace(study.result, environment=variables), command=("t.py",)
    )
    for render in (terminal.render, markdown.render, html.render):
        assert "GLIBC_TUNABLES='a b' python t.py" in unescape(render(study))
    assert "nothing that was accepted is set in the source" in outcome.patch_missing(study)
    assert study.result is not None
    harmed = dataclasses.replace(study.result, verdict=Verdict.HARMED)
    assert outcome.start_commands(dataclasses.replace(study, result=harmed)) == ()


def test_the_patched_script_is_shown_beside_the_baseline_that_it_was_compared_with() -> None:
    """The machine may be slower then than when the baseline was looked at."""
    full = samples.study_full()
    assert full.after is not None
    slower = dataclasses.replace(
        full.baseline[0], step_s=tuple(3 * s for s in full.after.step_s), step_index=full.after.step_index
    )
    study = dataclasses.replace(full, beside=slower)
    assert story.pictured(study) is slower
    told = " ".join(terminal.render(study).split())
    medians = [run.median_step_s() for run in (slower, full.after)]
    assert medians[0] == pytest.approx(3 * medians[1])
    assert f"the median step {duration(medians[0])} -> {duration(medians[1])}" in told
    assert f"{duration(medians[0])} &rarr; {duration(medians[1])}" in html.render(study)
    assert story.pictured(dataclasses.replace(study, after=None)) is full.baseline[0]


def test_a_script_that_waits_for_what_no_lever_helps_is_not_told_to_stay_as_it_is() -> None:
    plain = samples.study_without_gain()
    finding = dataclasses.replace(plain.findings[0], code="input-bound", share=0.44)
    waits = outcome.conclusion(dataclasses.replace(plain, findings=(finding,)))
    assert waits.sentence.endswith(
        "What is left is for you to change: input-bound, 44% of a step (`hotlap explain input-bound`)."
    )
    untried = outcome.conclusion(dataclasses.replace(plain, findings=(finding,), trials=()))
    assert untried.sentence.startswith("No lever was worth a trial here. What is left is for you to change: input")
    hardly = dataclasses.replace(finding, share=0.02)  # less than the noise of 1.034x
    assert outcome.conclusion(dataclasses.replace(plain, findings=(hardly,))).sentence.endswith("It can stay as it is.")


def test_a_long_step_that_counts_in_the_mean_is_named() -> None:
    """Else parts of a step come to more than the median beside them, and nobody knows why."""
    study = samples.study_full()
    assert study.after is not None
    (usual,) = [note for note in document.time_per_step(study).notes if note.startswith("optimized")]
    assert "longest" not in usual
    longer = dataclasses.replace(study.after, step_s=(*study.after.step_s[:-1], 1.5))
    (told,) = [
        note
        for note in document.time_per_step(dataclasses.replace(study, after=longer)).notes
        if note.startswith("optimized")
    ]
    assert told.startswith("optimized, in the mean, in which the longest step, of 1.50 s, counts: ")
