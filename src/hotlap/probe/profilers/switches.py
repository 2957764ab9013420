"""Global switches of torch and of the environment, looked at now and then while the script trains."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch

from hotlap import cuda
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import SwitchFacts

# Those that a rule or a lever asks for; their values go into the record, others' never do.
_VARIABLES = ("OMP_NUM_THREADS", "NVIDIA_TF32_OVERRIDE")

# Each answers whether it is on now.
_SWITCHES: Mapping[str, Callable[[], object]] = {
    "anomaly_mode": torch.is_anomaly_enabled,
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "profiler": torch._C._autograd._profiler_enabled,
    "sync_debug": cuda.sync_debug_mode,
}


class Switches(Profiler):
    """Passive. A switch counts as on when it was on in most of the looks, or, for anomaly mode, turned on in a step."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0
        self._on: Counter[str] = Counter()

    def step_ended(self, step: int) -> None:
        """Look, but for the first step: what it sets up may come before it or within."""
        if step > 0:
            self._looks += 1
            self._on.update(name for name, is_on in _SWITCHES.items() if is_on())

    def fields(self) -> Mapping[str, Any]:
        """`Run.switches`."""
        on = {name: 2 * self._on[name] >= self._looks > 0 for name in _SWITCHES}
        on["anomaly_mode"] |= self.session.facts.anomaly_mode
        facts = SwitchFacts(
            **on,
            launch_blocking=os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"),
            cudnn_benchmark=torch.backends.cudnn.benchmark,
            cudnn_deterministic=torch.backends.cudnn.deterministic,
            matmul_precision=torch.get_float32_matmul_precision(),
            environment={name: os.environ[name] for name in _VARIABLES if name in os.environ},
        )
        return {"switches": facts}
