"""Call sites and edits -> a unified diff."""

from typing import TYPE_CHECKING, Any

from hotlap.source.edits import (
    AddArgument,
    Edit,
    InsertAfterImports,
    InsertBefore,
    InsertBehind,
    ReplaceCall,
    ReplaceStatements,
    WrapArgument,
    WrapStatement,
)
from hotlap.source.gradients import parameters_of, reads_gradients
from hotlap.source.moves import device_of, moved_to
from hotlap.source.script import Script, is_name, parsed, scripts

if TYPE_CHECKING:
    from hotlap.source.file import CannotEdit as CannotEdit
    from hotlap.source.patching import Patched as Patched
    from hotlap.source.patching import patch as patch

__all__ = [
    "AddArgument",
    "CannotEdit",
    "Edit",
    "InsertAfterImports",
    "InsertBefore",
    "InsertBehind",
    "Patched",
    "ReplaceCall",
    "ReplaceStatements",
    "Script",
    "WrapArgument",
    "WrapStatement",
    "device_of",
    "is_name",
    "moved_to",
    "parameters_of",
    "parsed",
    "patch",
    "reads_gradients",
    "scripts",
]

# Public name -> the module that has it. Resolved on first use: levers import this package inside the user's process,
# which must not pay for LibCST.
_HOMES = {
    "CannotEdit": "hotlap.source.file",
    "Patched": "hotlap.source.patching",
    "patch": "hotlap.source.patching",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hotlap.source' has no attribute {name!r}")
