"""A statement -> what it sets, and what it reads: variables, attributes, entries of dictionaries, arguments."""

import ast
from collections.abc import Iterator

from hotlap.source.names import bindings


def settings(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """(name, what it is set to). Not a loop's variable, which is another one in each turn, nor a sum that goes on."""
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


def read(node: ast.AST) -> Iterator[str]:
    """Names, in a statement's own text: not in that of the statements within it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue
        match child:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                yield name
        yield from read(child)
