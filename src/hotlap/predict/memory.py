"""Will it fit? Parameters, gradients, optimizer state and activations -> bytes on each GPU."""

from hotlap.predict.catalogue import Device
from hotlap.predict.precision import Precision
from hotlap.predict.workload import Workload

# What the driver, the CUDA context, cuDNN/cuBLAS workspaces and fragmentation take on top.
CONTEXT_BYTES = 1.0 * 2**30
FRAGMENTATION = 1.08
# Adam keeps two numbers for each parameter.
STATE_PER_PARAMETER = 2.0


def need(workload: Workload, *, precision: Precision | None = None) -> float | None:
    """Bytes that one GPU must hold; None where the workload does not say.

    Arguments:
        precision: computed in; half precision keeps activations in two bytes and parameters in four.
    """
    weights, state = workload.parameter_bytes, workload.optimizer_state_bytes
    if weights is None or workload.activation_bytes is None:
        return None
    model = 2 * weights + (STATE_PER_PARAMETER * weights if state is None else state)
    return (model + _batch_bytes(workload, precision)) * FRAGMENTATION + CONTEXT_BYTES


def fits(workload: Workload, device: Device, *, precision: Precision | None = None) -> bool | None:
    """On one GPU. None: that is not known; weights and gradients alone may say no."""
    if (whole := need(workload, precision=precision)) is not None:
        return whole <= device.memory
    return False if 2 * (workload.parameter_bytes or 0.0) > device.memory else None


def _batch_bytes(workload: Workload, precision: Precision | None) -> float:
    """What grows with the batch: itself, and activations, of which norms and losses keep FP32."""
    halved = precision is not None and precision.mixed and not workload.precision.mixed
    return (workload.activation_bytes or 0.0) * (0.6 if halved else 1.0) + (workload.batch_bytes or 0.0)


def largest_batch_factor(workload: Workload, device: Device, *, precision: Precision | None = None) -> float | None:
    """How many times today's batch fits on `device`; below 1 where it must shrink, None where that is not known."""
    today, grows = need(workload, precision=precision), _batch_bytes(workload, precision) * FRAGMENTATION
    return max(0.0, 1 + (device.memory - today) / grows) if today is not None and grows > 0 else None
