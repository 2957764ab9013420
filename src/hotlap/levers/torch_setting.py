"""A setting of torch's that a lever chooses: switched in the process and written in the source from one description."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hotlap.levers.lever import Patch, behind_imports
from hotlap.record import Run
from hotlap.source import Edit


@dataclass(frozen=True, slots=True)
class TorchSetting:
    """What `torch.set_NAME` and `torch.get_NAME` are about."""

    name: str
    """ "num_threads"."""
    value: int | str

    def install(self, patch: Patch) -> None:
        """CHILD: from the next operator on."""
        import torch

        put, before = getattr(torch, f"set_{self.name}"), getattr(torch, f"get_{self.name}")()
        put(self.value)
        patch.on_undo(lambda: put(before))

    def edits(self, run: Run) -> Sequence[Edit]:
        """One line behind the imports."""
        return behind_imports(run, f"torch.set_{self.name}({json.dumps(self.value)})", imports="import torch")
