"""The report as plain text."""

import dataclasses
from io import StringIO

import pytest
from rich.console import Console

from hotlap.record import Failure, Interval, Phase, Study, Trial
from hotlap.report import terminal
from tests import sample_measured, samples

TUNE = "hotlap tune --levers workers src/train.py"


def test_tells_everything_in_its_order() -> None:
    text = " ".join(terminal.render(samples.study_full()).split())
    wanted = [
        "Time per step",
        "2.43 ms 76%",
        "Findings",
        "input-bound",
        "Upper bounds",
        "770 us a step (95% interval 4.02-4.31x)",
        "Noise",
        "cannot be told from noise here",
        "Trials",
        "no timing",
        "with and without cached-dataset",
        "the patched script",
        "Another process used 30% of a core",
        "+from hotlap.data import cached",
        "3.11x as fast",
        "A typical step: 4.87x (95% interval 4.71-5.04x)",
        "the gate passes it",
        "Levers: cached-dataset, threads count=1, fused-optimizer.",
        "hotlap apply ",
        "hotlap apply --revert",
    ]
    place = 0
    for part in wanted:
        place = text.index(part, place)


def test_shows_the_tail_of_what_a_crashed_script_printed() -> None:
    text = terminal.render(samples.study_crashed())
    assert "The script raised ValueError at its step 3 (exit code 1)." in text
    assert "    ValueError: Expected input batch_size (64) to match target batch_size (32)." in text


def test_says_that_nothing_is_known_when_nothing_is() -> None:
    text = terminal.render(samples.study_empty())
    assert "nothing has been measured yet" in text
    assert "Not measured yet." in text


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Study)])
def test_any_part_may_be_missing(field: str) -> None:
    empty, full = samples.study_empty(), samples.study_full()
    assert terminal.render(dataclasses.replace(full, **{field: getattr(empty, field)}))
    assert terminal.render(dataclasses.replace(empty, **{field: getattr(full, field)}))


def test_lines_fit_the_width_except_those_of_the_patch() -> None:
    full, long_line = samples.study_full(), f" x = {'1 + ' * 40}1"
    assert full.patch is not None
    text = terminal.render(dataclasses.replace(full, patch=full.patch.replace(" EPOCHS = 3", long_line)))
    assert f"\n  {long_line}\n" in text
    before, _, rest = text.partition("Patch\n")
    report = before + rest.partition("3.11x as fast")[2]
    assert max(map(len, report.split("\n"))) <= terminal.WIDTH
    assert all(line == line.rstrip() for line in text.split("\n"))


@pytest.mark.parametrize("width", [80, 120])
def test_a_trial_tells_its_gate_at_every_width(width: int) -> None:
    out = StringIO()
    console = Console(file=out, width=width, color_system=None, _environ={})
    for section in terminal.sections(samples.study_full()):
        console.print(section, crop=False)
    trials = out.getvalue().partition("Trials")[2].partition("Elsewhere")[0].split("\n")
    assert len([line for line in trials if line.rstrip().endswith("  passes")]) == 7
    assert max(map(len, trials)) <= width


def test_a_hostile_study_controls_nothing() -> None:
    text = terminal.render(samples.study_hostile())
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "[31m" not in text
    assert "[bold red]loud[/]" in text
    assert "evil.example]" in text
    text.encode("utf-8")


def test_text_is_the_same_whatever_the_environment_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = terminal.render(samples.study_full())
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "40", "TERM": "dumb", "TTY_COMPATIBLE": "1"}.items():
        monkeypatch.setenv(name, value)
    assert terminal.render(samples.study_full()) == plain


def test_parts_can_be_printed_one_by_one() -> None:
    study = samples.study_full()
    shown = ""
    for count in range(1, len(study.trials) + 1):
        shown += terminal.plain(terminal.part(dataclasses.replace(study, trials=study.trials[:count]), "trial"))
    assert shown.count("bf16-autocast") == 1
    assert "3.11x as fast" in terminal.plain(terminal.part(study, "end"))
    assert list(terminal.part(study, "a part that no report shows")) == []


def test_the_answer_is_the_end() -> None:
    last = terminal.render(samples.study_full()).rstrip().split("\n\n")[-1]
    assert last.startswith("3.11x as fast  examples/digits.py")
    assert last.split()[-6:] == ["hotlap", "apply", "--revert", "takes", "it", "back"]
    assert "Another process" not in last, "a warning is never the last thing said"


def test_a_measurement_ends_with_what_to_do_next() -> None:
    last = " ".join(terminal.render(sample_measured.study_measured()).rstrip().split("\n\n")[-1].split())
    assert (
        "Next, sync-bound: Each step waits 3.10 ms (28% of it) for the device in Tensor.item at digits.py:51." in last
    )
    assert "hotlap explain sync-bound" in last
    assert last.endswith("tries cached-dataset, and proves what helps")


def test_usual_causes_that_were_not_found_say_why_not() -> None:
    text = " ".join(terminal.render(sample_measured.study_measured()).split())
    assert "Not found: transfer-bound (transfer takes 10% of a step), optimizer-bound" in text


def test_a_phase_that_takes_much_is_not_told_to_be_no_cause() -> None:
    """What explains it is another finding, as threads explain a slow optimizer."""
    study = sample_measured.study_measured()
    run = study.baseline[0]
    slow = {**run.phase_s, Phase.OPTIMIZER: tuple(0.4 * step_s for step_s in run.step_s)}
    text = terminal.render(dataclasses.replace(study, baseline=(dataclasses.replace(run, phase_s=slow),)))
    assert "Not found: transfer-bound" in text
    assert "optimizer-bound (" not in text


def test_bounds_that_promise_nothing_are_named_in_a_line() -> None:
    study = sample_measured.study_measured()
    low = dataclasses.replace(study.ceilings[0], speedup=Interval(low=1.0, mid=1.004, high=1.01))
    text = terminal.render(dataclasses.replace(study, ceilings=(low, *study.ceilings[1:])))
    assert "Less than 1.02x if free: batches." in text
    assert "If batches were free" not in text
    assert "If copies to the device were free: 1.12x" in text


def test_trials_that_failed_for_one_reason_are_told_once_in_a_line() -> None:
    why = "It could not be tried: crashed: RuntimeError: a very long reason,\n" + "and more of it, " * 40
    failed = [
        Trial(levers=({"name": "threads", "count": count},), scope="process", failure=Failure.CRASHED, why=why)
        for count in (1, 2)
    ]
    study = dataclasses.replace(samples.study_full(), trials=tuple(failed))
    told = terminal.render(study)
    assert told.count("a very long reason") == 1
    assert 0 < told.count("more of it") < 20, "cut short, and once"
    assert "threads count=1, threads count=2" in told
    on_the_way = terminal.plain(terminal.part(study, "trial"))
    assert "threads count=2" in on_the_way and "As before." in on_the_way and "reason" not in on_the_way


def test_levers_that_do_not_apply_are_one_line() -> None:
    refused = [
        Trial(levers=({"name": name},), scope="none", why=f"Not tried. {name} needs a GPU.")
        for name in ("tf32", "cudnn-benchmark")
    ]
    study = dataclasses.replace(samples.study_full(), trials=(*samples.study_full().trials, *refused))
    text = " ".join(terminal.render(study).split())
    assert text.count("2 levers do not apply here: `hotlap levers` says why.") == 1
    assert "needs a GPU" not in text


def test_what_does_not_apply_is_told_on_the_way_to_those_who_ask() -> None:
    study = samples.study_full()
    unfit = dataclasses.replace(study.trials[0], scope="none", why="Not tried. There is no GPU.")
    study = dataclasses.replace(study, trials=(unfit,))
    assert list(terminal.part(study, "trial")) == []
    assert "There is no GPU." in terminal.plain(terminal.part(study, "trial", verbose=True))


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, ["  hotlap apply                               applies it", f"  {TUNE}  asks again"]),
        (60, ["  hotlap apply", "      applies it", f"  {TUNE}", "      asks again"]),
        (30, ["  hotlap apply", "      applies it", f"  {TUNE}", "      asks again"]),
    ],
)
def test_a_command_is_one_piece_however_long_it_is(width: int, shown: list[str]) -> None:
    out = StringIO()
    commands = (("hotlap apply", "applies it"), (TUNE, "asks again"))
    terminal.print_on(Console(file=out, width=width, _environ={}), [terminal.Commands(commands)])
    assert [line.rstrip() for line in out.getvalue().rstrip().split("\n")] == shown


@pytest.mark.parametrize("width", [70, 100])
def test_the_command_that_a_finding_names_is_one_piece(width: int) -> None:
    command = "hotlap tune --levers cached-dataset,loader-workers examples/digits.py --epochs 3"
    out = StringIO()
    console = Console(file=out, width=width, _environ={})
    terminal.print_on(console, terminal.part(samples.study_full(), "findings"))
    assert command in [line.strip() for line in out.getvalue().split("\n")]
