"""Two versions of a script -> one of them with a mark in front of what is edited, by which a run tells that it ran.

Statements are compared, not lines: comments, docstrings, annotations of functions and layout make no edit. What is
edited must run: a statement itself; of an edited head (`def`, `if`, `for`) each block behind it as well. And of what
an edited statement sets (`FINETUNE_LR = 0.1`) a use must run, if there is one.
"""

import ast
import difflib
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass

from hotlap.source import snippet
from hotlap.source.names import bindings

_PASSED = "__hotlap_passed__"
_IMPORT = f"from hotlap.probe.marks import passed as {_PASSED}"

_Functions = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Edited:
    """Something that is edited."""

    line: int
    """In the version's own text, from 1."""
    marks: frozenset[int]
    """One of them must be passed."""
    excused: bool
    """It handles errors, or nothing in the file calls it: a training may well go without it."""


def marked(text: str, other: str) -> tuple[str, list[Edited]]:
    """`text` with a call of `hotlap.probe.marks.passed` at each mark; and what in it is not as in `other`, in order.

    What `other` alone has is seen the other way round.
    """
    tree, others = snippet.parse(text), snippet.parse(other)
    known = {pair for node in ast.walk(others) if isinstance(node, ast.stmt) for pair in _settings(node)}
    excused = {node: is_excused for node, _, is_excused in _statements(tree)}
    uses = _uses(excused)
    marks: dict[ast.stmt, int] = {}
    found: dict[Edited, None] = {}
    for node in _edited(tree, others):
        new = {*_settings(node)} - known
        if isinstance(node, ast.Import | ast.ImportFrom) and not new:
            continue  # it only moved
        reach = {*ast.walk(node if isinstance(node, _Functions) else tree)}
        must_run = [(one, [one]) for one in (node, *_firsts(node))]
        must_run += [(node, [one for one in uses.get(name, ()) if one in reach]) for name in sorted(dict(new))]
        for one, any_of in must_run:
            if any_of:
                numbers = frozenset(marks.setdefault(use, len(marks)) for use in any_of)
                found[Edited(one.lineno, numbers, excused[one])] = None
    return _with_marks(tree, marks), sorted(found, key=lambda one: one.line)


def _edited(tree: ast.Module, others: ast.Module) -> Iterator[ast.stmt]:
    ours, theirs = [*_statements(tree)], [*_statements(others)]
    before, now = ([said for _, said, _ in version] for version in (theirs, ours))
    matcher = difflib.SequenceMatcher(None, before, now, autojunk=False)
    for tag, _, _, begin, end in matcher.get_opcodes():
        if tag != "equal":
            yield from (node for node, _, _ in ours[begin:end])


def _statements(tree: ast.Module) -> Iterator[tuple[ast.stmt, str, bool]]:
    """Those that do something, in the order of the text; what each says and in which blocks; whether it is excused."""
    uncalled = _uncalled(tree)

    def within(body: list[ast.stmt], place: str, *, excused: bool) -> Iterator[tuple[ast.stmt, str, bool]]:
        for node in body:
            if not _does_nothing(node):
                yield node, place + _said(node), excused
                outer = place.removesuffix("el")  # all branches of an `if` are equally deep
                for number, block in enumerate(_blocks(node)):
                    is_elif = isinstance(node, ast.If) and number == 1 and [*map(type, block)] == [ast.If]
                    inner = f"{outer}el" if is_elif else f"{outer}{number} "
                    is_excused = excused or node in uncalled or _is_for_errors(node, block)
                    yield from within(block, inner, excused=is_excused)

    yield from within(tree.body, "", excused=False)


def _said(node: ast.stmt) -> str:
    """A statement without those within it, and a function's head without annotations."""
    own = deepcopy(node, {id(block): [] for block in _blocks(node)})  # in place of its blocks empty ones are copied
    for part in ast.walk(own):
        if isinstance(part, ast.arg):
            part.annotation = None
        elif isinstance(part, _Functions):
            part.returns = None
    return ast.unparse(own)


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    """The lists of statements within one, in the order of the text."""
    parts = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
    found = [getattr(part, "body", None) for part in parts] + [getattr(node, "orelse", None)]
    return [block for block in (*found, getattr(node, "finalbody", None)) if block]


def _firsts(node: ast.stmt) -> Iterator[ast.stmt]:
    """The first statement of each block, docstrings left out."""
    for block in _blocks(node):
        yield from [one for one in block if not _does_nothing(one)][:1]


def _does_nothing(node: ast.stmt) -> bool:
    """A docstring, `...`, or an import from the future."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _is_for_errors(node: ast.stmt, block: list[ast.stmt]) -> bool:
    """Or for type checkers. A loader's end is no error: many loops begin their next epoch there."""
    if isinstance(node, ast.If):
        return isinstance(block[-1], ast.Raise) or (block is node.body and "TYPE_CHECKING" in ast.unparse(node.test))
    handler = next((one for one in getattr(node, "handlers", ()) if one.body is block), None)
    return handler is not None and not (handler.type and "StopIteration" in ast.unparse(handler.type))


def _uncalled(tree: ast.Module) -> set[ast.stmt]:
    """Functions of the module that nothing in it speaks of."""
    nodes = [*ast.walk(tree)]
    words = {getattr(node, name, None) for node in nodes for name in ("id", "attr")}
    words |= {node.value for node in nodes if isinstance(node, ast.Constant)}
    plain = (node for node in tree.body if isinstance(node, _Functions) and not node.decorator_list)
    return {node for node in plain if node.name not in words}


def _uses(statements: Iterable[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """What is set -> the statements that read it; for the head of a function, or a condition, the first of what it
    guards, as a default, or a patience that has not run out, by itself does nothing."""
    found: dict[str, list[ast.stmt]] = {}
    for node in statements:
        decides = isinstance(node, ast.If) and not node.orelse and not _is_for_errors(node, node.body)
        reader = next(_firsts(node), node) if decides or isinstance(node, _Functions) else node
        for name in _read(node):
            found.setdefault(name, []).append(reader)
    return found


def _settings(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """(name, what it is set to): variables, attributes, entries of dictionaries, arguments. Not a loop's variable,
    which is another one in each turn, nor a sum that goes on."""
    match node:
        case ast.ClassDef(name=name, bases=bases, keywords=keywords):
            yield name, ", ".join(map(ast.unparse, (*bases, *keywords)))
        case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
            yield from _defaults(args)
        case ast.Import() | ast.ImportFrom():
            yield from ((one.name, one.loads) for one in bindings(node))
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _assigned(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _assigned(target, value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add_argument"), args=words)):
            texts = (str(word.value) for word in words if isinstance(word, ast.Constant))
            yield from ((text.lstrip("-").replace("-", "_"), ast.unparse(node)) for text in texts)


def _defaults(args: ast.arguments) -> Iterator[tuple[str, str]]:
    plain = [*args.posonlyargs, *args.args]
    without = [None] * (len(plain) - len(args.defaults))
    for one, default in zip([*plain, *args.kwonlyargs], [*without, *args.defaults, *args.kw_defaults], strict=True):
        yield one.arg, "" if default is None else ast.unparse(default)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, str]]:
    match target, value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for one, its in zip(targets, values, strict=True):
                yield from _assigned(one, its)
            return
    for part in ast.walk(target):
        match part:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, ast.unparse(value)
    for part in ast.walk(value):
        if isinstance(part, ast.keyword) and part.arg is not None:
            yield part.arg, ast.unparse(part.value)
        elif isinstance(part, ast.Dict):
            entries = zip(part.keys, part.values, strict=True)
            yield from ((str(key.value), ast.unparse(its)) for key, its in entries if isinstance(key, ast.Constant))


def _read(node: ast.AST) -> Iterator[str]:
    """Names, in a statement's own text: not in that of the statements within it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue
        match child:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                yield name
        yield from _read(child)


def _with_marks(tree: ast.Module, marks: dict[ast.stmt, int]) -> str:
    first = next((k for k, node in enumerate(tree.body) if not _does_nothing(node)), len(tree.body))
    blocks = [tree.body, *(block for node in ast.walk(tree) if isinstance(node, ast.stmt) for block in _blocks(node))]
    for block in blocks:
        for node in [node for node in block if node in marks]:
            at = block.index(node)
            block[at:at] = ast.parse(f"{_PASSED}({marks[node]})").body
    tree.body[first:first] = ast.parse(_IMPORT).body
    return ast.unparse(tree)
