"""What a study came to: whether its patch needs hotlap, and what can be had without."""

from dataclasses import replace

import pytest

from hotlap.record import Verdict
from hotlap.report import document, outcome
from tests.samples import study_full


@pytest.mark.parametrize(("names", "plain"), [(("cached-dataset",), False), (("cached-dataset", "threads"), True)])
def test_the_plain_part_of_a_patch_is_offered_where_there_is_one(names: tuple[str, ...], plain: bool) -> None:
    study = study_full()
    assert study.result is not None
    result = replace(study.result, levers=tuple({"name": name} for name in names))
    told = outcome.runs_on(replace(study, patch="+from hotlap.data import cached\n", result=result))
    assert told is not None
    assert "it calls cached." in told
    assert ("--without hotlap" in told) is plain


def test_what_the_answer_says_is_no_warning_as_well() -> None:
    study = study_full()
    assert study.result is not None
    why = "bf16-autocast gained 1.13x, and the budget was over."
    result = replace(study.result, verdict=Verdict.UNDECIDED, levers=(), why=why)
    told = document.warnings(replace(study, result=result, trials=(), warnings=(why, "It was busy.")))
    assert told is not None
    assert told.notes == ("It was busy.",)
