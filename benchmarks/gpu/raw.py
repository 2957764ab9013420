"""Raw material for tests without a GPU -> FOLDER: a profiler's events, warnings of waits.

python raw.py FOLDER
"""

import json
import sys
import warnings
from pathlib import Path

import torch
from torch.profiler import profile
from training import DEVICE, made


def steps(number: int) -> None:
    """Of the MNIST loop, which waits for its loss."""
    net, batches = made("mnist")
    net.to(DEVICE)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(number):
        x, y = next(batches)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        x[x > 0].sum()


def main() -> None:
    folder = Path(sys.argv[1])
    for _ in range(2):  # the first session of a process loses events (pytorch#192021)
        with profile() as seen:
            steps(3)
    seen.export_chrome_trace(str(folder / "profiler.json"))
    if DEVICE != "cuda":
        return
    torch.cuda.set_sync_debug_mode(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        steps(2)
    torch.cuda.set_sync_debug_mode(0)
    told = [{"message": str(one.message), "file": Path(one.filename).name, "line": one.lineno} for one in caught]
    (folder / "sync-warnings.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
