"""transformer: the study of the question's model, and the GPUs that it asks for."""

import re
from dataclasses import replace

from hotlap.lab import transformer
from hotlap.lab.result import Result
from hotlap.record import Interval, Sweep, ThreadTime
from tests.samples import study_full
from tests.unit.lab import samples

WHY = "With 2 threads a monitor shows about 64% busy."


def told(*, swept: bool = True) -> Result:
    times = tuple(
        ThreadTime(threads=count, step_s=Interval(low=0.9 / count, mid=1 / count, high=1.1 / count)) for count in (1, 2)
    )
    sweep = Sweep(times=times, why=WHY) if swept else None
    study = replace(study_full(), sweep=sweep, predictions=())
    return transformer.tell(study, samples.traced(), transformer.SIZES, targets=("RTX 4090",))


def test_the_gpus_of_the_question_are_predicted_with_intervals_and_are_in_the_study() -> None:
    result = told()
    for title in ("RTX 4090", "2 x RTX 4090", "4 x RTX 4090"):
        assert re.search(rf"(on|;) {title} ~[\d.]+ [mu]?s \([^)]+ to [^)]+\), bound by", result.story[-1])
    assert result.study is not None
    assert [one.count for one in result.study.predictions] == [1, 2, 4]


def test_the_percentage_of_the_cores_is_explained_by_the_sweep() -> None:
    assert WHY in told().story
    assert WHY not in told(swept=False).story
