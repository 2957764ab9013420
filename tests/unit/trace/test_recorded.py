"""Real traces of real GPUs, beside what is known of them. They lie outside of the repository (see their README)."""

import shutil
from pathlib import Path

import pytest

from hotlap.record import IdleReason, Study
from hotlap.trace import read_trace, table
from hotlap.trace.reading import Reading, reading
from tests.benchmark_files import benchmark

TRACES = Path(__file__).parents[3].parent / "shared" / "data" / "traces"

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="needs ../shared/data/traces")


def told(name: str) -> Reading:
    return reading(table.read(TRACES / f"{name}.json.gz"))


@pytest.mark.parametrize("name", ["h100-nsfw-inference", "h100-qwen15-inference", "mi300-resnet-ddp-checkpoint"])
def test_times_are_those_of_another_tool(name: str) -> None:
    """Its tables stand beside these traces; NVIDIA and AMD, with and without activations that are computed again."""
    tables = benchmark("traces.py")
    ours, theirs = tables.gpu_timeline(told(name)), tables.table_of(TRACES / f"{name}.gpu_timeline.csv")
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=0.001, abs=1e-6), key


@pytest.fixture(scope="module", params=["a", "b"])
def resnet(request: pytest.FixtureRequest) -> Study:
    return read_trace(TRACES / f"v100-resnet50-workers0-{request.param}.json.gz")


def test_a_loader_without_workers_is_what_the_device_waits_for(resnet: Study) -> None:
    assert [one.code for one in resnet.findings][:1] == ["input-bound"]
    assert [one.name for one in resnet.ceilings][:1] == ["input"]
    assert resnet.baseline[0].device == "Tesla V100-DGXS-32GB"
    # The second of the two was recorded in a quieter minute; what the device has to do is the same in both.
    assert resnet.ceilings[0].step_s == pytest.approx(0.119, rel=0.02)


def test_eight_ranks_wait_for_one_whose_host_is_late(tmp_path: Path) -> None:
    shutil.unpack_archive(TRACES / "v100-dlrm-8ranks.tar.gz", tmp_path, filter="data")
    study = read_trace(tmp_path)
    (run,) = study.baseline
    waits = {one.rank: one.wait_s or 0.0 for one in run.ranks}
    assert sorted(waits) == list(range(8))
    assert run.rank == min(waits, key=lambda rank: waits[rank]) == 7
    assert [one.code for one in study.findings] == ["straggler", "host-bound", "launch-bound"]
    assert run.operators is not None
    # About 1 ms of computing in a step of 12 ms.
    assert run.operators.device_busy_s == pytest.approx(0.0027, rel=0.05)


@pytest.mark.parametrize(
    ("name", "steps", "device", "first"),
    [
        ("2080ti-resnet", 29, "NVIDIA GeForce RTX 2080 Ti", "input-bound"),
        ("a100-ddp-rank3", 6, "NVIDIA A100-PG509-200", "communication-bound"),
        ("v100-ns-resolution", 5, "Tesla V100-SXM2-32GB", "compute-bound"),
        ("mi300-resnet-ddp-checkpoint", 3, "AMD Instinct MI300X", "communication-bound"),
    ],
)
def test_every_format_and_maker(name: str, steps: int, device: str, first: str) -> None:
    study = read_trace(TRACES / f"{name}.json.gz")
    (run,) = study.baseline
    assert (len(run.step_s), run.device) == (steps, device)
    assert study.findings[0].code == first
    parts = [sum(part) for part in run.phase_s.values() if part is not None]
    assert sum(parts) == pytest.approx(sum(run.step_s), rel=0.001)


def test_a_card_without_bfloat16_is_not_told_to_use_it() -> None:
    (finding,) = read_trace(TRACES / "v100-ns-resolution.json.gz").findings
    assert finding.try_levers == ("compile",)


def test_an_inference_has_one_step_and_is_launch_bound() -> None:
    found = told("h100-nsfw-inference")
    assert len(found.run.step_s) == 1
    assert found.idle.seconds(IdleReason.INPUT) == 0
    assert found.run.operators is not None
    assert found.run.operators.num_kernels == 154
