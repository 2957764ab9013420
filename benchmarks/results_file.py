"""What every result has in common: machine, versions, commit, digest of the code, date, and where it is written."""

import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

import hotlap
import origin
from hotlap import machine

RESULTS = Path(__file__).with_name("results")


def device_name() -> str:
    """ "cpu-2core", or the GPU's name, for file names."""
    import torch

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name()).lower().replace(" ", "-")
    return f"cpu-{os.cpu_count()}core"


def path(name: str) -> Path:
    """`benchmarks/results/NAME-<device>.json`."""
    return RESULTS / f"{name}-{device_name()}.json"


def write(name: str, *, adds_to: Path | None = None, **fields: Any) -> Path:
    """The result, into `path(name)`. `adds_to`: an earlier one whose rows it holds as well; where that measured other
    code, it is of no code that there is."""
    import torch

    made = origin.of(name)
    if adds_to is not None and adds_to.exists():
        earlier = json.loads(adds_to.read_text(encoding="utf-8")).get("sources")
        made["sources"] = made["sources"] if earlier == made["sources"] else "several"
    seen = machine.look()
    record = {
        "machine": {"device": device_name(), "processor": seen.processor, "load": round(os.getloadavg()[0], 1)},
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "hotlap": hotlap.__version__,
        },
        **made,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **fields,
    }
    at = path(name)
    at.parent.mkdir(exist_ok=True)
    at.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return at
