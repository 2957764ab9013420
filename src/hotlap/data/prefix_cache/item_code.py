"""The code of a `__getitem__`, cut in two where it first draws: for data sets whose random steps are in no pipeline.

Head and tail are the statements in front of the cut and behind it, compiled as two functions with the globals and
closure of the original. What the tail reads of the head's local variables is handed from one to the other.
"""

import __future__

import ast
import inspect
import linecache
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any, final

from torch.utils.data import Dataset

from hotlap.data.checks.code_names import text_of
from hotlap.data.checks.random_state import Streams
from hotlap.data.item.codec import CannotKeep
from hotlap.data.prefix_cache.pipelines import Call, Pipeline, Pipelines, Placeholder, parts_of

_MARK = "_hotlap_mark"

# Whoever reads local variables by name may read any.
_READS_LOCALS = frozenset({"locals", "vars", "eval", "exec", "dir"})
_LEAVES_FUNCTION = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)

Halves = tuple[Callable[..., tuple[Any, ...]], Callable[..., Any]]
"""(head: data set and index -> the local variables that the tail reads; tail: data set and these -> the item)."""


def item_codes(dataset: Any) -> Iterator[Pipelines]:
    """The code of each `__getitem__` below a data set that could be cut, the outermost first."""
    found: dict[type, list[Any]] = {}
    for each in parts_of(dataset):
        if each is dataset or isinstance(each, Dataset):
            owner = next((one for one in type(each).__mro__ if "__getitem__" in vars(one)), type(each))
            found.setdefault(owner, []).append(each)
    for owner, instances in found.items():
        function = vars(owner).get("__getitem__")
        if isinstance(function, FunctionType) and not owner.__module__.startswith("torch."):
            yield Pipelines(dataset, [ItemCode(owner, instances, function)])


@final
class ItemCode(Pipeline):
    """The `__getitem__` that a class defines, for those of its objects that belong to a data set; its steps are its
    statements."""

    def __init__(self, owner: type, instances: list[Any], function: FunctionType) -> None:
        super().__init__(owner, "__getitem__", sys.maxsize)
        self._instances, self._function = instances, function
        self._cut: dict[int, Halves] = {}

    def result(self, call: Call, *, defers: bool = False) -> Any:
        """The item of what its head has kept: number of the object, local variables."""
        number, *kept = call.inputs
        return self._halves[1](self._instances[number], *kept)

    def watched(self, held: Any, streams: Streams) -> Any:
        """Looks at the generators in front of each statement."""
        marked = [part for k, one in enumerate(self._statements) for part in (_mark(k), one)]
        run = self._compiled((*self._parameters, _MARK), marked)

        def item(dataset: Any, index: Any) -> Any:
            if self._number(dataset) is None:
                return held(dataset, index)
            before, running = streams.states(), 0

            def ended(following: int) -> None:
                nonlocal running
                if running < self.num_head and streams.drawn(before) is not None:
                    self.num_head = running
                running = following

            made = run(dataset, index, ended)
            ended(len(marked))
            return made

        return item

    def recorder(self, held: Any, number: int, calls: list[Call]) -> Any:
        """Keeps the local variables of the head."""
        head, _ = self._halves
        thread = threading.get_ident()

        def item(dataset: Any, index: Any) -> Any:
            mine = self._number(dataset) if threading.get_ident() == thread else None
            if mine is None:
                return held(dataset, index)
            calls.append(Call(number, (mine, *head(dataset, index)), several=False))
            return Placeholder(len(calls) - 1)

        return item

    def _number(self, dataset: Any) -> int | None:
        return next((number for number, one in enumerate(self._instances) if one is dataset), None)

    @property
    def _halves(self) -> Halves:
        halves = self._cut.get(self.num_head)
        if halves is None:
            halves = self._cut[self.num_head] = self._cut_at(self.num_head)
        return halves

    def _cut_at(self, num_head: int) -> Halves:
        head, tail = self._statements[:num_head], self._statements[num_head:]
        if not any(isinstance(node, ast.Call | ast.Subscript) for each in head for node in ast.walk(each)):
            raise CannotKeep("it draws random numbers first of all, outside of its transforms")
        if not tail:
            raise CannotKeep("its code draws no random numbers")
        if any(isinstance(node, ast.Return) for each in head for node in _own_nodes(each)):
            raise CannotKeep("its code may return in front of the first random draw")
        itself, *_ = self._parameters
        imports = [each for each in head if isinstance(each, ast.Import | ast.ImportFrom)]
        kept = [name for name in _bound(self._compiled(self._parameters, head)) if name != itself]
        imported = _bound(self._compiled((), imports)) if imports else ()
        read = {node.id for each in tail for node in ast.walk(each) if isinstance(node, ast.Name)}
        kept = [name for name in kept if name in read and name not in imported]
        values = ast.Tuple([ast.Name(name, ast.Load()) for name in kept], ast.Load())
        return (
            self._compiled(self._parameters, [*head, ast.Return(values)]),
            self._compiled((itself, *kept), [*imports, *tail]),
        )

    @cached_property
    def _parameters(self) -> tuple[str, str]:
        code = self._function.__code__
        arguments = inspect.getargs(code)
        if len(arguments.args) != 2 or arguments.varargs or arguments.varkw or self._function.__defaults__:
            raise CannotKeep("its __getitem__ takes more than an index")
        return arguments.args[0], arguments.args[1]

    @cached_property
    def _statements(self) -> list[ast.stmt]:
        """The body of the method."""
        code = self._function.__code__
        methods = (node for node in ast.walk(self._module) if isinstance(node, ast.FunctionDef))
        place = code.co_firstlineno, code.co_name
        body = next((node.body for node in methods if (node.lineno, node.name) == place), None)
        if body is None:
            raise CannotKeep("the source of its __getitem__ was not found")
        if text_of(self._compiled(self._parameters, body).__code__) != text_of(code):
            raise CannotKeep("the source of its __getitem__ is not what runs")
        nodes = [node for each in body for node in ast.walk(each)]
        if any(isinstance(node, _LEAVES_FUNCTION) for node in nodes) or _READS_LOCALS & {*code.co_names}:
            raise CannotKeep("its __getitem__ is more than a function of an index")
        return body

    @cached_property
    def _module(self) -> ast.Module:
        """All of the file that the method was written in."""
        path = self._function.__code__.co_filename
        try:
            return ast.parse("".join(linecache.getlines(path, self._function.__globals__)))
        except SyntaxError as error:
            raise CannotKeep(f"{path} cannot be read") from error

    def _compiled(self, parameters: Sequence[str], body: Sequence[ast.stmt]) -> FunctionType:
        """A function that sees what the original sees."""
        original = self._function
        code, closure = original.__code__, original.__closure__ or ()
        lexical = original.__qualname__.split(".")[-2:-1]
        if not lexical or not lexical[0].isidentifier():
            raise CannotKeep("its __getitem__ was not written in its class")
        # A class around it for names that begin with two underscores, a function for those of the closure; and methods
        # of what a module imports are called by other instructions.
        free = ", ".join(code.co_freevars)
        tree = ast.parse(f"class {lexical[0]}:\n def around({free}):\n  def __getitem__({', '.join(parameters)}): pass")
        method: Any = tree
        for _ in range(3):
            (method,) = method.body
        method.body = [*body] or method.body
        imports = (node for node in _own_nodes(self._module) if isinstance(node, ast.Import | ast.ImportFrom))
        tree.body[:0] = [node for node in imports if getattr(node, "module", None) != "__future__"]
        ast.fix_missing_locations(tree)
        made: Any = compile(tree, code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True)
        for _ in range(3):
            made = next(const for const in made.co_consts if isinstance(const, CodeType))
        cells = dict(zip(code.co_freevars, closure, strict=True))
        bound = tuple(cells[name] for name in made.co_freevars)
        return FunctionType(made, original.__globals__, original.__name__, None, bound)


def _bound(function: FunctionType) -> tuple[str, ...]:
    """Its local variables, parameters first."""
    code = function.__code__
    return tuple(dict.fromkeys((*code.co_varnames, *code.co_cellvars)))


def _mark(statement: int) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(_MARK, ast.Load()), [ast.Constant(statement)], []))


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those below it, but for the insides of functions."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own_nodes(child)
