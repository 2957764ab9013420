"""Sums of losses and of right answers that a training loop reads from the device in each step, found in its source."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hotlap.source import Script

Loop = ast.For | ast.While

# What reads a tensor's values on the host, which waits for the device.
_READS = ("item", "cpu", "tolist", "numpy")

# What hands a tensor's value on as it is.
_SAME = ("detach", "cpu", "data", "clone")

# With these in sight it cannot be told who reads a variable.
_LOOKS_AROUND = ("eval", "exec", "locals", "vars", "globals")


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """A variable that a loop adds to, and that is read elsewhere."""

    script: Script
    variable: str
    calls: tuple[ast.Call, ...]
    """Each reads a value in each step: `loss.item()`."""
    codes: tuple[str, ...]
    """What stands in their place: `loss.detach().double()`."""
    reads: tuple[ast.Name, ...]
    """Where the sum itself is read."""
    number: str
    """What the sum is: "float" or "int"."""


def sums(script: Script) -> list[Sum]:
    """The sums of all training loops of a file, where all of a loop's readings can be put off."""
    found = []
    for loop in _training_loops(script):
        here = [done for name in _added_to(loop) if (done := _Variable(script, loop, name).sum()) is not None]
        ours = {id(call) for one in here for call in one.calls}
        if here and not any(id(call) not in ours for call in _waits(script, loop)):
            found += here
    return found


def _training_loops(script: Script) -> list[Loop]:
    """The innermost loops around calls of `backward`."""
    loops: dict[Loop, None] = {}
    for call in script.methods("backward"):
        inner = _loop_of(script, call)
        if inner is not None:
            loops[inner] = None
    return list(loops)


def _loop_of(script: Script, node: ast.AST) -> Loop | None:
    for outer in script.around(node):
        if isinstance(outer, Loop):
            return outer
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            break
    return None


def _added_to(loop: Loop) -> list[str]:
    """Variables that the loop adds something to, in the order of the text."""
    names: dict[str, None] = {}
    for node in ast.walk(loop):
        added = _addition(node)
        if added is not None:
            names[added[0]] = None
    return list(names)


def _addition(node: ast.AST) -> tuple[str, ast.expr] | None:
    """`total += x` or `total = total + x` -> (total, x)."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
            return name, value
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=same), op=ast.Add(), right=value)
        ) if same == name:
            return name, value
    return None


def _waits(script: Script, loop: Loop) -> Iterator[ast.Call]:
    """Calls that wait for the device in each step."""
    for node in ast.walk(loop):
        reads = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READS
        if not reads or _is_now_and_then(script, node, loop):
            continue
        inner = [part for outer in script.around(node) if isinstance(part := outer, ast.Call)]
        if not any(isinstance(o.func, ast.Attribute) and o.func.attr in _READS for o in inner):
            assert isinstance(node, ast.Call)
            yield node


def _is_now_and_then(script: Script, node: ast.AST, loop: Loop) -> bool:
    """It is in the body of an `if` within the loop."""
    child = node
    for outer in script.around(node):
        if outer is loop:
            return False
        if isinstance(outer, ast.If) and child is not outer.test:
            return True
        child = outer
    return True


@dataclass(slots=False, eq=False)
class _Variable:
    """One variable that a training loop adds to."""

    script: Script
    loop: Loop
    name: str

    def sum(self) -> Sum | None:
        """None where it cannot be put off."""
        nodes = [node for node in ast.walk(self._scope) if isinstance(node, ast.Name) and node.id == self.name]
        own = [node for node in nodes if self.script.scope(node) is self._scope]
        if any(node not in own and not self._is_bound_in(node) for node in nodes) or self._is_looked_at():
            return None
        added = self._readings()
        if not added:
            return None
        number = "float" if any(kind == "float" for _, _, kind in added) else "int"
        reads = self._reads(own)
        if reads is None or not all(self._is_kept(node, number) for node in own if not isinstance(node.ctx, ast.Load)):
            return None
        calls, codes, _ = zip(*added, strict=True)
        return Sum(self.script, self.name, calls, codes, tuple(reads), number)

    @cached_property
    def _scope(self) -> ast.AST:
        return self.script.scope(self.loop)

    @cached_property
    def _tensors(self) -> "_Tensors":
        return _Tensors(self.script, self.loop)

    def _readings(self) -> list[tuple[ast.Call, str, str]]:
        """(call, what stands in its place, number) of each addition; empty if one of them is anything else."""
        found = []
        for node in ast.walk(self.loop):
            added = _addition(node)
            if added is None or added[0] != self.name:
                continue
            reading = self._reading(added[1])
            if reading is None or _loop_of(self.script, node) is not self.loop:
                return []
            found.append(reading)
        return found

    def _reading(self, value: ast.expr) -> tuple[ast.Call, str, str] | None:
        """`loss.item() * n` -> its call, and what stands in the call's place."""
        scaled = False
        while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
            if not self._is_number(value.right):
                return None
            scaled = scaled or isinstance(value.op, ast.Div)
            value = value.left
        inner = _read_tensor(value)
        if inner is None or value.lineno != value.end_lineno:
            return None
        assert isinstance(value, ast.Call)
        kind = self._tensors.kind(inner)
        if kind is None or (scaled and kind == "int"):
            return None
        code = self.script.code(inner)
        code = code if isinstance(inner, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({code})"
        return value, f"{code}.detach().double()" if kind == "float" else code, kind

    def _is_number(self, node: ast.expr) -> bool:
        """A number of the host's."""
        match node:
            case ast.Constant(value=value):
                return isinstance(value, int | float)
            case ast.Name(id=name):
                return name not in self._tensors.names
            case ast.Call(func=ast.Name(id="len"), args=[_]) | ast.Call(func=ast.Attribute(attr="size"), args=[_]):
                return True
            case ast.Attribute() | ast.Subscript(value=ast.Attribute(attr="shape")):
                return True
        return False

    def _reads(self, own: list[ast.Name]) -> list[ast.Name] | None:
        """Where the sum is read; None where that is in each step, or decides what a step does."""
        found = []
        for node in own:
            if not isinstance(node.ctx, ast.Load) or self._is_part_of_addition(node):
                continue
            inside = any(outer is self.loop for outer in self.script.around(node))
            if inside and (self._decides(node) or not _is_now_and_then(self.script, node, self.loop)):
                return None
            found.append(node)
        return found

    def _is_part_of_addition(self, node: ast.Name) -> bool:
        outer = next(iter(self.script.around(node)), None)
        statement = next((o for o in self.script.around(node) if isinstance(o, ast.stmt)), None)
        added = _addition(statement) if statement is not None else None
        return added is not None and added[0] == self.name and isinstance(outer, ast.BinOp) and outer.left is node

    def _decides(self, node: ast.Name) -> bool:
        """It is in a condition."""
        child: ast.AST = node
        for outer in self.script.around(node):
            if isinstance(outer, ast.If | ast.While | ast.IfExp | ast.Assert) and child is outer.test:
                return True
            if isinstance(outer, ast.BoolOp):
                return True
            child = outer
        return False

    def _is_kept(self, node: ast.Name, number: str) -> bool:
        """What is stored is a number that is written out, or the sum itself, changed by numbers."""
        statement = next((outer for outer in self.script.around(node) if isinstance(outer, ast.stmt)), None)
        match statement:
            case ast.AugAssign(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as op, value=value):
                added = _addition(statement)
                divided = isinstance(op, ast.Div) and number == "int"
                ours = added is not None and any(outer is self.loop for outer in self.script.around(statement))
                return ours or (self._is_number(value) and not divided)
            case ast.Assign(value=ast.Constant(value=int() | float())) | ast.AnnAssign(value=ast.Constant()):
                return True
            case ast.Assign(targets=[ast.Tuple()], value=ast.Tuple(elts=values)):
                return all(isinstance(value, ast.Constant) for value in values)
        return _addition(statement) is not None if statement is not None else False

    def _is_bound_in(self, node: ast.Name) -> bool:
        """The function that it is in has a variable of its own by that name."""
        scope = self.script.scope(node)
        stored = any(
            (isinstance(part, ast.Name) and part.id == self.name and isinstance(part.ctx, ast.Store))
            or (isinstance(part, ast.arg) and part.arg == self.name)
            for part in ast.walk(scope)
        )
        return stored and not any(isinstance(part, ast.Global | ast.Nonlocal) for part in ast.walk(scope))

    def _is_looked_at(self) -> bool:
        """Something may reach the variable by other ways."""
        return any(
            (isinstance(node, ast.Global | ast.Nonlocal) and self.name in node.names)
            or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LOOKS_AROUND)
            for node in ast.walk(self._scope)
        )


class _Tensors:
    """Which names of a training loop are tensors: the loss, what it was computed from, and what comes from these."""

    def __init__(self, script: Script, loop: Loop) -> None:
        assigned = [node for node in ast.walk(loop) if isinstance(node, ast.Assign)]
        self.losses = {
            name.id
            for call in script.methods("backward")
            if any(outer is loop for outer in script.around(call))
            for name in ast.walk(call)
            if isinstance(name, ast.Name) and _is_computed(name.id, assigned)
        }
        self.names = set(self.losses)
        for node in assigned:
            if _targets(node) & self.losses and isinstance(node.value, ast.Call):
                arguments = [*node.value.args, *(word.value for word in node.value.keywords)]
                self.names |= {root for argument in arguments if (root := _root(argument)) is not None}
        self._counts: set[str] = set()
        for node in assigned:
            if self._is_comparison(node.value):
                self._counts |= _targets(node)
            elif self._comes_from_tensor(node.value):
                self.names |= _targets(node)

    def kind(self, node: ast.expr) -> str | None:
        """ "float" for a loss, "int" for a number of right answers; None for what is not known."""
        if isinstance(node, ast.Name) and node.id in self.losses:
            return "float"
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="mean" | "sum"), args=[], keywords=[]) if (
                name in self.losses
            ):
                return "float"
            case ast.Call(func=ast.Attribute(value=inner, attr="sum"), args=[], keywords=[]):
                counted = self._is_comparison(inner) or (isinstance(inner, ast.Name) and inner.id in self._counts)
                return "int" if counted else None
        return None

    def _is_comparison(self, node: ast.expr) -> bool:
        """`pred == y`, `pred.eq(y)`."""
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                return self._is_tensor(left) and _reads_nothing(right)
            case ast.Call(func=ast.Attribute(value=left, attr="eq" | "ne"), args=[right], keywords=[]):
                return self._is_tensor(left) and _reads_nothing(right)
        return False

    def _is_tensor(self, node: ast.expr) -> bool:
        return _root(node) in self.names and _reads_nothing(node)

    def _comes_from_tensor(self, node: ast.expr) -> bool:
        arguments = node.args if isinstance(node, ast.Call) else []
        known = self._is_tensor(node) or any(self._is_tensor(argument) for argument in arguments[:1])
        return known and _reads_nothing(node)


def _read_tensor(node: ast.expr) -> ast.expr | None:
    """`loss.detach().cpu().item()` or `float(loss)` -> loss."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[], keywords=[]):
            pass
        case ast.Call(func=ast.Name(id="float"), args=[inner], keywords=[]):
            pass
        case _:
            return None
    while True:
        match inner:
            case ast.Call(func=ast.Attribute(value=under, attr=name), args=[], keywords=[]) if name in _SAME:
                inner = under
            case ast.Attribute(value=under, attr="data"):
                inner = under
            case _:
                return inner


def _root(node: ast.expr) -> str | None:
    """`out.view(-1, 5)[0]` -> "out"."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _targets(node: ast.Assign) -> set[str]:
    return {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _is_computed(name: str, assigned: list[ast.Assign]) -> bool:
    """The loop assigns it something that is not a number."""
    return any(name in _targets(node) and isinstance(node.value, ast.Call | ast.BinOp) for node in assigned)


def _reads_nothing(node: ast.expr) -> bool:
    """Nothing in it goes to the host."""
    return not any(isinstance(part, ast.Attribute) and part.attr in _READS for part in ast.walk(node))
