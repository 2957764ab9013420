"""The record that the probe would make of a script in `scripts/`, and runs of every awkward kind."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from hotlap.record import CallSite, Machine, Phase, Run, Status
from tests.edits.sites import sites
from tests.sample_runs import loader, machine, optimizer, run_with

SCRIPTS = sorted(path for path in (Path(__file__).parent / "scripts").glob("*.py") if path.name != "__init__.py")

# A step of a small network: there is something to win in the input, in the model, and in the optimizer.
_PHASES = {
    Phase.INPUT: 0.0020,
    Phase.FORWARD: 0.0010,
    Phase.BACKWARD: 0.0012,
    Phase.OPTIMIZER: 0.0006,
    Phase.OTHER: 0.0002,
}


def run_of(path: Path, *, text: str | None = None, num_threads: int = 2) -> Run:
    """The run of the script at `path`, or of `text` in its place."""
    data = path.read_bytes() if text is None else text.encode()
    return replace(
        run_with(phases=_PHASES),
        num_threads=num_threads,
        loaders=(replace(loader(), dataset="TensorDataset"),),
        optimizers=(replace(optimizer(), dtypes=("float32",)),),
        call_sites=_call_sites(str(path), data),
        sources={str(path): hashlib.sha256(data).hexdigest()},
    )


def _call_sites(path: str, data: bytes) -> tuple[CallSite, ...]:
    text = data.decode()
    return (
        *_sites(path, text, "DataLoader", calls="torch.utils.data.DataLoader", detail={"loader": 0}),
        *_sites(path, text, "Adam", calls="torch.optim.Adam", detail={"optimizer": 0}),
        *_sites(path, text, "SGD", calls="torch.optim.SGD", detail={"optimizer": 0}),
        *_sites(path, text, "model", calls="forward", detail={"parameters": True, "returns": "Tensor"}),
    )


def _sites(
    path: str, text: str, name: str, *, calls: str, detail: Mapping[str, str | int | bool]
) -> tuple[CallSite, ...]:
    return tuple(replace(site, calls=calls, detail=detail) for site in sites(text, name, path=path))


@cache
def awkward_runs() -> Mapping[str, Run]:
    """Runs that a lever may be asked about, by what is special about them."""
    plain = run_of(SCRIPTS[0])
    strided = replace(optimizer(), all_dense=False, not_dense="shape (4, 8), strides (16, 1)")
    wrapped = replace(optimizer(), name="ours.Lion", has_fused=False, fused=False)
    fused = replace(optimizer(), fused=True)
    changing = replace(loader(), deterministic=False, why_not="item 0 draws from a random generator")
    large = replace(loader(), item_bytes=1 << 30)
    chosen = replace(plain.call_sites[0], calls="torch.set_num_threads", detail={})
    return {
        "plain": plain,
        "nothing recorded": Run(status=Status.SILENT),
        "crashed": Run(status=Status.CRASHED, error="ValueError: no", exit_code=1, first_steps_s=(0.1,)),
        "no loader": replace(plain, loaders=()),
        "two workers": replace(plain, loaders=(replace(loader(), num_workers=2),)),
        "one worker": replace(plain, loaders=(replace(loader(), num_workers=1),)),
        "iterable": replace(plain, loaders=(replace(loader(), num_items=None),)),
        "changing items": replace(plain, loaders=(changing,)),
        "changing items, no reason": replace(plain, loaders=(replace(changing, why_not=None),)),
        "items beyond the memory": replace(plain, loaders=(large,)),
        "no optimizer": replace(plain, optimizers=()),
        "strided parameter": replace(plain, optimizers=(strided,)),
        "optimizer without a kernel": replace(plain, optimizers=(wrapped,)),
        "fused already": replace(plain, optimizers=(fused,)),
        "half": replace(plain, optimizers=(replace(optimizer(), dtypes=("float16",)),)),
        "autocast": replace(plain, autocast=True),
        "compiled": replace(plain, compiled=True),
        "on a GPU": replace(plain, device="NVIDIA H200"),
        "no source": replace(plain, call_sites=(), sources={}),
        "threads on purpose": replace(plain, call_sites=(*plain.call_sites, chosen)),
        "threads unknown": replace(plain, num_threads=None),
        "one thread": replace(plain, num_threads=1),
        "no phases": replace(plain, phase_s=dict.fromkeys(Phase)),
        "returns a dict": replace(
            plain, call_sites=tuple(replace(s, detail={**s.detail, "returns": "dict"}) for s in plain.call_sites)
        ),
    }


@cache
def machines() -> Mapping[str, Machine]:
    """Machines that a lever may be asked about."""
    linux = machine()
    return {
        "linux": linux,
        "always huge": replace(linux, huge_pages="always"),
        "never huge": replace(linux, huge_pages="never"),
        "unknown huge": replace(linux, huge_pages=None),
        "old glibc": replace(linux, libc="glibc 2.31"),
        "musl": replace(linux, libc=""),
        "no bfloat16": replace(linux, cpu_flags=("avx2",)),
        "half a core": replace(linux, usable_cores=0.5),
        "no memory": replace(linux, available_bytes=0),
        "mac": replace(linux, system="Darwin", libc="", huge_pages=None, shm_bytes=None, cpu_flags=()),
        "windows": replace(linux, system="Windows", libc="", huge_pages=None, shm_bytes=None, cpu_flags=()),
    }
