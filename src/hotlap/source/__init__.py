"""Call sites and edits -> a unified diff."""

from hotlap.source.edits import AddArgument, Edit, InsertAfterImports, InsertAtTop, WrapArgument, WrapStatement

__all__ = ["AddArgument", "Edit", "InsertAfterImports", "InsertAtTop", "WrapArgument", "WrapStatement"]
