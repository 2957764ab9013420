"""What rules say of several processes: a slow one, unequal work, a slow link and needless exchanges told apart."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from hotlap import rules
from hotlap.record import Exchange, HotLine, Phase, RankFacts, Run, UnequalWork
from tests.edits.sites import sites
from tests.rule_runs import firing, healthy

SCRIPT = """from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=4)
net = DDP(layers)
loss.backward()
"""


def with_script(run: Run, folder: Path) -> Run:
    path = folder / "train.py"
    path.write_text(SCRIPT)
    return replace(run, sources={str(path): sha256(path.read_bytes()).hexdigest()})


def rank(number: int, *, phase_s: Mapping[Phase, float], lines: tuple[HotLine, ...] = ()) -> RankFacts:
    return RankFacts(
        rank=number,
        host="node",
        step_s=0.01,
        compute_s=sum(phase_s.values()),
        wait_s=0.0,
        transfer_s=0.0,
        phase_s={**phase_s, Phase.COMMUNICATION: 0.001},
        hot_lines=lines,
    )


def line(phase: Phase) -> HotLine:
    return HotLine(path="/home/train.py", line=7, function="main", text="log(model)", phase=phase, step_s=0.003)


def slow_rank(work: UnequalWork | None = None) -> Run:
    return replace(
        healthy(),
        world_size=2,
        ranks=(
            rank(0, phase_s={Phase.FORWARD: 0.002, Phase.OTHER: 0.0}),
            rank(
                1,
                phase_s={Phase.FORWARD: 0.003, Phase.OTHER: 0.004},
                lines=(line(Phase.FORWARD), line(Phase.OTHER)),
            ),
        ),
        unequal_work=work,
    )


def found(run: Run) -> dict[str, str]:
    return {finding.code: finding.evidence for finding in rules.check(run)}


def test_a_straggler_is_named_with_the_phase_in_which_it_is_slow_and_its_line() -> None:
    assert found(slow_rank())["straggler"] == (
        "Rank 1 on node takes 7.00 ms a step without communication, the others 2.00 ms: all wait 5.00 ms (50% of each "
        "step); 4.00 ms longer in other; 3.00 ms of that in line 7 of train.py, main: log(model)."
    )


def test_a_process_that_has_more_to_compute_is_no_straggler() -> None:
    extra_s = {0: -0.0025, 1: 0.0025}
    work = UnequalWork(cost_s=0.0025, most=1.5, work={0: 10.0, 1: 30.0}, extra_s=extra_s)
    said = found(slow_rank(work))
    assert "straggler" not in said
    assert said["unequal-work"] == (
        "The process with most elements (mostly rank 1) in a step has 1.50 times the mean of the 2 processes to "
        "compute: all wait 2.50 ms (25% of each step) for it."
    )


def test_a_process_that_is_slow_beyond_its_work_is_still_a_straggler() -> None:
    work = UnequalWork(cost_s=0.001, most=1.1, work={0: 10.0, 1: 12.0}, extra_s={0: -0.001, 1: 0.001})
    said = found(slow_rank(work))
    assert next(iter(said)) == "straggler"


def test_where_another_process_has_most_in_each_step_none_is_named(tmp_path: Path) -> None:
    work = UnequalWork(cost_s=0.0025, most=1.5, work={0: 20.0, 1: 21.0}, extra_s={0: 0.0, 1: 0.0})
    said = found(with_script(replace(healthy(), world_size=2, unequal_work=work), tmp_path))["unequal-work"]
    assert said.startswith("The process with most elements (another one from step to step)")
    assert said.endswith("; batches are made in line 3 of train.py.")


def test_a_slow_link_is_told_by_its_speed_what_is_hidden_and_where_the_model_is_wrapped(tmp_path: Path) -> None:
    exchange = Exchange(num_steps=9, passes=1, buckets=4, num_bytes=2**20, link_s=0.008, exposed_s=0.002)
    said = found(with_script(replace(firing("communication-bound"), exchange=exchange), tmp_path))
    assert said["communication-bound"].endswith(
        "; 1.00 MiB in 4 buckets are on their way for 8.00 ms (125 MiB a second), 75% of that hidden behind the "
        "backward pass (the model is wrapped in line 4 of train.py)."
    )


def test_what_was_seen_of_the_wrapped_model_says_what_to_try() -> None:
    run = firing("communication-bound")
    (site,) = sites("model(x)\n", "model", path="train.py")
    wrapped: dict[str, str | int | float | bool | None] = {
        "data_parallel": True,
        "gradient_mb": 4.0,
        "finds_unused": False,
        "sends_buffers": "broadcast_buffers",
    }
    told = replace(run, call_sites=(replace(site, calls="forward", detail=wrapped),))
    (finding,) = [one for one in rules.check(told) if one.code == "communication-bound"]
    assert finding.try_levers == ("buffer-broadcast", "bucket-size", "gradient-views", "gradient-compression")
    assert "the model's buffers are sent in front of each forward pass" in finding.evidence
    (plain,) = [one for one in rules.check(run) if one.code == "communication-bound"]
    assert plain.try_levers == ()


def test_needless_exchanges_come_with_the_code_before_and_after(tmp_path: Path) -> None:
    run = with_script(firing("accumulation-syncs"), tmp_path)
    needless = replace(run.sightings[0], path=str(tmp_path / "train.py"), line=5, text="loss.backward()", per_step=3.0)
    (finding,) = rules.check(replace(run, sightings=(needless,)))[:1]
    assert finding.code == "accumulation-syncs"
    assert (finding.where, finding.before) == ("train.py:5", "loss.backward()")
    assert "net.no_sync()" in finding.after
    assert finding.after.endswith("loss.backward()")
    assert finding.evidence.startswith("3 backward passes of each step average gradients over 2 processes")
    assert "at most 3.00 ms (30% of each step)" in finding.evidence
