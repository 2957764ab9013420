"""The record that the probe would make of a script in `scripts/`, and runs of every awkward kind."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from hotlap.record import (
    CallSite,
    CpuUse,
    LoaderFacts,
    Machine,
    Phase,
    Run,
    ShapeFacts,
    Status,
    SwitchFacts,
)
from tests.edits.sites import sites
from tests.sample_runs import loader, machine, optimizer, run_with

SCRIPTS = sorted(path for path in (Path(__file__).parent / "scripts").glob("*.py") if path.name != "__init__.py")

# Scripts with what one lever alone is for, by that lever's name.
OWN = {
    path.stem.replace("_", "-"): path
    for path in (Path(__file__).parent / "scripts" / "own").glob("*.py")
    if path.name != "__init__.py"
}

# One script for all that is an argument of DistributedDataParallel.
OWN |= dict.fromkeys(("buffer-broadcast", "gradient-compression", "unused-parameters"), OWN.pop("data-parallel"))

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
        cpu=CpuUse(usable_cores=2.0, main=1.0, others=0.0, page_faults=1e5, page_fault_s=1e-6),
        world_size=2 if b"DistributedDataParallel(" in data else 1,
        loaders=(_loader(data.decode()),),
        optimizers=(replace(optimizer(), dtypes=("float32",)),),
        call_sites=_call_sites(str(path), data),
        switches=SwitchFacts(),
        shapes=ShapeFacts(num_steps=100, num_shapes=1, num_new_late=0),
        sources={str(path): hashlib.sha256(data).hexdigest()},
    )


def _loader(text: str) -> LoaderFacts:
    random = "transform=" in text
    return replace(
        loader(),
        dataset="Pictures" if random else "list" if "DataLoader(items" in text else "TensorDataset",
        num_workers=2 if "num_workers=2" in text else 0,
        deterministic=not random,
        why_not="item 0 draws from a random generator" if random else None,
        num_items=None if "IterableDataset" in text else loader().num_items,
        iterable="IterableDataset" in text,
    )


def _call_sites(path: str, data: bytes) -> tuple[CallSite, ...]:
    text = data.decode()
    detail: dict[str, str | int | float] = {
        "parameters": True,
        "returns": "Tensor",
        "convolutions": text.count("Conv2d("),
        "grouped": 0,
        "torch_forward": "(nn.Module)" not in text,
        "data_parallel": "DistributedDataParallel(" in text,
        "finds_unused": "find_unused_parameters=True" in text,
        "sends_buffers": "broadcast_buffers" if "register_buffer" in text else "",
        "batch_statistics": "BatchNorm" in text,
    }
    return (
        *_sites(path, text, "DataLoader", calls="torch.utils.data.DataLoader", detail={"loader": 0}),
        *_sites(path, text, "Adam", calls="torch.optim.Adam", detail={"optimizer": 0}),
        *_sites(path, text, "SGD", calls="torch.optim.SGD", detail={"optimizer": 0}),
        *_sites(path, text, "model", calls="forward", detail=detail),
    )


def _sites(
    path: str, text: str, name: str, *, calls: str, detail: Mapping[str, str | int | float]
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
    own = {f"for {name} alone": run_of(path) for name, path in OWN.items()}
    images = own["for channels-last alone"]
    growing = ShapeFacts(num_steps=100, num_shapes=40, num_new_late=4)
    grouped = tuple(replace(s, detail={**s.detail, "grouped": 1}) for s in images.call_sites)
    turned = tuple(replace(s, detail={**s.detail, "channels_last": True}) for s in images.call_sites)
    churning = ShapeFacts(num_steps=100, num_shapes=60, num_new_late=30)
    some = ShapeFacts(num_steps=100, num_shapes=5, num_new_late=0)
    dying = replace(optimizer(), denormals=0.2)
    chosen = replace(plain.call_sites[0], calls="torch.set_num_threads", detail={})
    return {
        "plain": plain,
        **own,
        "on MPS": replace(plain, device="mps"),
        "affinity chosen": replace(plain, switches=SwitchFacts(environment={"OMP_PROC_BIND": "spread"})),
        "deterministic": replace(plain, switches=SwitchFacts(deterministic=True)),
        "a profiler": replace(plain, switches=SwitchFacts(profiler=True)),
        "blocking launches": replace(plain, device="NVIDIA H200", switches=SwitchFacts(launch_blocking=True)),
        "switches not looked at": replace(plain, switches=None, shapes=None),
        "denormal numbers": replace(plain, optimizers=(dying,)),
        "no denormal number": replace(plain, optimizers=(replace(dying, denormals=0.0),)),
        "another malloc": replace(plain, switches=SwitchFacts(environment={"LD_PRELOAD": "/lib/libtcmalloc.so.4"})),
        "grouped convolutions": replace(images, call_sites=grouped),
        "channels innermost": replace(images, call_sites=turned),
        "images on a GPU": replace(images, device="NVIDIA H200"),
        "images on a GPU, benchmark on": replace(
            images, device="NVIDIA H200", switches=SwitchFacts(cudnn_benchmark=True), shapes=churning
        ),
        "images of many sizes on a GPU": replace(images, device="NVIDIA H200", shapes=churning),
        "some sizes on a GPU": replace(images, device="NVIDIA H200", shapes=some),
        "growing batches on a GPU": replace(plain, device="NVIDIA H200", shapes=growing),
        "an old GPU": replace(images, device="Tesla V100-SXM2-16GB"),
        "precision chosen": replace(plain, device="NVIDIA H200", switches=SwitchFacts(matmul_precision="high")),
        "a file that is gone": replace(plain, sources={"/nowhere/train.py": "0" * 64}, call_sites=()),
        "nothing recorded": Run(status=Status.SILENT),
        "crashed": Run(status=Status.CRASHED, error="ValueError: no", exit_code=1, first_steps_s=(0.1,)),
        "an ODE": replace(plain, versions={**plain.versions, "torchdiffeq": "0.2.5"}),
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
        "many cores": replace(linux, num_cores=16, usable_cores=16.0),
        "a GPU": replace(linux, gpus=("NVIDIA H200",)),
        "half a core": replace(linux, usable_cores=0.5),
        "no memory": replace(linux, available_bytes=0),
        "no compiler": replace(linux, compiler=None),
        "mac": replace(linux, system="Darwin", libc="", huge_pages=None, shm_bytes=None, cpu_flags=()),
        "windows": replace(linux, system="Windows", libc="", huge_pages=None, shm_bytes=None, cpu_flags=()),
    }
