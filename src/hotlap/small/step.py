"""compile_step(model, loss, optimizer) -> a training step that runs natively on the user's own tensors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn, optim

from hotlap.errors import UserError
from hotlap.small import guards, losses
from hotlap.small.optimizers import NativeOptimizer
from hotlap.small.program import Unsupported, native
from hotlap.small.trace import trace_model, why_no_rows

Loss = nn.Module | Callable[..., torch.Tensor]


class CompiledStep:
    """Trains one model with one loss and one optimizer.

    Parameters and the optimizer's state are the caller's own tensors and are current after every call, so `state_dict`,
    checkpoints and schedulers work as always; only `.grad` stays as it was. What was compiled is checked at every call:
    a parameter that was resized, moved, tied or given a hook means compiling again, or a refusal that names it.
    """

    def __init__(self, model: nn.Module, loss: Loss, optimizer: optim.Optimizer) -> None:
        self.model = model
        self.loss = loss
        self.optimizer = optimizer
        self._bind()

    def __reduce__(self) -> Any:
        """A copy is compiled anew, for the copies of the three."""
        return CompiledStep, (self.model, self.loss, self.optimizer)

    # -- one step ----------------------------------------------------------------------------------------------------

    def step(self, x: torch.Tensor, y: torch.Tensor) -> float:
        """One forward, backward and update; returns the loss before the update."""
        loss: float | None = self._native.call(x, y)
        if loss is None:
            self._revalidate()
            loss = float(self._native.call(*self._check(x, y)))
        self._optimizer.tell()
        return loss

    def fit(
        self,
        X: torch.Tensor,  # noqa: N803 - as in scikit-learn
        y: torch.Tensor,
        *,
        epochs: int = 1,
        batch_size: int = 32,
        shuffle: bool = True,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
        after_epoch: Callable[[int, float], object] | None = None,
    ) -> list[float]:
        """Train over all samples, in a new order each epoch; the loop is native.

        Returns the mean loss of each epoch's steps. `after_epoch(epoch, loss)` may step a scheduler; if it returns True
        training stops there. The order is torch.randperm's with `generator`.
        """
        if batch_size < 1:
            raise UserError(f"batch_size is {batch_size}; it has to be at least 1.")
        history = []
        for epoch in range(epochs):
            self._revalidate()
            given, target = self._check(X, y)
            order = torch.randperm(len(given), generator=generator, device="cpu") if shuffle else None
            address = 0 if order is None else order.data_ptr()
            mean = self._native.epoch(given.data_ptr(), target.data_ptr(), len(given), address, batch_size, drop_last)
            self._optimizer.tell()
            history.append(float(mean))
            if after_epoch is not None and after_epoch(epoch, history[-1]) is True:
                break
        return history

    # -- what it was made from ---------------------------------------------------------------------------------------

    def _bind(self) -> None:
        """Compile for the model, loss and optimizer as they are now."""
        self._criterion = losses.recognise(self.loss)
        self._program, guard = guards.traced(self.model, lambda: trace_model(self.model), self.loss)
        self._optimizer = NativeOptimizer(self.optimizer, self._program.parameters, guard)
        classes = native(self._program.dtype)
        self._native = classes.Step(self._program.description(), self._criterion, self._optimizer.native, guard)
        # A scheduler warns where it believes that the optimizer has not stepped.
        self.optimizer._opt_called = True  # type: ignore[attr-defined]

    def _revalidate(self) -> None:
        """Compile again if anything is not as it was."""
        if not self._optimizer.holds():
            self._bind()

    def _check(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch as the native core reads it."""
        program = self._program
        features = program.values[program.input][0]
        if x.dtype != program.dtype or x.device.type != "cpu":
            raise Unsupported(f"the batch is {x.dtype} on {x.device}; the model takes {program.dtype} on the CPU.")
        if x.requires_grad or y.requires_grad:
            raise Unsupported("the batch requires a gradient; compile_step gives gradients to parameters only.")
        if x.dim() > 2:
            reason = why_no_rows(program, self.model, tuple(x.shape[1:]))
            if reason:
                raise Unsupported(reason)
            x = x.reshape(x.shape[0], features)
        if x.dim() != 2 or x.shape[1] != features:
            raise Unsupported(f"the batch has shape {tuple(x.shape)}; (rows, {features}) is expected.")
        cols = program.values[program.output][0]
        y = losses.check_target(self._criterion, y, rows=x.shape[0], cols=cols, squeezed=program.output_squeezed)
        if not self._criterion.labels and y.dtype != program.dtype:
            raise Unsupported(f"the target is {y.dtype}, the model {program.dtype}.")
        return x.contiguous(), y


def compile_step(model: nn.Module, loss: Loss, optimizer: optim.Optimizer) -> CompiledStep:
    """A training step for a small network, run natively on the CPU; Unsupported names what is not recognised.

    Args:
        model: nn.Sequential, or any module whose forward torch.fx can follow, made of Linear, sums and the usual
            activations; float32 or float64, on the CPU.
        loss: a loss of torch.nn, or of torch.nn.functional with its defaults.
        optimizer: SGD, Adam or AdamW over (some of) the model's parameters.
    """
    return CompiledStep(model, loss, optimizer)
