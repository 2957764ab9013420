"""Trial groups on a cluster: jobs that wait, are lost, fail or never answer; a scheduler and a clock that are none."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.launch.placed import BEGUN, BROUGHT, JOB, ORDER, Brought, Order, Placed, State
from hotlap.record import Machine, Plan, Run, Status, load, save
from tests.unit.tune.world import MACHINE

PLAN = Plan(command=("python", "train.py"), cwd="/", out="")


class Cluster:
    """`fate`: number of a submission, from 1 -> what becomes of that job: "done", "lost", "silent", "refused"."""

    name = "slurm"
    one_kind = "Name a partition."

    def __init__(self, fate: Callable[[int], str] = lambda number: "done", *, wait_s: float = 0.0) -> None:
        self.fate = fate
        self.wait_s = wait_s
        self.clock = 0.0
        self.out_of_reach_until = 0.0
        self.closed_until = 0.0
        self.jobs: dict[str, tuple[Path, float]] = {}
        self.cancelled: list[str] = []
        self.machine: Machine = MACHINE

    def sleep(self, seconds: float) -> None:
        self.clock += seconds
        for job, (folder, begins) in self.jobs.items():
            if self.clock >= begins and not (folder / BROUGHT).exists() and self.fate(int(job)) in ("done", "refused"):
                (folder / BEGUN).touch()
                order = load(folder / ORDER, Order)
                runs = tuple(Run(status=Status.COMPLETE, order_seed=plan.order_seed) for plan in order.plans)
                refused = "No room is left." if self.fate(int(job)) == "refused" else None
                save(Brought(machine=self.machine, runs=runs, refused=refused), folder / BROUGHT)

    def submit(self, command: object, folder: Path, *, limit_s: float) -> str:
        if self.clock < self.closed_until:
            raise UserError("Connection refused.")
        job = str(len(self.jobs) + 1)
        self.jobs[job] = folder, self.clock + self.wait_s
        (folder / "printed").write_text("No module named hotlap\n")
        return job

    def state(self, job: str) -> tuple[State, str]:
        if self.clock < self.jobs[job][1]:
            return State.PLACED, "PENDING"
        if self.clock < self.out_of_reach_until:
            return State.SILENT, "Connection refused"
        return {"lost": (State.LOST, "PREEMPTED"), "silent": (State.OVER, "OUT_OF_MEMORY")}.get(
            self.fate(int(job)), (State.PLACED, "RUNNING")
        )

    def cancel(self, job: str) -> None:
        self.cancelled.append(job)


def placed(cluster: Cluster, folder: Path, **settings: object) -> Placed:
    order = Order(folders=(), timeout_s=60.0, memory_bytes=None)
    return Placed(
        cluster,
        folder / "jobs",
        nodes=8,
        order=order,
        now=lambda: cluster.clock,
        sleep=cluster.sleep,
        **settings,  # type: ignore[arg-type]
    )


def test_a_queue_takes_nothing_of_the_budget_and_runs_come_back_in_their_order(tmp_path: Path) -> None:
    cluster = Cluster(wait_s=3600.0)
    with placed(cluster, tmp_path) as runs:
        assert runs.machine() == MACHINE
        plans = [replace(PLAN, order_seed=seed) for seed in range(4)]
        found = runs.many([plans[:2], plans[2:]], limits_s=[10.0, 10.0])
        assert [[run.order_seed for run in trial_group] for trial_group in found] == [[0, 1], [2, 3]]
        assert cluster.clock > 2 * 3600.0 and runs.now() < 10.0
    assert not cluster.cancelled and not (tmp_path / "jobs").exists()


def test_a_scheduler_that_is_slow_to_answer_takes_nothing_of_the_budget_while_jobs_queue(tmp_path: Path) -> None:
    class Slow(Cluster):
        def state(self, job: str) -> tuple[State, str]:
            self.clock += 30.0
            return super().state(job)

    cluster = Slow(wait_s=3600.0)
    with placed(cluster, tmp_path) as runs:
        runs([PLAN], limit_s=10.0)
        assert cluster.clock > 3600.0 and runs.now() < 60.0


def test_with_many_jobs_lost_to_others_no_run_is_lost_or_counted_twice(tmp_path: Path) -> None:
    lots = random.Random(0)
    fates = ["lost" if lots.random() < 0.3 else "done" for _ in range(400)]
    cluster = Cluster(lambda number: fates[number - 1])
    with placed(cluster, tmp_path) as runs:
        for start in range(0, 200, 8):
            trial_groups = [[replace(PLAN, order_seed=seed)] for seed in range(start, start + 8)]
            found = runs.many(trial_groups, limits_s=[10.0] * 8)
            assert [run.order_seed for trial_group in found for run in trial_group] == list(range(start, start + 8))
    assert len(cluster.jobs) > 240, "some were placed again"


def test_ctrl_c_cancels_the_jobs_of_this_study(tmp_path: Path) -> None:
    cluster = Cluster(wait_s=60.0)
    with placed(cluster, tmp_path, interrupted=lambda: cluster.clock > 5.0) as runs, pytest.raises(KeyboardInterrupt):
        runs.many([[PLAN], [PLAN]], limits_s=[10.0, 10.0])
    assert cluster.cancelled == ["1", "2"]


def test_ctrl_c_right_after_the_first_job_was_taken_cancels_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    write_text = Path.write_text

    def interrupted(path: Path, text: str, **settings: str) -> int:
        written = write_text(path, text, **settings)
        if path.name == JOB:
            raise KeyboardInterrupt
        return written

    monkeypatch.setattr(Path, "write_text", interrupted)
    with placed(cluster, tmp_path) as runs, pytest.raises(KeyboardInterrupt):
        runs([PLAN], limit_s=10.0)
    assert cluster.cancelled == ["1"]


def test_jobs_of_a_hotlap_that_was_killed_are_cancelled_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / "jobs" / "0001"
    left.mkdir(parents=True)
    (left / JOB).write_text("4711")
    cluster = Cluster()
    placed(cluster, tmp_path)
    assert cluster.cancelled == ["4711"]


def test_a_node_that_cannot_run_hotlap_is_told_with_what_it_said(tmp_path: Path) -> None:
    with (
        placed(Cluster(lambda number: "silent"), tmp_path) as runs,
        pytest.raises(UserError, match=r"OUT_OF_MEMORY.*No module named hotlap.*there on the nodes\?"),
    ):
        runs.machine()


def test_a_job_that_fails_later_fails_its_runs_and_not_the_study(tmp_path: Path) -> None:
    with placed(Cluster(lambda number: "done" if number == 1 else "silent"), tmp_path) as runs:
        runs.machine()
        (run, other) = runs([PLAN, PLAN], limit_s=10.0)
    assert run.status is Status.KILLED and "OUT_OF_MEMORY" in str(run.error) and other.status is Status.KILLED


def test_a_scheduler_that_is_started_anew_is_waited_for(tmp_path: Path) -> None:
    cluster = Cluster(wait_s=700.0)
    cluster.out_of_reach_until = 600.0
    with placed(cluster, tmp_path) as runs:
        assert runs.machine() == MACHINE
    assert len(cluster.jobs) == 1, "its jobs go on meanwhile"


def test_a_scheduler_that_takes_no_jobs_for_some_minutes_is_waited_for_amid_a_study_only(tmp_path: Path) -> None:
    cluster = Cluster(lambda number: "lost" if number == 2 else "done")
    with placed(cluster, tmp_path) as runs:
        runs.machine()
        for _ in range(2):
            cluster.closed_until = cluster.clock + 300.0
            assert [run.status for run in runs([PLAN], limit_s=10.0)] == [Status.COMPLETE]
    assert len(cluster.jobs) == 4
    cluster.closed_until = 1e6
    with placed(cluster, tmp_path) as runs, pytest.raises(UserError, match=r"^Connection refused\.$"):
        runs.machine()
    with placed(Cluster(), tmp_path) as runs:
        runs.machine()
        runs._backend.closed_until = 1e6  # type: ignore[attr-defined]
        with pytest.raises(UserError, match=r"taken or answered nothing for 15 minutes \(Connection refused\)"):
            runs([PLAN], limit_s=10.0)


def test_a_scheduler_that_never_answers_again_ends_the_study_until_it_does(tmp_path: Path) -> None:
    cluster = Cluster(lambda number: "silent")
    cluster.out_of_reach_until = 1e6
    with (
        placed(cluster, tmp_path) as runs,
        pytest.raises(UserError, match=r"slurm has taken or answered nothing for 15 minutes"),
    ):
        runs.machine()
    assert cluster.clock < 1000.0


def test_files_that_are_seen_late_or_in_part_are_waited_for(tmp_path: Path) -> None:
    class Late(Cluster):
        """A job is over at once; its file is there 40 s later, and whole after 10 more."""

        def sleep(self, seconds: float) -> None:
            self.clock += seconds
            brought = tmp_path / "jobs" / "0001" / BROUGHT
            if 40.0 < self.clock < 50.0:
                brought.write_text("{")
            elif self.clock >= 50.0:
                save(Brought(machine=self.machine), brought)

    cluster = Late(lambda number: "silent")
    with placed(cluster, tmp_path) as runs:
        assert runs.machine() == MACHINE


def test_nodes_of_two_kinds_are_not_compared(tmp_path: Path) -> None:
    cluster = Cluster()
    with placed(cluster, tmp_path) as runs:
        runs.machine()
        cluster.machine = replace(MACHINE, usable_cores=64.0)
        with pytest.raises(UserError, match=r"2 cores of a processor; 64 cores of a processor.*Name a partition"):
            runs([PLAN], limit_s=10.0)


def test_what_a_node_refuses_is_said_as_here(tmp_path: Path) -> None:
    with placed(Cluster(lambda number: "refused"), tmp_path) as runs, pytest.raises(UserError, match="No room is left"):
        runs([PLAN], limit_s=10.0)
