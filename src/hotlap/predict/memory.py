"""Will it fit? Parameters, gradients, optimizer state and activations -> bytes on each GPU."""

from dataclasses import dataclass

from hotlap.predict.catalogue import Device
from hotlap.predict.precision import Precision
from hotlap.predict.workload import Workload

# What the driver, the CUDA context, cuDNN/cuBLAS workspaces and fragmentation take on top.
CONTEXT_BYTES = 1.0 * 2**30
FRAGMENTATION = 1.08
# Adam keeps two numbers for each parameter.
STATE_PER_PARAMETER = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes on one GPU."""

    model: float
    """Parameters, gradients and optimizer state."""
    activations: float
    total: float

    def fits(self, device: Device) -> bool:
        """True if it is expected to run without running out of memory."""
        return self.total <= device.memory


def need(workload: Workload, *, precision: Precision | None = None, shards: int = 1) -> Need | None:
    """What one GPU must hold; None where the workload does not say.

    Arguments:
        precision: computed in; half precision keeps activations in two bytes and parameters in four.
        shards: GPUs over which FSDP spreads parameters, gradients and optimizer state (1: none).
    """
    if workload.parameter_bytes is None or workload.activation_bytes is None:
        return None
    state = workload.optimizer_state_bytes
    if state is None:
        state = STATE_PER_PARAMETER * workload.parameter_bytes
    gradients = workload.gradient_bytes if workload.gradient_bytes is not None else workload.parameter_bytes
    model = (workload.parameter_bytes + gradients + state) / shards
    if shards > 1:
        # The largest layer is gathered whole, and the next one is fetched ahead: about two in thirty.
        model += workload.parameter_bytes / 15
    activations = workload.activation_bytes
    wanted = precision or workload.precision
    if wanted.mixed and not workload.precision.mixed:
        activations *= 0.6  # norms and losses keep FP32
    total = (model + activations + (workload.batch_bytes or 0.0)) * FRAGMENTATION + CONTEXT_BYTES
    return Need(model=model, activations=activations, total=total)


def largest_batch_factor(workload: Workload, device: Device, *, precision: Precision | None = None) -> float | None:
    """How many times today's batch fits on `device`; below 1 where it must shrink, None where that is not known."""
    wanted = need(workload, precision=precision)
    if wanted is None:
        return None
    per_batch = wanted.activations + (workload.batch_bytes or 0.0)
    room = (device.memory - CONTEXT_BYTES) / FRAGMENTATION - wanted.model
    return max(0.0, room / per_batch) if per_batch > 0 else None
