"""Call sites and edits -> a unified diff."""

from hotlap.source.arguments import AddArgument, WrapArgument, argument, why_unseen
from hotlap.source.edits import (
    Edit,
    InsertAfterImports,
    InsertBefore,
    InsertBehind,
    Patched,
    WrapStatement,
    patch,
    top_of,
)
from hotlap.source.file import CannotEdit
from hotlap.source.script import Script, found_at, is_name, moved_to, parsed, scripts, word_of

__all__ = [
    "AddArgument",
    "CannotEdit",
    "Edit",
    "InsertAfterImports",
    "InsertBefore",
    "InsertBehind",
    "Patched",
    "Script",
    "WrapArgument",
    "WrapStatement",
    "argument",
    "found_at",
    "is_name",
    "moved_to",
    "parsed",
    "patch",
    "scripts",
    "top_of",
    "why_unseen",
    "word_of",
]
