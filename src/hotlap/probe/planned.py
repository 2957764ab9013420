"""The loops around a training step -> how many steps the training will make.

`for epoch in range(args.epochs)` around `for batch in loader`: the iterables of the loops that are under way are worked
out from the variables of their frames (`hotlap.probe.expressions`), with the usual wrappers around them (enumerate,
zip, tqdm). A `while` loop has a counter that runs up to a limit, in its head or in an `if` that leaves it. Another one,
a comprehension, or anything else, is not known.
"""

import ast
import gc
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, GeneratorType
from typing import Any

from torch.utils.data import DataLoader

from hotlap.probe.expressions import PROGRESS_BARS, Unknown, number_of, shape_of, sized, value_of
from hotlap.probe.loops import Loop, Place, loops_around, place_of, start_of, way_in, way_to
from hotlap.probe.sites import is_users, outwards

_WRAPPERS = PROGRESS_BARS | {"enumerate", "list", "iter", "reversed"}
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
            for loop in loops_around(outer) if is_users(outer.f_code.co_filename) else ():
                if isinstance(loop, ast.While):
                    number, is_steps = _counted(
                        loop, outer, num_inner=num_loops, made=made, batches_a_step=batches_a_step
                    )
                    over_loader &= not is_steps
                    iterations = number if is_steps else number * iterations
                else:
                    count, of_loader = count_of(loop.iter, outer, num_batches)
                    count = min((count, *_left_after(loop, outer)))
                    over_loader |= of_loader
                    iterations *= count
                num_loops += 1
    except Exception:  # whatever the script's objects do: then it is not known
        return None
    steps = iterations // (max(1, batches_a_step) if over_loader else 1)
    return steps if num_loops and steps >= made else None


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


def _counted(loop: ast.While, frame: FrameType, *, num_inner: int, made: int, batches_a_step: int) -> tuple[int, bool]:
    """Rounds of a `while` loop with a counter that it adds to; or, and then True, all steps that are made in it.
    `num_inner`: loops within it that the step was made in; the others as in `planned_steps`.

    Raises:
        Unknown: it has no counter that goes with its rounds, or with steps.
    """
    now = place_of(frame)
    around = [inner for _, inner in way_in(loop, now)]
    branches = [one for one in around if isinstance(one, ast.If)]
    for counter, limit, inclusive, asked in _limits(loop):
        place, amount = _addition(loop, ast.unparse(counter)) or (now, 0)
        within = [one for _, one in way_in(loop, place) if isinstance(one, Loop | ast.If)]
        num_within = sum(isinstance(one, Loop) for one in within)
        if not amount or not all(one in around for one in within) or num_within not in (0, num_inner):
            continue
        is_steps = num_within == num_inner
        # Beside a step that is not made in each round batches are counted, and gathered.
        batches = 1 if all(one in within for one in branches) else max(1, batches_a_step)
        so_far = (made * batches if is_steps else 1) - (place > now)
        first = number_of(counter, frame) - amount * so_far
        rounds = math.ceil((number_of(limit, frame) + inclusive - first) / amount)
        rounds += (now < asked < place) - (place < asked < now)
        return (rounds // batches if is_steps else rounds), is_steps
    raise Unknown


def _left_after(loop: ast.For, frame: FrameType) -> Iterator[int]:
    """Rounds after which it is left, by the number that `enumerate` or `range` gives each."""
    over = loop.iter
    while isinstance(over, ast.Call) and _called(over) in PROGRESS_BARS and over.args:
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
            yield number_of(larger, frame) + inclusive + (place_of(frame) < asked)


def _limits(loop: Loop) -> Iterator[tuple[ast.expr, ast.expr, bool, Place]]:
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
                    yield smaller, larger, inclusive, start_of(test)


def _leaves(branch: ast.If, loop: Loop) -> bool:
    """It ends the loop."""
    inner = [one for _, one in way_in(loop, start_of(branch)) if isinstance(one, Loop)]
    return isinstance(branch.body[-1], ast.Return) or (isinstance(branch.body[-1], ast.Break) and not inner)


def _addition(loop: ast.While, counter: str) -> tuple[Place, int] | None:
    """(place, amount) of the one that adds to the counter; None where there are others, or it is set otherwise."""
    stores = (one for one in ast.walk(loop) if isinstance(getattr(one, "ctx", None), ast.Store))
    places = [one for one in stores if ast.unparse(one) == counter]
    for node in ast.walk(loop):
        match node:
            case ast.AugAssign(op=ast.Add(), value=ast.Constant(value=int(amount))) if [node.target] == places:
                return (start_of(node), amount) if amount > 0 else None
    return None


def count_of(iterable: ast.expr, frame: FrameType, num_batches: int | None) -> tuple[int, bool]:
    """How often a loop over it goes round, and whether it goes over a loader."""
    name = _called(iterable) if isinstance(iterable, ast.Call) else None
    match iterable:
        case ast.Call(args=[first, *_]) if name in _WRAPPERS:
            return count_of(first, frame, num_batches)
        case ast.Call(args=several) if name == "zip":
            return min(count_of(one, frame, num_batches) for one in several)
        case ast.Call(args=limits) if name in ("range", "trange"):
            number = len(range(*(number_of(limit, frame) for limit in limits)))
        case ast.Call(func=ast.Attribute(value=array), args=[size, *_]) if name == "split":
            number = math.ceil(_rows(array, frame) / number_of(size, frame))
        case ast.Call() if (under_way := _generator_of(name)) is not None:
            return _yields(under_way)
        case ast.Call(func=made_by) if num_batches is not None and value_of(made_by, frame) is DataLoader:
            return num_batches, True
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            number = len(elements)
        case _:
            value = sized(iterable, frame)
            return len(value), isinstance(value, DataLoader)
    return number, False


def _generator_of(name: str | None) -> FrameType | None:
    """Of the user's one generator that is under way and was made by a function of this name: a loop over it holds it
    where no name leads to. None where there is none, or another one."""
    known = (one.gi_frame for one in gc.get_objects() if type(one) is GeneratorType and one.gi_code.co_name == name)
    frames = [frame for frame in known if frame is not None and is_users(frame.f_code.co_filename)]
    return frames[0] if len(frames) == 1 else None


def _yields(frame: FrameType) -> tuple[int, bool]:
    """How often a generator hands out something in its loops, and whether it goes over a loader.

    Raises:
        Unknown: it may do so more or less often than its loops go round.
    """
    way = way_to(frame)
    inner = [
        node for node in ast.walk(way[0][0]) if isinstance(node, ast.Yield | ast.YieldFrom | ast.Break | ast.Return)
    ]
    if len(inner) != 1 or not all(isinstance(node, ast.Yield | ast.Expr | ast.For | ast.With) for _, node in way):
        raise Unknown
    counts = [count_of(loop.iter, frame, None) for loop in loops_around(frame) if isinstance(loop, ast.For)]
    return math.prod(number for number, _ in counts), any(of_loader for _, of_loader in counts)


def _rows(array: ast.expr, frame: FrameType) -> int:
    if isinstance(array, ast.Call) and _called(array) == "randperm":
        return number_of(array.args[0], frame)
    return shape_of(array, frame)[0]


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]
