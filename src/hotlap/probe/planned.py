"""The loops around a training step -> how many steps the training will make, and whether another part of it follows.

`for epoch in range(args.epochs)` around `for batch in loader`: the iterables of the loops that are under way are worked
out from the variables of their frames. Only what cannot do anything is worked out: names, attributes that lie in an
object's own dictionary, numbers and arithmetic on them, `len` and `range` of such, lengths of tensors, and the usual
wrappers of an iterable (enumerate, zip, tqdm). A `while` loop has a counter that runs up to a limit, in its head or in
an `if` that leaves it. Another one, a comprehension, or anything else, is not known.
"""

import ast
import linecache
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

from hotlap.probe.parts import COMPREHENSIONS, FUNCTIONS, Made, functions_of, trains, trains_anew
from hotlap.probe.sites import is_users, outwards, position

_SHOWING = frozenset({"tqdm", "tqdm_notebook", "track"})
_WRAPPERS = _SHOWING | {"enumerate", "list", "iter", "reversed"}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_OF_NUMBERS = (int, min, max, math.ceil, math.floor)
_Loop = ast.For | ast.While
# (line, column): several statements may share a line.
_Place = tuple[int, int]
_Placed = ast.stmt | ast.expr | ast.keyword | ast.ExceptHandler
# Comparison -> (True if the sides may be equal while a loop goes on, True if the first is the larger one then).
_Kinds = Mapping[type[ast.cmpop], tuple[bool, bool]]
_GOES_ON: _Kinds = {
    ast.Lt: (False, False),
    ast.NotEq: (False, False),
    ast.LtE: (True, False),
    ast.Gt: (False, True),
    ast.GtE: (True, True),
}
# What ends a loop that goes on while the opposite holds, in the same order.
_ENDS: _Kinds = dict(zip((ast.GtE, ast.Eq, ast.Gt, ast.LtE, ast.Lt), _GOES_ON.values(), strict=True))
_CONTAINERS = frozenset({list, tuple, dict, range})
_ARRAYS = frozenset({"torch.Tensor", "torch.nn.parameter.Parameter", "numpy.ndarray"})


class _Unknown(Exception):  # noqa: N818 - no error: the answer is that it cannot be told
    """The source does not say."""


def planned_steps(
    frame: FrameType | None, *, made: int, batches_a_step: int, num_batches: int | None = None
) -> int | None:
    """Steps of the training whose step was made below `frame`; None where its loops do not say.

    `made`: steps so far, this one included. `batches_a_step`: drawn from loaders for one step; several where gradients
    are accumulated. `num_batches`: of the loader that they were drawn from; a loader that is made in the head of its
    loop has no name to find it by.
    """
    iterations, num_loops = 1, 0
    over_loader = False
    try:
        for outer in outwards(frame):
            said = _said_by_trainer(outer)
            if said is not None:
                return said
            for loop in _loops_around(outer) if is_users(outer.f_code.co_filename) else ():
                if isinstance(loop, ast.While):
                    number, is_steps = _counted(
                        loop, outer, num_inner=num_loops, made=made, batches_a_step=batches_a_step
                    )
                    over_loader &= not is_steps
                    iterations = number if is_steps else number * iterations
                else:
                    count, of_loader = _count(loop.iter, outer, num_batches)
                    count = min((count, *_left_after(loop, outer)))
                    updates = _updates_in_a_pass(loop, count, batches_a_step) if of_loader else None
                    over_loader |= of_loader and updates is None
                    iterations *= count if updates is None else updates
                num_loops += 1
    except Exception:  # whatever the script's objects do: then it is not known
        return None
    steps = iterations // (max(1, batches_a_step) if over_loader else 1)
    return steps if num_loops and steps >= made else None


def _updates_in_a_pass(loop: ast.For, num_batches: int, batches_a_step: int) -> int | None:
    """Where the loop's own counter says when an update is due: `if (i + 1) % 4 == 0`. Batches that are left at the end
    of a pass make no update then, or one where an `or` says so. None where nothing says it like that."""
    if batches_a_step < 2 or not isinstance(loop.target, ast.Tuple) or "enumerate" not in _names(loop.iter):
        return None
    counter = ast.unparse(loop.target.elts[0])
    for branch in (node for node in ast.walk(loop) if isinstance(node, ast.If)):
        parts, body = [*ast.walk(branch.test)], [part for one in branch.body for part in ast.walk(one)]
        divided = (part.left for part in parts if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod))
        steps = any(isinstance(part, ast.Attribute) and part.attr == "step" for part in body)
        if steps and any(counter in _names(left) for left in divided):
            whole, rest = divmod(num_batches, batches_a_step)
            return whole + (rest > 0 and any(isinstance(part, ast.Or) for part in parts))
    return None


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _said_by_trainer(frame: FrameType) -> int | None:
    trainer = frame.f_locals.get("self")
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(trainer).__mro__)
    steps = next((_TRAINERS[name](trainer) for name in names if name in _TRAINERS), None)
    return steps if isinstance(steps, int) and steps > 0 else None


# Trainers that know their own number of steps: class -> that number, None where it is not set.
_TRAINERS: Mapping[str, Callable[[Any], int | None]] = {
    "transformers.trainer.Trainer": lambda trainer: trainer.state.max_steps,
    "lightning.pytorch.trainer.trainer.Trainer": operator.attrgetter("estimated_stepping_batches"),
    "pytorch_lightning.trainer.trainer.Trainer": operator.attrgetter("estimated_stepping_batches"),
}


def _loops_around(frame: FrameType) -> list[_Loop]:
    """Loops of the frame's own function in which it stands, the innermost first.

    Raises:
        _Unknown: it is in a comprehension.
    """
    if any(True for _ in _comprehensions_around(frame)):
        raise _Unknown
    loops = (inner for _, inner in reversed(_way_to(frame)) if isinstance(inner, _Loop))
    return [loop for loop in loops if any(_holds(part, _place(frame)) for part in loop.body)]


def _comprehensions_around(frame: FrameType) -> Iterator[COMPREHENSIONS]:
    """Those of the frame's statement that hold its place."""
    within = [inner for _, inner in _way_to(frame) if isinstance(inner, ast.stmt)]
    for one in ast.walk(within[-1] if within else _parsed(frame.f_code.co_filename)):
        if isinstance(one, COMPREHENSIONS) and _holds(one, _place(frame)):
            yield one


def _way_to(frame: FrameType) -> list[tuple[ast.AST, ast.AST]]:
    """(node, the node within it that holds the place), from the frame's own function inwards."""
    return _way(_parsed(frame.f_code.co_filename), _place(frame))


def _place(frame: FrameType) -> _Place:
    line, _, column, _ = position(frame.f_code, frame.f_lasti)
    if line is None or column is None:
        raise _Unknown
    return line, column


def _start(node: _Placed) -> _Place:
    return node.lineno, node.col_offset


def _way(node: ast.AST, place: _Place) -> list[tuple[ast.AST, ast.AST]]:
    found: list[tuple[ast.AST, ast.AST]] = []
    while (inner := next((one for one in ast.iter_child_nodes(node) if _holds(one, place)), None)) is not None:
        found.append((node, inner))
        if isinstance(inner, FUNCTIONS):
            found.clear()
        node = inner
    return found


@cache
def _parsed(path: str) -> ast.Module:
    """A file of the user's, as it is run (`hotlap.probe.edited`)."""
    return ast.parse("".join(linecache.getlines(path)))


def _holds(node: ast.AST, place: _Place) -> bool:
    """The place is in the node."""
    end = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
    return isinstance(node, _Placed) and _start(node) <= place < end


def _counted(loop: ast.While, frame: FrameType, *, num_inner: int, made: int, batches_a_step: int) -> tuple[int, bool]:
    """Rounds of a `while` loop with a counter that it adds to; or, and then True, all steps that are made in it.
    `num_inner`: loops within it that the step was made in; the others as in `planned_steps`.

    Raises:
        _Unknown: it has no counter that goes with its rounds, or with steps.
    """
    now = _place(frame)
    around = [inner for _, inner in _way(loop, now)]
    branches = [one for one in around if isinstance(one, ast.If)]
    for counter, limit, inclusive, asked in _limits(loop):
        place, amount = _addition(loop, ast.unparse(counter)) or (now, 0)
        within = [one for _, one in _way(loop, place) if isinstance(one, _Loop | ast.If)]
        num_within = sum(isinstance(one, _Loop) for one in within)
        if not amount or not all(one in around for one in within) or num_within not in (0, num_inner):
            continue
        is_steps = num_within == num_inner
        # Beside a step that is not made in each round batches are counted, and gathered.
        batches = 1 if all(one in within for one in branches) else max(1, batches_a_step)
        so_far = (made * batches if is_steps else 1) - (place > now)
        first = _number(counter, frame) - amount * so_far
        rounds = math.ceil((_number(limit, frame) + inclusive - first) / amount)
        rounds += (now < asked < place) - (place < asked < now)
        return (rounds // batches if is_steps else rounds), is_steps
    raise _Unknown


def _left_after(loop: ast.For, frame: FrameType) -> Iterator[int]:
    """Rounds after which it is left, by the number that `enumerate` or `range` gives each."""
    over = loop.iter
    while isinstance(over, ast.Call) and _called(over) in _SHOWING and over.args:
        over = over.args[0]
    match over, loop.target:
        case ast.Call(func=ast.Name("enumerate"), args=[_], keywords=[]), ast.Tuple(elts=[ast.Name(number), *_]):
            pass
        case ast.Call(func=ast.Name("range"), args=[_]), ast.Name(number):
            pass
        case _:
            return
    for smaller, larger, inclusive, asked in _limits(loop):
        if isinstance(smaller, ast.Name) and smaller.id == number:
            yield _number(larger, frame) + inclusive + (_place(frame) < asked)


def _limits(loop: _Loop) -> Iterator[tuple[ast.expr, ast.expr, bool, _Place]]:
    """(what is smaller, what is larger, True if they may be equal, place of the question) as long as it goes on."""
    head = [loop.test] if isinstance(loop, ast.While) else []
    asked: list[tuple[ast.expr, type[ast.boolop], _Kinds]] = [(test, ast.And, _GOES_ON) for test in head]
    asked += [(one.test, ast.Or, _ENDS) for one in ast.walk(loop) if isinstance(one, ast.If) and _leaves(one, loop)]
    changing = {ast.unparse(one) for one in ast.walk(loop) if isinstance(getattr(one, "ctx", None), ast.Store)}
    for test, joined, kinds in asked:
        parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, joined) else [test]
        for part in parts:
            if isinstance(part, ast.Compare) and type(part.ops[0]) in kinds:
                inclusive, is_turned = kinds[type(part.ops[0])]
                smaller, larger = (part.comparators[0], part.left) if is_turned else (part.left, part.comparators[0])
                # So many rounds without progress: where that is made, the limit moves on.
                if changing.isdisjoint(map(ast.unparse, ast.walk(larger))):
                    yield smaller, larger, inclusive, _start(test)


def _leaves(branch: ast.If, loop: _Loop) -> bool:
    """It ends the loop."""
    inner = [one for _, one in _way(loop, _start(branch)) if isinstance(one, _Loop)]
    return isinstance(branch.body[-1], ast.Return) or (isinstance(branch.body[-1], ast.Break) and not inner)


def _addition(loop: ast.While, counter: str) -> tuple[_Place, int] | None:
    """(place, amount) of the one that adds to the counter; None where there are others, or it is set otherwise."""
    stores = (one for one in ast.walk(loop) if isinstance(getattr(one, "ctx", None), ast.Store))
    places = [one for one in stores if ast.unparse(one) == counter]
    for node in ast.walk(loop):
        match node:
            case ast.AugAssign(op=ast.Add(), value=ast.Constant(value=int(amount))) if [node.target] == places:
                return (_start(node), amount) if amount > 0 else None
    return None


def _count(iterable: ast.expr, frame: FrameType, num_batches: int | None) -> tuple[int, bool]:
    """How often a loop over it goes round, and whether it goes over a loader."""
    name = _called(iterable) if isinstance(iterable, ast.Call) else None
    match iterable:
        case ast.Call(args=[over, *_]) if name in _WRAPPERS:
            return _count(over, frame, num_batches)
        case ast.Call(args=several) if name == "zip":
            return min(_count(one, frame, num_batches) for one in several)
        case ast.Call(args=limits) if name in ("range", "trange"):
            number = len(range(*(_number(limit, frame) for limit in limits)))
        case ast.Call(func=ast.Attribute(value=array), args=[size, *_]) if name == "split":
            number = math.ceil(_rows(array, frame) / _number(size, frame))
        case ast.Call(func=made_by) if num_batches is not None and _value(made_by, frame) is DataLoader:
            return num_batches, True
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            number = len(elements)
        case _:
            value = _sized(iterable, frame)
            return len(value), isinstance(value, DataLoader)
    return number, False


def _rows(array: ast.expr, frame: FrameType) -> int:
    if isinstance(array, ast.Call) and _called(array) == "randperm":
        return _number(array.args[0], frame)
    return _shape(array, frame)[0]


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _number(expression: ast.expr, frame: FrameType) -> int:
    value = _real(expression, frame)
    if value != int(value):
        raise _Unknown
    return int(value)


def _real(expression: ast.expr, frame: FrameType) -> float:
    value = _value(expression, frame)
    if not isinstance(value, int | float):
        raise _Unknown
    return value


def _value(expression: ast.expr, frame: FrameType) -> Any:
    value: Any
    match expression:
        case ast.Constant():
            value = expression.value
        case ast.Name(id=name):
            value = next(scope[name] for scope in (frame.f_locals, frame.f_globals, frame.f_builtins) if name in scope)
        case ast.Attribute(value=owner, attr="shape") if _is_array(array := _value(owner, frame)):
            value = tuple(array.shape)
        case ast.Attribute(value=owner, attr=name):
            value = vars(_value(owner, frame))[name]
        case ast.Subscript(value=owner, slice=key) if not _is_array(container := _sized(owner, frame)):
            value = container[_value(key, frame)]
        case _:
            value = _computed(expression, frame)
    return value


def _computed(expression: ast.expr, frame: FrameType) -> float:
    match expression:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_real(operand, frame)
        case ast.BinOp():
            return _ARITHMETIC[type(expression.op)](_real(expression.left, frame), _real(expression.right, frame))
        case ast.Call(func=ast.Name(id="len"), args=[argument]):
            return len(_sized(argument, frame))
        case ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[axis]):
            return _shape(owner, frame)[_number(axis, frame)]
        case ast.Call(args=arguments) if (function := _value(expression.func, frame)) in _OF_NUMBERS:
            return float(function(*(_real(argument, frame) for argument in arguments)))
    raise _Unknown


def _sized(expression: ast.expr, frame: FrameType) -> Any:
    """A loader, an array or a container of Python's own, be it under a progress bar: asking those for their length or
    an item runs nothing of the script's but a sampler's length."""
    value = _value(expression, frame)
    if type(value).__name__ in _SHOWING:
        value = vars(value)["iterable"]
    if type(value) not in _CONTAINERS and not isinstance(value, DataLoader) and not _is_array(value):
        raise _Unknown
    return value


def _shape(expression: ast.expr, frame: FrameType) -> tuple[int, ...]:
    value = _value(expression, frame)
    if not _is_array(value):
        raise _Unknown
    return tuple(value.shape)


def _is_array(value: object) -> bool:
    return f"{type(value).__module__}.{type(value).__qualname__}" in _ARRAYS


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
    trees = {outer.f_code.co_filename: _parsed(outer.f_code.co_filename) for outer in frames}
    behind_loop = False
    for outer in frames:
        path = outer.f_code.co_filename
        known = functions_of([*trees.values(), trees[path]])  # its own come before others of the same name
        way = _way_to(outer)
        parts: list[ast.stmt | ast.expr] = []
        if behind_loop:
            parts += (one for one in _comprehensions_around(outer) if trains_anew(one, outer, optimizers))
        for node, inner in reversed(way):
            parts += (one for one in _behind(node, inner) if trains(one, known, behind_loop=behind_loop))
            if isinstance(node, _Loop) and any(_holds(part, _place(outer)) for part in node.body):
                again = behind_loop and not _turns_once(node, outer) and trains_anew(node, outer, optimizers)
                parts += [node] if again else []
                behind_loop = True
        if parts:
            return f"{Path(path).name}:{parts[0].lineno}"
    return None


def _turns_once(loop: _Loop, frame: FrameType) -> bool:
    try:
        return isinstance(loop, ast.For) and _count(loop.iter, frame, None)[0] == 1
    except Exception:  # its iterable does not say
        return False


def _behind(node: ast.AST, inner: ast.AST) -> list[ast.stmt]:
    """Statements of a node that come after one of them; those of loops as well: they come before its next turn."""
    blocks = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [
        one for block in blocks if isinstance(block, list) and inner in block for one in block[block.index(inner) + 1 :]
    ]
