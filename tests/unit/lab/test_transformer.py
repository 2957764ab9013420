"""transformer: the study of the question's model, and the GPUs that it asks for."""

from dataclasses import replace

from hotlap.lab import transformer
from hotlap.lab.result import Quantity, Result
from hotlap.lab.settings import Settings
from hotlap.record import Cores, Finding, Interval, Sweep, ThreadTime
from tests.samples import study_full
from tests.unit.lab import samples

WHY = "With 2 threads a monitor shows about 64% busy."
REMARK = Finding(code="attention-over-batch", cost_s=0.1, share=0.5, evidence="The batch of 8 is the sequence.")


def told(*, findings: tuple[Finding, ...] = (), swept: bool = True) -> Result:
    times = tuple(
        ThreadTime(threads=count, step_s=Interval(low=0.9 / count, mid=1 / count, high=1.1 / count)) for count in (1, 2)
    )
    sweep = Sweep(times=times, why=WHY, cores=Cores(logical=2, allowed=2), best_threads=2) if swept else None
    study = replace(study_full(), findings=findings, sweep=sweep, predictions=())
    return transformer.tell(study, samples.traced(), Settings(), targets=("RTX 4090",))


def test_the_gpus_of_the_question_are_predicted_with_intervals_and_are_in_the_study() -> None:
    result = told()
    table = result.tables[-1]
    assert [(row[0], str(row[1])) for row in table.rows] == [("RTX 4090", "1"), ("RTX 4090", "2"), ("RTX 4090", "4")]
    assert all(isinstance(row[2], Quantity) and row[2].predicted and row[2].low is not None for row in table.rows)
    assert result.study is not None
    assert [one.count for one in result.study.predictions] == [1, 2, 4]


def test_the_percentage_of_the_cores_is_explained_by_the_sweep() -> None:
    assert WHY in told().story
    assert WHY not in told(swept=False).story


def test_attention_over_the_batch_is_remarked() -> None:
    assert "batch_first=True" in told(findings=(REMARK,)).story[-1]
    assert not any("batch_first" in paragraph for paragraph in told().story)
