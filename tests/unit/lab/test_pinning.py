"""pinning: the unchanged loop, the article's changes and the patch, and what a GPU would make of them."""

import ast
from dataclasses import replace
from pathlib import Path

from hotlap.lab import pinning
from hotlap.lab.result import Quantity, Result
from hotlap.lab.settings import Settings
from hotlap.lab.studies import Compared
from hotlap.record import Interval, Phase
from tests.sample_runs import run_with
from tests.samples import study_full
from tests.unit.lab import samples

STEP = {Phase.FORWARD: 0.0003, Phase.BACKWARD: 0.0004, Phase.OPTIMIZER: 0.0003}
PATCHED = Interval(low=4.0, mid=5.0, high=6.2)
SCRIPT = Path(pinning.__file__).parent / "scripts" / "mnist.py"


def compared(total_s: float, *, waits_s: float, total: Interval | None) -> Compared:
    run = replace(run_with(phases={Phase.INPUT: waits_s, **STEP}, num_steps=40), rss_peak_bytes=400 << 20)
    return Compared(run=run, step=total, total=total, base_s=20.0, total_s=total_s)


def known(*, gpu: str | None = None, article: Interval | None, patch: bool = True) -> pinning.Known:
    base = replace(run_with(phases={Phase.INPUT: 0.003, **STEP}, num_steps=40), rss_peak_bytes=300 << 20)
    study = replace(study_full(), baseline=(base,))
    after = replace(run_with(phases={Phase.INPUT: 0.00005, **STEP}, num_steps=40))
    assert study.result is not None
    result = replace(study.result, speedup=PATCHED, total_speedup=PATCHED)
    return pinning.Known(
        study=replace(study, after=after, result=result) if patch else replace(study, after=None, result=None),
        article=compared(10.0, waits_s=0.001, total=article),
        small=compared(1.5, waits_s=0.001, total=Interval(low=0.6, mid=0.7, high=0.8)),
        workers=2,
        items=(60_000, 2_000),
        traced=samples.traced(),
        gpu=gpu,
        about_data="The data are bundled.",
    )


GAIN = Interval(low=1.8, mid=2.0, high=2.2)


def row(result: Result, way: str) -> tuple[object, ...]:
    return next(row for row in result.tables[0].rows if row[0] == way)


def test_speed_ups_are_over_the_script_as_written_with_their_intervals() -> None:
    result = pinning.tell(known(gpu="Some GPU", article=GAIN), Settings())
    assert "2.00x as fast, 95% interval 1.80x to 2.20x" in result.story[0]
    assert "5.00x as fast, 95% interval 4.00x to 6.20x" in result.story[0]
    ours = row(result, pinning.HOTLAP)[2]
    assert isinstance(ours, Quantity) and (ours.low, ours.high) == (4.0, 6.2)
    assert len(row(result, pinning.PLAIN)) == 4, "with a GPU nothing is predicted"


def test_one_training_of_each_is_no_ratio() -> None:
    result = pinning.tell(known(article=None), Settings())
    assert "compared too seldom for a ratio" in result.story[0]
    assert row(result, pinning.ARTICLE)[2] is None


def test_an_interval_that_holds_one_shows_no_difference_and_one_below_is_slower() -> None:
    wide = pinning.tell(known(article=Interval(low=0.5, mid=2.65, high=19.7)), Settings())
    assert "no difference shown: 2.65x" in wide.story[0]
    assert "On 2,000 images the article's changes are slower: 0.70x" in wide.story[1]


def test_without_a_gpu_its_column_is_predicted_and_ready_batches_are_what_it_gains_by() -> None:
    result = pinning.tell(known(article=GAIN), Settings())
    cells = [row(result, way)[4] for way in (pinning.PLAIN, pinning.ARTICLE, pinning.HOTLAP)]
    times = [cell.value for cell in cells if isinstance(cell, Quantity) and cell.predicted]
    assert times[2] < times[1] <= times[0]
    # One process makes a batch in 3 ms, so two workers deliver one each 1.5 ms, however fast the step is.
    assert times[1] >= 0.9 * 5 * 938 * 0.0015
    assert any("nothing is pinned" in note for note in result.notes)


def test_a_study_without_a_patch_says_so() -> None:
    result = pinning.tell(known(article=GAIN, patch=False), Settings())
    assert [row[0] for row in result.tables[0].rows] == [pinning.PLAIN, pinning.ARTICLE]
    assert any("found no patch" in note for note in result.notes)


def test_the_articles_copy_has_its_two_changes_and_no_other() -> None:
    before = SCRIPT.read_text()
    after = pinning.article(before, 3)
    ast.parse(after)
    changed = [b.strip() for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
    assert len(changed) == 2
    assert "num_workers=3, pin_memory=True)" in changed[0]
    assert changed[1].startswith("x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)")
