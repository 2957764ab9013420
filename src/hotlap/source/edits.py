"""What can be done to a source file; each edit names its place exactly, none searches for it."""

from dataclasses import dataclass

from hotlap.record import CallSite


@dataclass(frozen=True, slots=True, kw_only=True)
class AddArgument:
    """`Adam(params, lr=0.1)` -> `Adam(params, lr=0.1, fused=True)`. A present keyword of that name is replaced."""

    site: CallSite
    keyword: str
    value: str
    imports: str = ""
    """Statement that binds the names in the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapArgument:
    """`DataLoader(train, ...)` -> `DataLoader(cached(train), ...)`, importing what is needed."""

    site: CallSite
    position: int
    """Index of the argument when it is given by position."""
    keyword: str
    """Its name when it is given by keyword."""
    function: str
    """Name put around it."""
    imports: str
    """Statement that binds that name: `from hotlap.data import cached`."""
    arguments: str = ""
    """What the function is given besides: `disk=True`."""
    inside: tuple[str, ...] = ()
    """Full names of functions that stay around this one ("hotlap.data.late"): it goes within their calls, whether
    they are in the file already or are put there by another edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapStatement:
    """The statement around a call moves into a `with`; `suffix` is put behind the call itself.

    `out = model(x)` -> `with torch.autocast("cpu", dtype=torch.bfloat16):` / `    out = model(x).float()`
    """

    site: CallSite
    header: str
    """`with ...` without the colon."""
    suffix: str = ""
    imports: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceCall:
    """The whole call becomes `code`: `set_detect_anomaly(True)` -> `set_detect_anomaly(False)`."""

    site: CallSite
    code: str
    """One expression; its names are those that `imports` bind, or those that the file has at that place."""
    imports: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceStatements:
    """Statements, one behind the other in one block, become `code`; comments among them go in front of it.

    The first and the last are simple ones.
    """

    site: CallSite
    """From the first character of the first statement to the last one of the last."""
    code: str
    """Simple statements, one a line; their names as in `ReplaceCall`."""
    imports: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertBefore:
    """A statement in front of the one that makes a call, unless it stands somewhere in front of it already."""

    site: CallSite
    code: str
    """One simple statement; its names as in `ReplaceCall`."""
    imports: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertBehind:
    """A statement behind the one that makes a call, unless it stands somewhere behind it already."""

    site: CallSite
    code: str
    """As of `InsertBefore`."""
    imports: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertAfterImports:
    """Statements behind the last import at the top of the file."""

    path: str
    sha256: str
    code: str
    imports: str = ""


Replacement = ReplaceCall | ReplaceStatements | InsertBefore | InsertBehind
SiteEdit = AddArgument | WrapArgument | WrapStatement | Replacement
Edit = SiteEdit | InsertAfterImports
