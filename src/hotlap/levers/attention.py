"""Attention that a script writes out: `softmax(q @ k^T * scale + mask)`, dropout, `@ v`, found in its source.

Recognised backwards, from the product with the values: each name on the way must be assigned in front of the statement
that reads it, with nothing in between but assignments of something else (which stay), and be read nowhere else. So what
is found can be replaced as a whole, and what is written in any other way is left alone.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hotlap.levers.attention_parts import attribute_of, factors, is_self, text
from hotlap.levers.attention_reader import SIMPLE, Other, Reader
from hotlap.source import Script


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """One attention, written out."""

    statements: Sequence[ast.stmt]
    """Of one block, one behind the other."""
    code: str
    """What can stand in their place; `F` is torch.nn.functional."""


def written_out(script: Script) -> list[Plain]:
    """The attentions of one file, in methods and functions at the top of the file or of a class."""
    found: list[Plain] = []
    for function in _functions(script):
        for block in _blocks(function):
            for index in range(len(block)):
                attention = _at(script, function, block, index)
                if attention is not None:
                    found.append(attention)
    return found


def unused_weights(script: Script) -> list[ast.Call]:
    """Calls of `nn.MultiheadAttention` whose second result, the weights, is thrown away."""
    found = []
    for made in script.calls("torch.nn.MultiheadAttention"):
        name = attribute_of(script, made)
        for call in script.methods(name or ""):
            same_class = script.class_of(call) is script.class_of(made)
            if same_class and is_self(call.func) and _leaves_weights(script, call):
                found.append(call)
    return found


def _functions(script: Script) -> Iterator[ast.FunctionDef]:
    """Those that are within no other."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.FunctionDef):
            outer = [o for o in script.around(node) if isinstance(o, ast.FunctionDef | ast.AsyncFunctionDef)]
            if not outer:
                yield node


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _at(script: Script, function: ast.FunctionDef, block: list[ast.stmt], index: int) -> Plain | None:
    """The attention whose product with the values is in statement `index` of the block."""
    last = block[index]
    if not isinstance(last, SIMPLE):
        return None
    for node in ast.walk(last):
        product = factors(script, node)
        if product is None:
            continue
        reader = Reader(script, block, index - 1)
        try:
            reader.weights(product[0])
        except Other:
            continue
        statements = block[reader.next + 1 : index + 1]
        if reader.owns_its_names(function, statements, product[1]):
            assert isinstance(node, ast.expr)
            code = _with_call(script, last, node, reader.call(product[1]))
            kept = [text(script, one) for one in reader.kept(function, statements, product[1])]
            return Plain(statements, "\n".join([*kept, code]))
    return None


def _with_call(script: Script, statement: ast.stmt, product: ast.expr, call: str) -> str:
    """The text of a statement with `call` in place of the product, and of the parentheses around that; behind the first
    line without the margin that all of it has."""
    (begin, stop), (start, end) = script.span(statement), script.span(product)
    before, behind = script.text[begin:start], script.text[end:stop]
    while before.endswith("(") and behind.startswith(")") and not re.search(r"[\w)\]]\($", before):
        before, behind = before[:-1], behind[1:]
    margin = script.text[script.line_start(begin) : begin]
    before, behind = (part.replace("\r\n", "\n").replace(f"\n{margin}", "\n") for part in (before, behind))
    line = before.rpartition("\n")[2]
    return before + call.replace("\n", "\n" + line[: len(line) - len(line.lstrip())]) + behind


def _leaves_weights(script: Script, call: ast.Call) -> bool:
    """Only the first of the two results is used, and nothing was said about the second."""
    starred = any(isinstance(arg, ast.Starred) for arg in call.args) or any(word.arg is None for word in call.keywords)
    if starred or len(call.args) > 4 or any(word.arg == "need_weights" for word in call.keywords):
        return False
    match next(iter(script.around(call)), None):
        case ast.Subscript(slice=ast.Constant(value=0)):
            return True
        case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name(id=name)])]):
            scope = script.scope(call)
            return not any(
                isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
                for node in ast.walk(scope)
            )
    return False
