"""A training of several parts -> where the one behind the one under way begins."""

import ast
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from hotlap.probe.loops import Loop, comprehensions_around, holds, parsed, place_of, way_to
from hotlap.probe.parts import Made, functions_of, trains, trains_anew
from hotlap.probe.planned import count_of
from hotlap.probe.sites import is_users, outwards


def trains_again(frame: FrameType | None, optimizers: Sequence[Made]) -> str | None:
    """ "train.py:45", where another part of the training begins: a statement behind those under way that goes backward
    and lets an optimizer step, itself or by functions of the files under way; or a loop around them, each turn of which
    makes its own optimizer. `frame`: where a step was made; `optimizers`: those that there are."""
    try:
        return _next_part([outer for outer in outwards(frame) if is_users(outer.f_code.co_filename)], optimizers)
    except Exception:  # whatever its source is by now: then it is not known
        return None


def _next_part(frames: list[FrameType], optimizers: Sequence[Made]) -> str | None:
    """`frames`: the user's that are under way, from the inside out."""
    trees = {outer.f_code.co_filename: parsed(outer.f_code.co_filename) for outer in frames}
    behind_loop = False
    for outer in frames:
        path = outer.f_code.co_filename
        known = functions_of([*trees.values(), trees[path]])  # its own come before others of the same name
        way = way_to(outer)
        parts: list[ast.stmt | ast.expr] = []
        if behind_loop:
            parts += (one for one in comprehensions_around(outer) if trains_anew(one, outer, optimizers))
        for node, inner in reversed(way):
            parts += (one for one in _behind(node, inner) if trains(one, known, behind_loop=behind_loop))
            if isinstance(node, Loop) and any(holds(part, place_of(outer)) for part in node.body):
                again = behind_loop and not _turns_once(node, outer) and trains_anew(node, outer, optimizers)
                parts += [node] if again else []
                behind_loop = True
        if parts:
            return f"{Path(path).name}:{parts[0].lineno}"
    return None


def _turns_once(loop: Loop, frame: FrameType) -> bool:
    try:
        return isinstance(loop, ast.For) and count_of(loop.iter, frame, None)[0] == 1
    except Exception:  # its iterable does not say
        return False


def _behind(node: ast.AST, inner: ast.AST) -> list[ast.stmt]:
    """Statements of a node that come after one of them; those of loops as well: they come before its next turn."""
    blocks = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [
        one for block in blocks if isinstance(block, list) and inner in block for one in block[block.index(inner) + 1 :]
    ]
