"""A traceback as it would be without us: frames of hotlap's wrappers taken out."""

from pathlib import Path
from types import TracebackType

_OURS = str(Path(__file__).resolve().parents[1]) + "/"


def without_ours(error: BaseException) -> TracebackType | None:
    """Take our frames out of the traceback of `error` and of what it came from; its own new traceback."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _filtered(one.__traceback__)
        pending += [one.__cause__, one.__context__]
    return error.__traceback__


def _filtered(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OURS):
            kept.append(trace)
        trace = trace.tb_next
    for one, following in zip(kept, [*kept[1:], None], strict=True) if kept else ():
        one.tb_next = following
    return kept[0] if kept else None
