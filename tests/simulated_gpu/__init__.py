"""A GPU that every machine has, for tests: `import simulated_gpu`, then `model.to("sim")`.

Results are there at once, time passes on a timeline of its own that really has to be waited for (device.cpp).
`set(name, value)` changes what the device can do, as does the environment: SIM_LAUNCH_S=20e-6.
"""

import ctypes
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import torch

SPEEDS = ("launch_s", "floor_s", "flops", "bytes", "copy_s", "pinned", "pageable")

_SOURCE = Path(__file__).with_name("device.cpp")


def build() -> Path:
    """The compiled device, made anew when its source, torch or the machine is another."""
    about = f"{torch.__version__} {sysconfig.get_platform()} {os.uname().nodename}".encode()
    digest = hashlib.blake2b(_SOURCE.read_bytes() + about, digest_size=8).hexdigest()
    built = Path(tempfile.gettempdir()) / f"hotlap-simulated-gpu-{os.getuid()}" / f"{digest}.so"
    if built.exists():
        return built
    built.parent.mkdir(mode=0o700, exist_ok=True)
    root = Path(torch.__file__).parent
    folders = (root / "include", root / "include/torch/csrc/api/include", root / "include/kineto")
    part = built.with_suffix(f".{os.getpid()}")
    subprocess.run(
        [
            *("g++", "-shared", "-fPIC", "-std=c++20", "-O1", "-w", "-DUSE_KINETO"),
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            *(f"-I{folder}" for folder in folders),
            *(str(_SOURCE), "-o", str(part), f"-L{root / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10"),
        ],
        check=True,
    )
    part.rename(built)
    return built


# Of its memory.
_BYTES = 16 << 30

_library: Any = None


def _load() -> None:
    global _library  # noqa: PLW0603 - a device is registered once a process
    ops: Any = torch.ops
    ops.load_library(str(build()))
    _library = ctypes.CDLL(str(build()))
    _library.sim_set.argtypes = (ctypes.c_char_p, ctypes.c_double)
    _library.sim_host_work.argtypes = (ctypes.c_double,)
    _library.sim_now.restype = ctypes.c_double
    for name in ("sim_allocated", "sim_peak", "sim_launches"):
        getattr(_library, name).restype = ctypes.c_int64
    for name in SPEEDS:
        if f"SIM_{name.upper()}" in os.environ:
            set(name, float(os.environ[f"SIM_{name.upper()}"]))
    registration: Any = torch.utils
    registration.rename_privateuse1_backend("sim")
    register: Any = torch._register_device_module
    register("sim", sys.modules[__name__])
    registration.generate_methods_for_privateuse1_backend()


# For tests: what the device can do, and the clock.


def set(name: str, value: float) -> None:
    """One of SPEEDS: seconds for a launch, a kernel's least and a copy's latency; FLOP/s and bytes/s."""
    assert name in SPEEDS
    _library.sim_set(name.encode(), value)


def virtual(on: bool) -> None:
    """Let only launches, waits and `host_work` move the clock: then times are exact."""
    _library.sim_virtual(int(on))


def now() -> float:
    """Seconds by the clock."""
    return float(_library.sim_now())


def host_work(seconds: float) -> None:
    """The host is busy with something else."""
    _library.sim_host_work(seconds)


def launches() -> int:
    """Kernels and copies so far."""
    return int(_library.sim_launches())


# What torch and scripts ask of `torch.sim`, as they do of `torch.cuda`.

Event = torch.Event
Stream = torch.Stream


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return bool(_library.sim_started())


def _is_in_bad_fork() -> bool:
    return False


def _lazy_init() -> None:
    pass


def device_count() -> int:
    return 2


def current_device() -> int:
    return int(torch.accelerator.current_device_index())


def set_device(device: Any) -> None:
    torch.accelerator.set_device_index(device)


def current_stream(device: Any = None) -> torch.Stream:
    return torch.accelerator.current_stream(device)


def synchronize(device: Any = None) -> None:
    torch._C._accelerator_synchronizeDevice(current_device() if device is None else torch.device("sim", device).index)


def get_device_name(device: Any = None) -> str:
    return "simulated GPU"


def memory_allocated(device: int = 0) -> int:
    return int(_library.sim_allocated(device))


def max_memory_allocated(device: int = 0) -> int:
    return int(_library.sim_peak(device))


def memory_reserved(device: int = 0) -> int:
    return int(_library.sim_allocated(device))


def max_memory_reserved(device: int = 0) -> int:
    return int(_library.sim_peak(device))


def mem_get_info(device: int = 0) -> tuple[int, int]:
    """(free, all): it has 16 GB, and no process sees what another one takes."""
    return _BYTES - int(_library.sim_allocated(device)), _BYTES


def manual_seed_all(seed: int) -> None:
    """Its random numbers come from the host's generator."""


manual_seed = manual_seed_all


def get_rng_state(device: Any = None) -> torch.Tensor:
    return torch.get_rng_state()


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


_load()
