"""pinning: the unchanged loop, the article's changes and the patch."""

import ast
from dataclasses import replace
from pathlib import Path

from hotlap.lab import pinning
from hotlap.lab.result import Result
from hotlap.record import Interval, Verdict
from hotlap.tune.checking import Checked, Speed
from tests.sample_runs import run_with
from tests.samples import study_full

PATCHED = Interval(low=4.0, mid=5.0, high=6.2)
GAIN = Interval(low=1.8, mid=2.0, high=2.2)
SCRIPT = Path(pinning.__file__).parent / "scripts" / "mnist.py"


def checked(total: Interval | None) -> Checked:
    return Checked(
        verdict=Verdict.UNHARMED,
        contract="exact",
        why="Losses are bit-equal.",
        speed=Speed.FASTER,
        step=total,
        total=total,
        limit=0.02,
    )


def told(article: Checked | None, *, device: str = "cpu", patch: bool = True) -> Result:
    study = replace(study_full(), baseline=(run_with(device=device),))
    assert study.result is not None
    result = replace(study.result, speedup=PATCHED, total_speedup=PATCHED) if patch else None
    return pinning.tell(
        replace(study, result=result),
        article,
        article and checked(Interval(low=0.6, mid=0.7, high=0.8)),
        workers=2,
        items=60_000,
    )


def test_speed_ups_are_over_the_script_as_written_with_their_intervals() -> None:
    result = told(checked(GAIN), device="Some GPU")
    assert (
        "workers and pinned memory the whole training is 2.00x as fast, 95% interval 1.80x to 2.20x" in result.story[0]
    )
    assert "5.00x as fast, 95% interval 4.00x to 6.20x" in result.story[1]
    assert not any("nothing is pinned" in note for note in result.notes)


def test_what_was_not_compared_is_no_ratio() -> None:
    for article in (None, checked(None)):
        assert "not compared often enough for a ratio" in told(article).story[0]


def test_an_interval_that_holds_one_shows_no_difference_and_one_below_is_slower() -> None:
    wide = told(checked(Interval(low=0.5, mid=2.65, high=19.7)))
    assert "no difference shown: 2.65x" in wide.story[0]
    assert "On 2,000 images the article's changes are slower: 0.70x" in wide.story[2]


def test_without_a_gpu_nothing_is_pinned_and_training_was_compared() -> None:
    notes = told(checked(GAIN)).notes
    assert any("nothing is pinned" in note for note in notes)
    assert any("Losses are bit-equal." in note for note in notes)


def test_a_study_without_a_patch_says_so() -> None:
    assert "found no patch" in told(checked(GAIN), patch=False).story[1]


def test_the_articles_copy_has_its_two_changes_and_no_other() -> None:
    before = SCRIPT.read_text()
    after = pinning.with_changes(before, 3)
    ast.parse(after)
    changed = [b.strip() for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
    assert len(changed) == 2
    assert "num_workers=3, pin_memory=True)" in changed[0]
    assert changed[1].startswith("x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)")
