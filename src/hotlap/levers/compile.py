"""compile: the model is compiled by TorchInductor."""

from collections.abc import Sequence
from typing import Literal, Self

from hotlap.levers import models
from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import PASSES, Lever, Numerics, behind_imports
from hotlap.record import Machine, Run
from hotlap.source import Edit, InsertBefore

Mode = Literal["default", "reduce-overhead", "max-autotune"]

# What the modes of torch.compile stand for (torch._inductor.list_mode_options): a mode and other options cannot be
# given together. Random numbers are drawn as without compiling, so that the losses can be compared step by step.
_OPTIONS: dict[str, str] = {
    "default": '{"fallback_random": True}',
    "reduce-overhead": '{"triton.cudagraphs": True, "fallback_random": True}',
    "max-autotune": '{"max_autotune": True, "coordinate_descent_tuning": True, "triton.cudagraphs": True, '
    '"fallback_random": True}',
}

# The same where a framework compiles.
_SAME_DRAWS = "torch._inductor.config.fallback_random = True"

# `compile()` of a module whose forward is torch's own (nn.Sequential) does nothing without it: Dynamo leaves frames of
# torch's out, and sees no other (pytorch/pytorch#150915). It does so since 2.8 (#150209); under the public name,
# torch.compiler.config, only since 2.10 (read in both releases).
_WRAP = "torch._dynamo.config.wrap_top_frame = True"
_WRAPS_SINCE = (2, 8)


class Compile(Lever):
    """Calls `model.compile(...)` before the optimizer is made.

    What: forward and backward pass become a few fused kernels. Random numbers are drawn as before (`fallback_random`).
    Of a model whose parts are called one by one (`self.encoder(x)` in Lightning's `training_step`) each part is
    compiled; a Hugging Face Trainer compiles its model itself (`torch_compile_mode` of `TrainingArguments`). The names
    in saved checkpoints stay as they are. What is torch's own, such as `nn.Sequential`, is compiled in a frame of its
    own (`wrap_top_frame`, from torch 2.8 on): without it nothing of it would be compiled (pytorch/pytorch#150915).
    "reduce-overhead" replays the kernels as CUDA graphs; "max-autotune" also tries several kernels for each product.
    Why: elementwise operators are fused, so they pass over memory once, and Python and the dispatcher are left out.
    When it hurts: compiling takes from seconds to an hour (pytorch/pytorch#97783), which is told as one-time cost with
    the step from which on it pays. Some models are slower than without (#111182, #106466). Each new shape may compile
    again, and CUDA graphs are recorded again (#174704, #188150, #128424), so it is refused where shapes keep changing.
    Compiled backward passes have no derivative (#91469), so a script with `create_graph` is left alone.
    Losses were wrong in silence (#113180, #187715): the gate compares them.
    """

    numerics = Numerics.ROUNDING
    shortens = PASSES
    no_line = models.NO_NAME
    compiles = True

    mode: Mode = "default"
    dynamic: bool = False
    """One graph for all sizes."""

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """On a GPU the default, and the mode for what takes longer, launches or kernels; for sizes known to change,
        one graph for all of them and no CUDA graphs."""
        if run.shapes is not None and run.shapes.num_shapes > 2:
            return (cls(dynamic=True),)
        if run.device == "cpu":
            return (cls(),)
        busy_s = None if run.operators is None else run.operators.device_busy_s
        if busy_s is None:
            return (cls(), cls(mode="reduce-overhead"), cls(mode="max-autotune"))
        host_s = sum(run.mean_phase_s(phase) or 0.0 for phase in PASSES)
        return (cls(), cls(mode="reduce-overhead" if host_s > busy_s else "max-autotune"))

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Present state, what it needs, changing shapes, second derivatives, and whether it can be written."""
        from hotlap.machine.cuda import version

        if run.compiled:
            return "The script uses torch.compile already."
        if machine.compiler is None:
            return "There is no C++ compiler with Python's headers here, which torch.compile needs."
        shapes = run.shapes
        if shapes is not None and models.keep_coming(shapes):
            return f"The model was given {shapes.num_shapes} different shapes, and new ones keep coming."
        if models.takes_second_derivatives(run):
            return "The script takes second derivatives (create_graph), which compiled backward passes do not have."
        torch = version(run.versions.get("torch")) or _WRAPS_SINCE
        if torch < _WRAPS_SINCE and any(site.detail.get("torch_forward") for site in models.forward_sites(run)):
            return "The model is one of torch's own modules, whose compile() does nothing before torch 2.8."
        return None

    def edits(self, run: Run) -> Sequence[Edit]:
        """A statement in front of each optimizer, or the arguments of Hugging Face's Trainer."""
        if not self.dynamic:  # for which TrainingArguments has no word
            words = in_their_words(run, self.name, mode=self.mode)
            if words is not None:
                return (*words, *behind_imports(run, _SAME_DRAWS, imports="import torch._inductor.config"))
        dynamic = "dynamic=True, " if self.dynamic else ""
        edits = []
        for model in models.named_models(run):
            if model.forward.detail.get("torch_forward"):
                edits.append(InsertBefore(site=model.before, code=_WRAP, imports="import torch"))
            code = f"{model.name}.compile({dynamic}options={_OPTIONS[self.mode]})"
            edits.append(InsertBefore(site=model.before, code=code))
        return edits
