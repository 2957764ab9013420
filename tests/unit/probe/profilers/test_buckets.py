"""Buckets of DistributedDataParallel: three processes are three threads here, each with a group of its own."""

from collections.abc import Sequence
from contextlib import nullcontext
from threading import get_ident
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from hotlap.levers.lever import Patch
from hotlap.probe.profilers.buckets import Buckets
from hotlap.probe.session import Session
from hotlap.record import BucketPass, SightingKind
from tests.ranks_as_threads import RANKS, in_own_process, on_each

pytestmark = [
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo"),
    in_own_process,
]


class Training:
    """A small model under DDP in each process, and one profiler that looks at the first."""

    def __init__(self, *, watched: bool = True, hook: Any = None, **options: Any) -> None:
        self.stage = SimpleNamespace(
            collectives=SimpleNamespace(on_device=False, passes=[]),
            steps=0,
            updates_made=0,
            in_backward=False,
            thread=SimpleNamespace(id=get_ident()),
        )
        self.patch, self.profiler, self.looks = Patch(), Buckets(), False
        if watched:
            self.profiler.install(cast(Session, self.stage), self.patch)
        torch.manual_seed(0)
        layers = [nn.Sequential(*(nn.Linear(8, 8) for _ in range(3))) for _ in range(RANKS)]
        self.models = on_each(lambda group, rank: _model(layers[rank], group, hook, options))
        self.patch.undo()

    def train(self, steps: int, *, passes: int = 1, no_sync: bool = False) -> None:
        """In all processes; the first trains in this thread."""

        def steps_of(rank: int) -> None:
            model, numbers = self.models[rank], torch.Generator().manual_seed(rank)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(steps):
                optimizer.zero_grad()
                for at in range(passes):
                    with model.no_sync() if no_sync and at < passes - 1 else nullcontext():
                        model(torch.randn(4, 8, generator=numbers)).square().mean().backward()
                optimizer.step()
                if not rank:
                    self.stage.steps += 1
                    self.stage.updates_made += 1
                    if self.looks:
                        self.profiler.goes_on()

        on_each(lambda _, rank: steps_of(rank))

    def look(self, steps: int, **how: Any) -> Sequence[BucketPass]:
        """So many steps in the profiler's window."""
        self.looks = self.profiler.goes_on()
        assert self.looks
        self.train(steps, **how)
        self.profiler.close()
        passes: list[BucketPass] = self.stage.collectives.passes
        return passes

    def parameters(self) -> torch.Tensor:
        return torch.cat([one.flatten() for model in self.models for one in model.parameters()])


def _model(layers: nn.Module, group: Any, hook: Any, options: dict[str, Any]) -> DistributedDataParallel:
    # Buckets of 40 bytes: one for each layer.
    model = DistributedDataParallel(layers, process_group=group, bucket_cap_mb=4e-5, **options)
    if hook is not None:
        model.register_comm_hook(group, hook)
    return model


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_as_bucket_view": True},
        {"find_unused_parameters": True},
        {"hook": fp16_compress_hook},  # as the lever gradient-compression registers it
    ],
)
def test_the_training_is_the_same_to_the_bit(options: dict[str, Any]) -> None:
    plain, watched = Training(watched=False, **options), Training(**options)
    plain.train(3)
    watched.train(3)
    plain.train(5)
    assert len(watched.look(5)) == 5
    assert torch.equal(plain.parameters(), watched.parameters())
    plain.train(2)
    watched.train(2)
    assert torch.equal(plain.parameters(), watched.parameters())


def test_every_bucket_is_ready_and_back_in_this_order() -> None:
    training = Training()
    training.train(2)
    passes = training.look(4)
    assert [one.step_index for one in passes] == [2, 3, 4, 5]
    for one in passes:
        assert len(one.buckets) == 3
        assert sum(bucket.num_bytes for bucket in one.buckets) == 3 * 72 * 4
        for bucket in one.buckets:
            assert bucket.ready <= bucket.back <= one.end
        assert [bucket.ready for bucket in one.buckets] == sorted(bucket.ready for bucket in one.buckets)
    assert not training.profiler.fields()["sightings"]


def test_passes_that_send_gradients_before_the_last_one_of_an_update_are_told_by_their_line() -> None:
    training = Training()
    training.look(4, passes=3)
    (found,) = training.profiler.fields()["sightings"]
    assert found.kind is SightingKind.ACCUMULATION_SYNC
    assert found.per_step == 2.0
    assert ".backward()" in found.text
    assert found.cost_s is not None and found.cost_s > 0


def test_passes_under_no_sync_are_none_of_them() -> None:
    training = Training()
    assert len(training.look(4, passes=3, no_sync=True)) == 4
    assert not training.profiler.fields()["sightings"]


def test_a_hook_of_the_scripts_is_called_as_it_was_registered() -> None:
    states = []

    def hook(state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        states.append(state)
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer().zero_())
        return future

    training = Training(hook=hook)
    passes = training.look(2)
    assert len(passes) == 2
    assert len(states) == RANKS * sum(len(one.buckets) for one in passes)
    assert all(isinstance(state, dist.ProcessGroup) for state in states)
    assert not any(one.grad.any() for one in training.models[0].parameters())


def test_a_hook_that_the_script_registers_after_the_look_is_no_error() -> None:
    """torch takes one for each model, and ours is there."""
    training = Training()
    training.look(2)
    training.profiler.install(cast(Session, training.stage), training.patch)
    for model in training.models:
        model.register_comm_hook("ours", fp16_compress_hook)
    training.train(1)
    training.patch.undo()


def test_what_a_hook_of_the_scripts_raises_reaches_the_script() -> None:
    def hook(state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        raise ValueError("no bucket today")

    training = Training(hook=hook)
    with pytest.raises(ValueError, match="no bucket today"):
        training.look(1)
    assert not training.stage.collectives.passes


def test_without_a_model_it_asks_for_no_step() -> None:
    profiler = Buckets()
    profiler.session = cast(Session, Training(watched=False).stage)
    assert not profiler.goes_on()
