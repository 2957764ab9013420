"""Statements of a script -> do they train once more: another part of the training, or a new model in each turn of a
loop?

Functions are followed by their names, in the files that are under way; nothing is run.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

NAMED_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = NAMED_FUNCTIONS | ast.Lambda
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

_TRAINING = frozenset({"backward", "step"})

# What these make of a model is the same model, or begins where it stands.
_HANDED_ON = frozenset({"to", "cuda", "cpu", "float", "double", "half", "bfloat16", "train", "eval", "requires_grad_"})
_HANDED_ON |= {"compile", "prepare", "deepcopy", "DataParallel", "DistributedDataParallel"}


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of some files."""

    by_name: dict[str, NAMED_FUNCTIONS]
    """Name -> function; ".name" -> method; a class's name -> its `__init__`."""
    classes: dict[ast.AST, str]
    """Method -> name of its class."""

    @classmethod
    def of(cls, trees: Iterable[ast.Module]) -> "Functions":
        """Of two with the same name that of the later file."""
        nodes = [node for tree in trees for node in ast.walk(tree)]
        owners = [node for node in nodes if isinstance(node, ast.ClassDef)]
        classes: dict[ast.AST, str] = {one: owner.name for owner in owners for one in owner.body}
        by_name: dict[str, NAMED_FUNCTIONS] = {}
        for one in nodes:
            if isinstance(one, NAMED_FUNCTIONS):
                owner = classes.get(one)
                by_name[one.name if owner is None else owner if one.name == "__init__" else f".{one.name}"] = one
        return cls(by_name, classes)


def _called(func: ast.expr, left: dict[str, NAMED_FUNCTIONS]) -> str | None:
    """The key of the function that a name or an attribute stands for, among those that are left."""
    name = _name(func)
    keys = [f".{name}"] * isinstance(func, ast.Attribute) + [str(name)]
    return next((key for key in keys if key in left), None)


def trains(statement: ast.AST, known: Functions, *, behind_loop: bool) -> bool:
    """It goes backward and lets an optimizer step in a loop, itself or by functions that it calls; behind the loop of
    another training also by one `step(closure)`, which may make hundreds of iterations."""
    return _called_in_loops(statement, dict(known.by_name), closures=behind_loop) >= _TRAINING


def _called_in_loops(
    node: ast.AST, left: dict[str, NAMED_FUNCTIONS], *, looped: bool = False, closures: bool = False
) -> set[str]:
    """Names of the methods; each function's body (`left`: those that were not looked into) counts once."""
    if isinstance(node, FUNCTIONS | ast.ClassDef):
        return set()  # it is made here, not called
    found = set()
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        found |= {name} if looped and name is not None else set()
        if name == "step" and (looped or closures) and any(_goes_backward(one, left) for one in _arguments(node)):
            found |= _TRAINING
        function = left.pop(_called(node.func, left) or "", None)
        for statement in () if function is None else function.body:
            found |= _called_in_loops(statement, left, looped=looped, closures=closures)
    looped = looped or isinstance(node, ast.For | ast.While | COMPREHENSIONS)
    for child in ast.iter_child_nodes(node):
        found |= _called_in_loops(child, left, looped=looped, closures=closures)
    return found


def _goes_backward(closure: ast.expr, left: dict[str, NAMED_FUNCTIONS]) -> bool:
    """A function that an optimizer calls."""
    function = left.get(_called(closure, left) or "")
    body = [closure.body] if isinstance(closure, ast.Lambda) else [] if function is None else function.body
    return any("backward" in _called_in_loops(one, dict(left), looped=True) for one in body)


def _name(node: ast.expr) -> str | None:
    """ "fit" of `fit` and of `self.fit`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def trains_anew(loop: ast.AST, within: ast.AST, known: Functions) -> bool:
    """Each turn of a loop, or of a comprehension, makes an optimizer for another model. (One that is made anew each
    epoch for the same model goes on with one training.) `within`: the function of the loop, or the module."""
    return _Turn(within, known).has_own_model(loop)


_Name = tuple[ast.AST | str, str]
"""(function, name) of a variable; of an attribute of `self` the class in place of its method."""


class _Turn:
    """One turn of a loop: what is set in it, to what, and what constructors are given."""

    def __init__(self, within: ast.AST, known: Functions) -> None:
        self._within = within
        self._known = known
        self._left = dict(known.by_name)
        self._set: dict[_Name, list[tuple[ast.AST, ast.expr]]] = {}
        """Variable -> (function, value) of each place that sets it."""
        self._given: list[tuple[ast.AST, ast.expr]] = []
        """(function, argument) of constructors."""

    def has_own_model(self, loop: ast.AST) -> bool:
        """Parameters of a model that is made in it go to a constructor."""
        heads = [loop] if isinstance(loop, ast.For) else getattr(loop, "generators", ())
        targets = [head.target for head in heads]
        for name in (node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)):
            self._note(self._within, name.id, self._within, ast.Call(ast.Name("next"), [], []))  # another each time
        for node in loop.body if isinstance(loop, ast.For | ast.While) else [loop]:
            self._read(self._within, node)
        owners = [(where, owner) for where, given in self._given for owner in self._owners(where, given)]
        return any(self._is_new(where, owner, frozenset()) for where, owner in owners)

    def _read(self, where: ast.AST, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
                return
            case ast.Assign(targets=targets, value=value):
                for name in (name for target in targets for name in getattr(target, "elts", [target])):
                    self._note(where, ast.unparse(name), where, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._note(where, ast.unparse(target), where, value)
            case ast.Call():
                self._call(where, node)
        for child in ast.iter_child_nodes(node):
            self._read(where, child)

    def _call(self, where: ast.AST, call: ast.Call) -> None:
        name = _name(call.func)
        if name is None or not name.islower():  # a class
            self._given += [(where, one) for one in _arguments(call)]
        function = self._left.pop(_called(call.func, self._left) or "", None)
        if function is not None:
            self._enter(function, where, call)

    def _enter(self, function: NAMED_FUNCTIONS, where: ast.AST, call: ast.Call) -> None:
        """What it is called with is what its parameters are set to."""
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        values = list(call.args)
        if function in self._known.classes:
            owner = call.func.value if isinstance(call.func, ast.Attribute) else call
            values.insert(0, call if function.name == "__init__" else owner)
        given = dict(zip(names, values, strict=False)) | {one.arg: one.value for one in call.keywords if one.arg}
        for name, value in given.items():
            self._note(function, name, where, value)
        for statement in function.body:
            self._read(function, statement)

    def _note(self, where: ast.AST, name: str, origin: ast.AST, value: ast.expr) -> None:
        self._set.setdefault(self._key(where, name), []).append((origin, value))

    def _key(self, where: ast.AST, name: str) -> _Name:
        own = name.partition(".")[0] == "self"
        return (self._known.classes.get(where, where) if own else where), name

    def _owners(self, where: ast.AST, given: ast.expr) -> Iterator[ast.expr]:
        """`model` of `model.parameters()`, also of a variable that holds them."""
        values = [value for _, value in self._set.get(self._key(where, ast.unparse(given)), ())]
        for node in (node for one in (given, *values) for node in ast.walk(one)):
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr="parameters" | "named_parameters")):
                    yield owner

    def _is_new(self, where: ast.AST, value: ast.expr, seen: frozenset[_Name]) -> bool:
        """It is made in this turn."""
        if isinstance(value, ast.Call):
            if _name(value.func) not in _HANDED_ON:
                parts = (node for node in ast.walk(value) if isinstance(node, ast.expr))
                return seen.isdisjoint(self._key(where, ast.unparse(node)) for node in parts)
            owners = [value.func.value] if isinstance(value.func, ast.Attribute) else []
            return any(self._is_new(where, one, seen) for one in (*owners, *value.args))
        # Of `self.model.encoder` the longest part that is set in this turn; what a function does not set is the loop's.
        part = value
        while True:
            name = ast.unparse(part)
            key = next((key for key in (self._key(where, name), (self._within, name)) if key in self._set), None)
            if key is not None or not isinstance(part, ast.Attribute):
                break
            part = part.value
        if key is None or key in seen:
            return False
        return any(self._is_new(origin, one, seen | {key}) for origin, one in self._set[key])
