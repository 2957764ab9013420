"""pinning: three trainings, the small data set, memory, and what a GPU would make of it."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotlap.errors import UserError
from hotlap.lab import digits, pinning
from hotlap.lab.launching import Finished
from hotlap.lab.result import Curves, Lanes, Quantity, Result
from hotlap.lab.settings import Settings
from hotlap.record import Phase
from tests.unit.lab import samples

STEP = {Phase.FORWARD: 0.0003, Phase.BACKWARD: 0.0004, Phase.OPTIMIZER: 0.0003}


def finished(
    whole_s: float, small_s: float, *, waits_s: float, peak: int, num_workers: int = 0, loss: float = 0.5
) -> Finished:
    def told(count: int, seconds: float) -> dict[str, Any]:
        return {"num_items": count, "seconds": seconds, "losses": [1.0, loss], "pinned_bytes": 0}

    return Finished(
        run=samples.mnist_run({Phase.INPUT: waits_s, **STEP}, num_workers=num_workers),
        told={"trainings": [told(60_000, whole_s), told(2_000, small_s)]},
        memory=((0.2, peak // 2), (0.4, peak)),
    )


def known(*, gpu: str | None = None, small_article_s: float = 3.0, loss: float = 0.5) -> pinning.Known:
    return pinning.Known(
        finished={
            pinning.PLAIN: finished(20.0, 1.0, waits_s=0.003, peak=400 << 20),
            pinning.ARTICLE: finished(10.0, small_article_s, waits_s=0.001, peak=700 << 20, num_workers=2),
            pinning.HOTLAP: finished(4.0, 0.3, waits_s=0.00005, peak=600 << 20, loss=loss),
        },
        workers=2,
        traced=None if gpu else samples.workload(),
        gpu=gpu,
        levers=("cached-dataset",),
        about_data="The data are bundled.",
    )


def told(**changes: Any) -> Result:
    return pinning.tell(known(**changes), Settings(), epochs=5)


def row(result: Result, way: str) -> tuple[Any, ...]:
    return next(row for row in result.tables[0].rows if row[0] == way)


def test_speed_ups_are_over_the_script_as_written() -> None:
    result = told(gpu="Some GPU")
    assert row(result, pinning.ARTICLE)[2].value == pytest.approx(2.0)
    assert row(result, pinning.HOTLAP)[2].value == pytest.approx(5.0)
    assert "2.00x as fast" in result.story[0]
    assert "5.00x as fast" in result.story[0]


def test_a_speed_up_has_an_interval_from_three_trainings_of_each_and_is_no_claim_from_one() -> None:
    once = known(gpu="Some GPU")
    assert row(pinning.tell(once, Settings(), epochs=5), pinning.HOTLAP)[2].low is None
    assert "5.00x as fast in one training of each" in pinning.tell(once, Settings(), epochs=5).story[0]
    slower = {way: finished(30.0, 1.0, waits_s=0.003, peak=400 << 20) for way in once.finished}
    three = replace(once, again=(once.finished, slower))
    ratio = row(pinning.tell(three, Settings(), epochs=5), pinning.HOTLAP)[2]
    assert ratio.value == pytest.approx(5.0 ** (2 / 3))
    assert ratio.low < 1 < ratio.high, "one round of three saw nothing"


def test_the_small_data_set_shows_the_caveat() -> None:
    assert "The article's caveats hold here" in told().story[2]
    assert "3.00x slower" in told().story[2]
    assert "Even on 2,000 images the changes pay" in told(small_article_s=0.5).story[2]


def test_without_a_gpu_its_column_is_predicted_and_pinning_is_said_to_do_nothing() -> None:
    result = told()
    cell = row(result, pinning.PLAIN)[4]
    assert isinstance(cell, Quantity)
    assert cell.predicted
    assert cell.low is not None and cell.low < cell.value
    assert any("nothing is pinned" in note for note in result.notes)


def test_ready_batches_are_what_a_gpu_gains_by() -> None:
    result = told()
    plain, article, ours = (row(result, way)[4].value for way in (pinning.PLAIN, pinning.ARTICLE, pinning.HOTLAP))
    assert ours < article <= plain


def test_with_a_gpu_nothing_is_predicted() -> None:
    result = told(gpu="Some GPU")
    assert len(row(result, pinning.PLAIN)) == 4
    assert not any("predictions" in note for note in result.notes)


def test_equal_losses_are_said_to_be_equal_and_others_by_how_much_they_differ() -> None:
    assert "the same to the last bit" in told().story[0]
    assert "differ by 2e-02" in told(loss=0.51).story[0]


def test_memory_is_that_of_all_processes_at_most() -> None:
    table = told().tables[2]
    peaks = [cell.value for row in table.rows if isinstance(cell := row[1], Quantity)]
    assert peaks == [400 << 20, 700 << 20, 600 << 20]
    assert "300 MiB of memory more" in told().story[2]


def test_pinned_memory_is_rounded_up_for_each_batch_that_may_wait() -> None:
    # 200,704 bytes of images and 512 of labels take 262,144; two workers have two batches each, one is trained.
    assert pinning.pinned_at_most(201_216, 2) == 5 * 262_144


def test_the_pictures_are_two_pairs_of_timelines_and_memory_over_time() -> None:
    kinds = [type(picture) for picture in told().pictures]
    assert kinds == [Lanes, Lanes, Curves]


def test_workers_that_keep_up_here_may_be_too_slow_for_a_gpu() -> None:
    # One process makes a batch in 3 ms, so two workers deliver one each 1.5 ms, however fast the step is.
    result = told()
    steps = 5 * 938
    article = row(result, pinning.ARTICLE)[4]
    assert article.value >= 0.9 * steps * 0.0015


def test_mnist_is_found_where_it_lies_or_where_torchvision_puts_it(tmp_path: Path) -> None:
    place = tmp_path / "MNIST" / "raw"
    place.mkdir(parents=True)
    with pytest.raises(UserError, match="has no train-images-idx3-ubyte"):
        digits.found(tmp_path)
    (place / "train-images-idx3-ubyte.gz").touch()
    (place / "train-labels-idx1-ubyte").touch()
    assert digits.found(tmp_path) == place
    assert digits.found(place) == place


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no folder"):
        digits.check(Settings(data=tmp_path / "nowhere"))


def test_bundled_digits_have_mnists_form_and_are_said_not_to_be_mnist(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    folder, about = digits.prepared(Settings(), tmp_path, count=2_000)
    assert digits.found(folder) == folder
    images = (folder / "train-images-idx3-ubyte").read_bytes()
    labels = (folder / "train-labels-idx1-ubyte").read_bytes()
    assert images[:16] == struct.pack(">4i", 2051, 2_000, 28, 28)
    assert len(images) == 16 + 2_000 * 28 * 28
    assert len(labels) == 8 + 2_000
    assert set(labels[8:]) == set(range(10))
    assert "not MNIST" in about


def test_no_lever_is_told_as_none() -> None:
    result = pinning.tell(replace(known(), levers=()), Settings(), epochs=5)
    assert any("none of the levers" in note for note in result.notes)
