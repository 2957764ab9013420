"""What a script can tell DistributedDataParallel where it wraps its model: each of these is a lever."""

import ast
from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from hotlap.levers.cards import is_before_ampere
from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import Lever, Numerics
from hotlap.levers.models import forward_sites, not_float32
from hotlap.record import CallSite, Ceiling, Machine, Phase, Run
from hotlap.source import AddArgument, Edit, InsertBehind, Script, is_name, scripts

WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)
"""Full names of what wraps a model."""

EXCHANGE: Sequence[Phase] = (Phase.BACKWARD, Phase.COMMUNICATION)
"""Backward passes, which send gradients while they go on, and what is waited for behind."""

# A model takes one hook, and an error ends the training at the second.
_REGISTERS = frozenset({"register_comm_hook", "_register_builtin_comm_hook"})


def why_none(run: Run) -> str | None:
    """Why there is no model that DistributedDataParallel wraps; None where there is one."""
    if run.world_size == 1:
        return "One process trains here."
    return None if forward_sites(run, "data_parallel") else "No model was seen that DistributedDataParallel wraps."


class WrapperArgument(Lever, ABC):
    """Turns something off by an argument of DistributedDataParallel, where the script wraps its model or in a
    framework's own words.

    Where the script chose it itself it stays, unless the lever `replaces` the choice, and then only there.
    """

    numerics = Numerics.EXACT
    across_ranks = True
    no_line = "The script makes no DistributedDataParallel, or chooses this itself."
    replaces: ClassVar[bool] = False
    detail: ClassVar[str]
    """What is known of a model that has it on (`hotlap.probe.facts.wrapped_with`): the argument's name in this torch,
    unless `argument` says it."""
    argument: ClassVar[str] = ""
    absent: ClassVar[str]
    """Why it brings nothing where no model has it on."""

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, and is it on?"""
        return why_none(run) or (None if self._on(run) else self.absent)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more, or another value of it."""
        keyword = self.argument or next((str(site.detail[self.detail]) for site in self._on(run)), "")
        if not keyword:
            return ()
        calls = [(script, call) for script in scripts(run) for call in script.calls(*WRAPPERS)]
        if not calls:
            return in_their_words(run, self.name) or ()
        return tuple(
            AddArgument(site=script.site(call, calls=WRAPPERS[0]), keyword=keyword, value="False")
            for script, call in calls
            if any(word.arg == keyword for word in call.keywords) == self.replaces
        )

    def _on(self, run: Run) -> list[CallSite]:
        return [site for site in forward_sites(run, "data_parallel") if site.detail.get(self.detail)]


class BufferBroadcast(WrapperArgument):
    """Stops sending the model's buffers from rank 0 to all others in front of each forward pass.

    What: `forward_sync_buffers=False` in `DistributedDataParallel`, which up to torch 2.12 is `broadcast_buffers`.
    Why: masks, tables of positions and the like are buffers, which no step changes, and are sent all the same
    (PyTorch's documentation of `DistributedDataParallel`). With a mask of 256 KB in each of twelve small layers two
    ranks took 1.7 times as long.
    When it hurts: buffers that differ between ranks then stay different. So it is refused where BatchNorm keeps
    statistics of the batches of one rank, and the gate compares the buffers of each rank with its own baseline. Buffers
    that one rank alone changes, after the trials, would no longer reach the others.
    """

    shortens = (Phase.FORWARD, Phase.COMMUNICATION)  # it begins the forward pass
    detail = "sends_buffers"
    absent = "No model has buffers that are sent in each step."

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Has it buffers that are sent, and are they no statistics of a rank's own batches?"""
        drifts = any(site.detail.get("batch_statistics") for site in forward_sites(run, "data_parallel"))
        apart = "A layer keeps statistics of the batches of its own rank in its buffers, which would drift apart."
        return super().refuses(run, machine) or (apart if drifts else None)


class UnusedParameters(WrapperArgument):
    """Turns off the search for parameters that a step did not use: `find_unused_parameters=False`.

    What: the argument of `DistributedDataParallel`, where the script (or Hugging Face's Trainer, whose default it is)
    has it on.
    Why: with it each forward pass ends in a walk over the whole graph, and each backward pass in an exchange of which
    parameters were used where (PyTorch's documentation of `DistributedDataParallel`, "find_unused_parameters"). A
    perceptron of twelve small layers on two ranks took 1.1 times as long with it.
    When it hurts: where a step does leave out a parameter, in any rank, DistributedDataParallel ends with an error in
    the next one, so the trial fails and the lever is not taken. A part that is first left out after the trials (one
    that is frozen later on, a branch taken rarely) ends the training there in the same way.
    """

    shortens = (Phase.FORWARD, *EXCHANGE)  # the walk is in the forward pass
    no_line = "The search is not turned on in the script's own source."
    replaces = True
    detail = "finds_unused"
    argument = "find_unused_parameters"
    absent = "DistributedDataParallel does not look for unused parameters here."


class GradientCompression(Lever):
    """Sends gradients as float16 or bfloat16: `model.register_comm_hook(model.process_group, fp16_compress_hook)`.

    What: one line behind the one that wraps the model, with a communication hook that torch brings along: each bucket
    is cast, averaged over all processes and cast back (PyTorch's documentation, "DDP Communication Hooks"). Weights,
    optimizer and the passes of the model stay in float32.
    Why: half of the bytes travel. That helps where the link is slower than the backward pass can hide: over an emulated
    1 Gbit/s a perceptron of 7 MB was 1.38x as fast (1.32-1.45x; `benchmarks/ranks/scripts/training.py 1-gbit 12 32`),
    over 100 Gbit/s no gain was seen.
    When it hurts: averages are made in 11 bits of mantissa (float16) or 8 (bfloat16): other numbers, judged
    statistically. In float16 gradients below 6e-8 vanish (of a deep perceptron as torch initialises it 92% of a layer's
    did, and the gate failed it), and those above 65,504 are infinite, which many ranks or a loss scale bring nearer.
    torch takes its bfloat16 hook with NCCL and XCCL only, so on CPUs float16 alone is tried. Where the link is fast the
    casts cost more than they bring. A model bears one hook: where the script registers its own, or
    DistributedDataParallel has one for its `mixed_precision`, this is refused.
    """

    numerics = Numerics.STATISTICAL
    across_ranks = True
    shortens = EXCHANGE
    no_line = "No line of the script gives a model that DistributedDataParallel wraps a name."

    dtype: Literal["fp16", "bf16"] = "fp16"

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """The one with float32's range first, where torch has it."""
        fp16_alone = run.device == "cpu" or is_before_ampere(run.device)
        return (cls(),) if fp16_alone else (cls(dtype="bf16"), cls())

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, without a hook, and with gradients that can be halved?"""
        none = why_none(run)
        if none is not None:
            return none
        registers = any(script.spelled(*_REGISTERS) for script in scripts(run))
        if registers or any(site.detail.get("hooked") for site in forward_sites(run, "data_parallel")):
            return "The model has a communication hook already, and bears only one."
        return not_float32(run)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """What the backward pass does not hide of the exchange."""
        exposed_s = run.operators.communication_exposed_s if run.operators is not None else None
        if exposed_s is not None:
            return exposed_s
        return run.mean_phase_s(Phase.COMMUNICATION) or super().saves_at_most_s(run, ceilings)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One statement behind each that wraps a model and names it."""
        hook = f"{self.dtype}_compress_hook"
        return tuple(
            InsertBehind(
                site=script.site(call, calls=WRAPPERS[0]),
                code=f"{name}.register_comm_hook({name}.process_group, {hook})",
                imports=f"from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import {hook}",
            )
            for script in scripts(run)
            if not script.spelled(*_REGISTERS)
            for call in script.calls(*WRAPPERS)
            for name in _names(script, call)
        )


def _names(script: Script, call: ast.Call) -> Sequence[str]:
    """`self.model` of `self.model = DistributedDataParallel(...)`; none where it is no such statement."""
    match next(script.around(call)):
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target) if is_name(target):
            return [script.code(target)]
    return ()
