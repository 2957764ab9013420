"""A data set's own `__getitem__`, cut in two: what it does before the first statement that draws, and what follows.

For items that are made by hand, without a pipeline of transforms: both halves are compiled from the source of the
method, with the names that the second one reads of the first handed over between them. Whether the halves make the
item is not believed but tried (`prefix._Heads`).
"""

import ast
import copy
import inspect
import linecache
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, final

from torch.utils.data import Subset

from hotlap.data.determinism import Stream, Streams
from hotlap.data.pipelines import Half, Touched

# Parameters that the compiled halves get beside those of the method.
_LIVE, _AT = "_hotlap_live", "_hotlap_at"

# In a head these would end the item, suspend it, or reach beyond its names.
_ENDING = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Delete)


@final
class Body:
    """The method of one data set; behind a `Subset`, that of the data set in it."""

    def __init__(self, dataset: Any) -> None:
        """`Touched` says why its source cannot be cut."""
        self._dataset = dataset
        self._source = _Source(_method_of(type(self._place(None)[0])))
        self._statements = list(self._source.node.body)
        self.heads: tuple[int, ...] = (self._most(),)
        """Statements of the head: one number, as `Pipelines` has one for each of them."""
        self._draws = False
        self._halves: tuple[int, FunctionType, FunctionType, frozenset[str]] | None = None

    def find_heads(self, index: Any, own: tuple[Stream, ...]) -> None:
        """Shorten the head to the statements that draw nothing for this item."""
        streams = Streams(own)
        before = streams.states()
        seen = _Seen(streams)
        owner, index = self._place(index)
        self._source.function(_watched(self._statements), parameter=_AT)(owner, index, **{_AT: seen})
        first = seen.first(len(self._statements))
        streams.restore(before)
        self.heads = (min(self.heads[0], first),)
        self._draws |= first < len(self._statements)

    def why_not(self) -> str | None:
        """Why cutting it there is not worth a thought, once `find_heads` has seen some items."""
        if not self._draws:
            return "its __getitem__ draws nothing"
        return None if self.heads[0] else "its __getitem__ draws, or may end, in its first statement"

    def half(self, index: Any) -> Half:
        """The item as far as its head goes.

        Raises:
            Touched: it cannot be made so.
        """
        head, _, live = self._cut()
        owner, index = self._place(index)
        try:
            names = head(owner, index)
        except Exception as error:  # the data set's own, which comes again when the item is made as a whole
            raise Touched(f"an item could not be computed ({type(error).__name__}: {error})") from error
        return Half((index, {name: names[name] for name in live if name in names}))

    def whole(self, half: Half) -> Any:
        """The item."""
        _, tail, _ = self._cut()
        index, live = half.skeleton
        owner, _ = self._place(None)
        return tail(owner, index, **{_LIVE: live})

    def _place(self, index: Any) -> tuple[Any, Any]:
        """(whose method makes the item, the number that it is given)."""
        owner = self._dataset
        while type(owner) is Subset:
            index = None if index is None else owner.indices[index]
            owner = owner.dataset
        return owner, index

    def _most(self) -> int:
        """Statements that may be in a head."""
        for number, statement in enumerate(self._statements):
            if any(isinstance(part, _ENDING) for part in ast.walk(statement)):
                return number
        return len(self._statements)

    def _cut(self) -> tuple[FunctionType, FunctionType, frozenset[str]]:
        (num_head,) = self.heads
        if self._halves is None or self._halves[0] != num_head:
            first, last = self._statements[:num_head], self._statements[num_head:]
            live = frozenset(_named(last) & _stored(first))
            head = self._source.function(_head(first))
            tail = self._source.function(_tail(first, last, live), parameter=_LIVE)
            self._halves = num_head, head, tail, live
        return self._halves[1:]


@final
class _Seen:
    """Called in front of each statement: which was the first that drew?"""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._before = streams.states()
        self._current = -1
        self._first: int | None = None

    def __call__(self, number: int) -> None:
        if self._first is None and self._streams.drawn(self._before) is not None:
            self._first = self._current
        self._current = number

    def first(self, num_statements: int) -> int:
        """Its number; that of all statements if none did."""
        self(num_statements)
        return num_statements if self._first is None else self._first


# The method, and its source


def _method_of(kind: type[Any]) -> FunctionType:
    method = inspect.getattr_static(kind, "__getitem__", None)
    if type(method) is not FunctionType or method.__closure__:
        raise Touched("its __getitem__ is no plain method")
    parameters = list(inspect.signature(method).parameters.values())
    if len(parameters) != 2 or any(one.kind is not one.POSITIONAL_OR_KEYWORD for one in parameters):
        raise Touched("its __getitem__ takes more than a number")
    return method


@final
class _Source:
    """Where a method is defined: its module, so that whatever is made of it compiles as it did there."""

    def __init__(self, method: FunctionType) -> None:
        """The text on disk may be another than the one that runs, as long as it holds the same method."""
        self._method = method
        try:
            text = "".join(linecache.getlines(method.__code__.co_filename, method.__globals__))
            with _no_warnings():
                self._module = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise Touched("the source of its __getitem__ cannot be read") from error
        path = [name for name in method.__qualname__.split(".") if name != "<locals>"]
        for node in _definitions(self._module.body, path):
            self.node = node
            if not node.decorator_list and _alike(self.code(node.body), method.__code__):
                return
        raise Touched("the source of its __getitem__ was not found")

    def code(self, body: list[ast.stmt], *, parameter: str | None = None) -> CodeType:
        """What the method compiles to with this body, and with one more parameter that must be named."""
        node, before = self.node, (self.node.body, self.node.args)
        node.body = body
        if parameter is not None:
            node.args = copy.copy(node.args)
            node.args.kwonlyargs, node.args.kw_defaults = [ast.arg(arg=parameter)], [None]
        try:
            module = ast.fix_missing_locations(self._module)
            with _no_warnings():
                made = compile(module, self._method.__code__.co_filename, "exec", dont_inherit=True)
        finally:
            node.body, node.args = before
        return next(one for one in _codes(made) if (one.co_name, one.co_firstlineno) == (node.name, node.lineno))

    def function(self, body: list[ast.stmt], *, parameter: str | None = None) -> FunctionType:
        """As a method of its class."""
        method = self._method
        made = FunctionType(self.code(body, parameter=parameter), method.__globals__, method.__name__)
        made.__defaults__ = method.__defaults__
        return made


@contextmanager
def _no_warnings() -> Iterator[None]:
    """What Python has to say of the source it has said already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _definitions(body: Iterable[ast.AST], path: list[str]) -> Iterator[ast.FunctionDef]:
    """All definitions of a name within these: `Folder.__getitem__`."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == path[0]:
            if len(path) > 1:
                yield from _definitions(node.body, path[1:])
            elif isinstance(node, ast.FunctionDef):
                yield node
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.expr):
            yield from _definitions(ast.iter_child_nodes(node), path)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """This, and all that are defined in it."""
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)


def _alike(left: CodeType, right: CodeType) -> bool:
    """The same code, on whatever lines."""
    same = ("co_code", "co_names", "co_varnames", "co_cellvars", "co_freevars", "co_flags")
    if any(getattr(left, name) != getattr(right, name) for name in same):
        return False
    if len(left.co_consts) != len(right.co_consts):
        return False
    return all(
        _alike(one, other)
        if isinstance(one, CodeType) and isinstance(other, CodeType)
        else type(one) is type(other) and repr(one) == repr(other)
        for one, other in zip(left.co_consts, right.co_consts, strict=True)
    )


# The halves


def _watched(body: Iterable[ast.stmt]) -> list[ast.stmt]:
    """Each statement, and before it a call that tells its number."""
    return [part for number, statement in enumerate(body) for part in (*ast.parse(f"{_AT}({number})").body, statement)]


def _head(first: list[ast.stmt]) -> list[ast.stmt]:
    """Returns all names that are bound then."""
    return [*first, ast.Return(value=ast.parse("locals()", mode="eval").body)]


def _tail(first: list[ast.stmt], last: list[ast.stmt], live: Iterable[str]) -> list[ast.stmt]:
    """A name that the head has not bound stays unbound; what it imported is imported again."""
    imports = [statement for statement in first if isinstance(statement, ast.Import | ast.ImportFrom)]
    handed: list[ast.stmt] = []
    for name in sorted(live):
        handed += ast.parse(f"if {name!r} in {_LIVE}: {name} = {_LIVE}[{name!r}]").body
    return [*imports, *handed, *last]


def _named(statements: Iterable[ast.stmt]) -> set[str]:
    return {part.id for statement in statements for part in ast.walk(statement) if isinstance(part, ast.Name)}


def _stored(statements: Iterable[ast.stmt]) -> set[str]:
    """Names that these bind, in whatever way, but for imports."""
    found: set[str] = set()
    for part in (part for statement in statements for part in ast.walk(statement)):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.add(part.id)
        elif isinstance(part, ast.FunctionDef | ast.ClassDef | ast.MatchAs | ast.MatchStar) and part.name:
            found.add(part.name)
        elif isinstance(part, ast.MatchMapping) and part.rest:
            found.add(part.rest)
    return found
