"""Traces as torch.profiler writes them, made here with a truth that is known. Times in microseconds."""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.trace import table
from hotlap.trace.reading import Reading, reading

HOST = {"pid": 100, "tid": 100}


@dataclass
class Written:
    """Events of one process with a main thread, and of one device."""

    events: list[dict[str, Any]] = field(default_factory=list)
    rank: int | None = None
    world_size: int = 1
    correlation: int = 0
    device: int = 0
    """Of what is launched next."""

    def host(self, category: str, name: str, start: float, length: float, **args: Any) -> None:
        """Something on the main thread."""
        event = {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "args": args, **HOST}
        self.events.append(event)

    def step(self, number: int, start: float, length: float) -> None:
        """The profiler's own mark."""
        self.host("user_annotation", f"ProfilerStep#{number}", start, length)

    def loading(self, start: float, length: float) -> None:
        """A batch from the loader."""
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        self.host("user_annotation", name, start, length)

    def launch(
        self, start: float, *, at: float, length: float, name: str = "gemm", category: str = "kernel", stream: int = 7,
        operator: str = "aten::mm", call: str = "cudaLaunchKernel",
    ) -> None:  # fmt: skip
        """A call of 5 us on the host within an operator of 10 us, and what runs for it on the device from `at` on."""
        self.correlation += 1
        self.host("cpu_op", operator, start, 10)
        self.host("cuda_runtime", call, start + 2, 5, correlation=self.correlation)
        args = {"device": self.device, "stream": stream, "correlation": self.correlation}
        place = {"pid": self.device, "tid": stream, "args": args}
        self.events.append({"ph": "X", "cat": category, "name": name, "ts": at, "dur": length, **place})

    def document(self) -> dict[str, Any]:
        """As the file holds it."""
        job = {} if self.rank is None else {"distributedInfo": {"rank": self.rank, "world_size": self.world_size}}
        devices = [{"id": 0, "name": "Some GPU"}, {"id": 1, "name": "Another GPU"}]
        return {
            "schemaVersion": 1,
            "deviceProperties": devices,
            **job,
            "traceEvents": self.events,
            "traceName": "a.json",
        }

    def save(self, path: Path) -> Path:
        """Plain, or gzip by the name."""
        text = json.dumps(self.document(), indent=2).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path

    def read(self, folder: Path) -> Reading:
        """What is said of it."""
        return reading(table.read(self.save(folder / "trace.json")))
