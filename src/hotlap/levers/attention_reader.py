"""The way back from the weights of a written-out attention: what is query, key, scale, mask and dropout."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from hotlap.levers.attention_causal import hides_later
from hotlap.levers.attention_parts import (
    attribute_of,
    cast,
    enclosed,
    factors,
    is_aside,
    is_low,
    is_scalar,
    is_self,
    like,
    parts,
    text,
    turned,
)
from hotlap.source import Script

_LAST = ("-1", "dim=-1", "-1, dtype=_", "dim=-1, dtype=_")
_SOFTMAX_LAYERS = ("torch.nn.Softmax(-1)", "torch.nn.Softmax(dim=-1)")
_SOFTMAX = (
    *(f"{layer}(S)" for layer in _SOFTMAX_LAYERS),
    *(f"{softmax}(S, {dim})" for softmax in ("torch.softmax", "torch.nn.functional.softmax") for dim in _LAST),
    *(f"S.softmax({dim})" for dim in _LAST),
)
_WHERE_TO = "F.scaled_dot_product_attention"

# Longer arguments get a line of their own.
_ONE_LINE = 60

SIMPLE = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)
"""Statements that may belong to one."""


class Other(Exception):  # noqa: N818 - it says that something is no attention; it never leaves these files
    """It is written in another way."""


@dataclass(slots=True)
class Reader:
    """Reads backwards from the weights; `next` is the index of the statement that it would take next."""

    script: Script
    block: list[ast.stmt]
    next: int
    names: set[str] = field(default_factory=set)
    """Assigned on the way."""
    parts: list[ast.expr] = field(default_factory=list)
    """What the new call will evaluate."""
    query: str = ""
    key: str = ""
    scale: str = ""
    mask: str | None = None
    causal: bool = False
    """No query sees a later key, and there is no other mask."""
    dropout: str | None = None
    aside: list[tuple[ast.Assign, int]] = field(default_factory=list)
    """Statements in between that make something else, a mask say, last first: they stay, in front of the new call. And
    how many parts were known by then: those come behind them."""
    _test: str | None = None
    """Condition of the mask."""
    _masks: set[str] = field(default_factory=set)
    """Names that were read to see what the mask is."""

    def weights(self, node: ast.expr) -> None:
        """What is multiplied with the values."""
        node = self._value(node)
        if isinstance(node, ast.Call):
            scores = self._softmax(node)
            if scores is not None:
                self.scores(scores)
                return
            inner = cast(self.script, node) or self._dropout(node)
            if inner is not None:
                self.weights(inner)
                return
        raise Other

    def scores(self, node: ast.expr) -> None:
        """What the softmax is taken of."""
        node = self._value(node, scores=True)
        product = factors(self.script, node)
        if product is not None:
            self._product(*product)
            return
        match node:
            case ast.BinOp(op=ast.Mult() | ast.Div()):
                self._scaled(node)
            case ast.BinOp(op=ast.Add()):
                self._added(node)
            case ast.Call(func=ast.Attribute(value=inner, attr="masked_fill" | "masked_fill_"), args=[where, fill]):
                self._filled(where, fill)
                self.scores(inner)
            case ast.Call() if (uncast := cast(self.script, node)) is not None:
                self.scores(uncast)
            case _:
                raise Other

    def owns_its_names(self, function: ast.FunctionDef, statements: Sequence[ast.stmt], value: ast.expr) -> bool:
        """Nothing else reads what is assigned on the way, and the new call does not need it."""
        inside = {id(node) for statement in statements for node in ast.walk(statement)}
        elsewhere = {name.id for name in _names(function) if id(name) not in inside}
        in_last = [name.id for name in _names(statements[-1])]
        twice = any(in_last.count(name) > 1 for name in self.names)
        gone = self.names - _stored(statements[-1])
        alone = not (_read(*self.parts, value) & self.names) and not (gone & elsewhere) and not twice
        return alone and all(self._may_stay(*one) for one in self.aside)

    def kept(self, function: ast.FunctionDef, statements: Sequence[ast.stmt], value: ast.expr) -> list[ast.Assign]:
        """What stays in front of the new call: all but a mask that it makes needless and that nobody else reads."""
        gone = {id(node) for statement in statements for node in ast.walk(statement)}
        gone -= {id(node) for one, _ in self.aside for node in ast.walk(one.value)}
        read = _read(*self.parts, value) | {name.id for name in _names(function) if id(name) not in gone}
        needless = self._masks - read if self.causal else set()
        return [one for one, _ in reversed(self.aside) if not _stored(one) & needless]

    def _may_stay(self, aside: ast.Assign, later: int) -> bool:
        """It reads nothing that is gone then, and changes nothing that is read behind it then and was before."""
        return not (_read(aside.value) & self.names) and not (_stored(aside) & _read(*self.parts[later:]))

    def call(self, value: ast.expr) -> str:
        """The call in their place."""
        words = [self.query, self.key, text(self.script, value)]
        if self.causal:
            words.append("is_causal=True")
        elif self.mask is not None:
            words.append(f"attn_mask={self.mask}" + (f" if {self._test} else None" if self._test else ""))
        if self.dropout is not None:
            words.append(f"dropout_p={self.dropout}")
        words.append(f"scale={self.scale or '1.0'}")
        line = ", ".join(words)
        if len(line) <= _ONE_LINE:
            return f"{_WHERE_TO}({line})"
        return f"{_WHERE_TO}(\n    {line}\n)"

    # One step back

    def _value(self, node: ast.expr, *, scores: bool = False) -> ast.expr:
        """What a name was assigned just before; anything else as it is."""
        index = self._source(node.id) if isinstance(node, ast.Name) else None
        if index is None or not isinstance(node, ast.Name):
            return node
        between = self.block[index + 1 : self.next + 1]
        self.aside += [(one, len(self.parts)) for one in reversed(between) if isinstance(one, ast.Assign)]
        self.next, statement = index, self.block[index]
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == node.id:
                pass
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if name == node.id:
                value = ast.BinOp(left=ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node), op=op, right=value)
            case ast.If(test=test, body=[ast.Assign(targets=[ast.Name(id=name)], value=value)], orelse=[]) if (
                scores and name == node.id and self.mask is None
            ):
                return self._masked_if(test, node, value)
            case _:
                return node
        self.next -= 1
        self.names.add(node.id)
        return value

    def _source(self, name: str) -> int | None:
        """The statement that stores `name`: the next one back, but for some that only make something else."""
        for index in range(self.next, -1, -1):
            statement = self.block[index]
            if name in _stored(statement):
                return index
            if not is_aside(statement):
                return None
        return None

    def _made_before(self, name: str) -> ast.expr | None:
        self._masks.add(name)
        index = self._source(name)
        statement = self.block[index] if index is not None else None
        return statement.value if isinstance(statement, ast.Assign) and is_aside(statement) else None

    def _masked_if(self, test: ast.expr, name: ast.Name, value: ast.expr) -> ast.expr:
        """`if mask is not None: scores = scores.masked_fill(mask == 0, ...)` -> scores as they were before."""
        self.next -= 1
        self.names.add(name.id)
        self._pure(test)
        self._test = text(self.script, test)
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=inner), attr="masked_fill"), args=[where, fill]) if (
                inner == name.id
            ):
                self._filled(where, fill)
            case ast.BinOp(left=ast.Name(id=inner), op=ast.Add(), right=mask) if inner == name.id:
                self._add(mask)
            case _:
                raise Other
        return self._value(name, scores=True)

    def _softmax(self, call: ast.Call) -> ast.expr | None:
        """`F.softmax(x, dim=-1)` -> x; also of a layer, made here or as an attribute of `self`."""
        layer = self._made(call.func, "torch.nn.Softmax")
        if layer is not None and like(self.script, layer, *_SOFTMAX_LAYERS) is not None:
            return (like(self.script, call, "_(S)") or {}).get("S")
        return (like(self.script, call, *_SOFTMAX) or {}).get("S")

    def _dropout(self, call: ast.Call) -> ast.expr | None:
        """`self.dropout(x)` or `F.dropout(x, ...)` -> x."""
        if self.dropout is not None or not call.args:
            return None
        if self.script.full_name(call.func) == "torch.nn.functional.dropout":
            self.dropout = self._dropout_of(call)
            return call.args[0]
        if len(call.args) == 1 and not call.keywords and self._made(call.func, "torch.nn.Dropout"):
            layer = ast.unparse(call.func)
            self.dropout = f"{layer}.p if {layer}.training else 0.0"
            return call.args[0]
        return None

    def _dropout_of(self, call: ast.Call) -> str:
        given = dict(zip(("p", "training"), call.args[1:], strict=False))
        given |= {word.arg: word.value for word in call.keywords if word.arg in ("p", "training")}
        for part in given.values():
            self._pure(part)
        p = text(self.script, given["p"]) if "p" in given else "0.5"
        return f"{p} if {text(self.script, given['training'])} else 0.0" if "training" in given else p

    def _made(self, layer: ast.expr, kind: str) -> ast.Call | None:
        """Where the class makes an attribute of `self` as this kind of layer, if that is all it ever is."""
        own = self.script.class_of(layer)
        if own is None or not isinstance(layer, ast.Attribute) or not is_self(layer):
            return None
        stores = [
            node
            for node in ast.walk(own)
            if isinstance(node, ast.Attribute) and node.attr == layer.attr and isinstance(node.ctx, ast.Store)
        ]
        made = [call for call in self.script.calls(kind) if attribute_of(self.script, call) == layer.attr]
        made = [call for call in made if self.script.class_of(call) is own]
        return made[0] if len(stores) == len(made) == 1 else None

    def _scaled(self, node: ast.BinOp) -> None:
        left_is_scores = self._leads_on(node.left)
        scores, factor = (node.left, node.right) if left_is_scores else (node.right, node.left)
        divided = isinstance(node.op, ast.Div)
        if not is_scalar(self.script, factor) or (divided and not left_is_scores):
            raise Other
        self._pure(factor)
        text = enclosed(self.script, factor)
        if divided:
            text = f"1 / {text}"
        if self.scale:
            self.scale = f"({self.scale}) * ({text})"
        else:
            self.scale = text
        self.scores(scores)

    def _added(self, node: ast.BinOp) -> None:
        if self.scale:  # the kernel adds behind the scale
            raise Other
        left_is_scores = self._leads_on(node.left)
        self._add(node.right if left_is_scores else node.left)
        self.scores(node.left if left_is_scores else node.right)

    def _add(self, mask: ast.expr) -> None:
        if self.mask is not None or self.scale or any(isinstance(n, ast.Call) for n in ast.walk(mask)):
            raise Other
        self._pure(mask)
        self.mask = text(self.script, mask)

    def _filled(self, where: ast.expr, fill: ast.expr) -> None:
        if self.mask is not None or not is_low(fill):
            raise Other
        if self._test is None and hides_later(self.script, where, self._made_before):
            self.mask, self.causal = "", True
            return
        self._pure(where)
        match where:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]) if not value:
                self.mask = f"{text(self.script, left)} != {value}"
            case ast.UnaryOp(op=ast.Invert(), operand=inner):
                self.mask = text(self.script, inner)
            case _:
                self.mask = f"~{enclosed(self.script, where)}"

    def _product(self, query: ast.expr, key: ast.expr) -> None:
        self._pure(query)
        self._pure(key)
        self.query = text(self.script, query)
        inner = turned(self.script, key)
        self.key = text(self.script, inner) if inner else f"{enclosed(self.script, key)}.transpose(-2, -1)"

    def _leads_on(self, node: ast.expr) -> bool:
        """The scores come from there: they are computed there, or in the statement before."""
        if isinstance(node, ast.Name):
            return self._source(node.id) is not None
        return any(factors(self.script, part) is not None for part in ast.walk(node)) or (
            isinstance(node, ast.Call | ast.BinOp) and any(self._leads_on(part) for part in parts(node))
        )

    def _pure(self, node: ast.expr) -> None:
        """Note a part that will be evaluated, perhaps in another order."""
        if any(isinstance(part, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) for part in ast.walk(node)):
            raise Other
        self.parts.append(node)


def _names(node: ast.AST) -> list[ast.Name]:
    """Variables that are read in it."""
    return [one for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]


def _read(*nodes: ast.AST) -> set[str]:
    return {name.id for node in nodes for name in _names(node)}


def _stored(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
