"""written-out-attention: `softmax(q @ k^T) @ v` is computed step by step, and its weights pass through memory.

What it says: the product with the values, as a call of the fused operator, and the most that this could bring.
Why it is bad: the weights are a matrix of length times length for each head, which is written and read several times;
the fused kernels never write it, so that time and memory grow with the length, not with its square (Dao et al.,
FlashAttention; torch's documentation of scaled_dot_product_attention). Short sequences gain little.
Example: a transformer after a textbook; `nn.MultiheadAttention` that returns weights which nobody reads.
Risk: last bits differ, dropout draws other numbers, and the fused kernels have no second derivative.

Before:

    scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
    weights = F.softmax(scores.masked_fill(later, -math.inf), dim=-1)
    out = weights @ v

After:

    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
"""

import ast
import re
from collections.abc import Iterator

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.advice import advice, readable, replaced
from hotlap.rules.step import Change, mean_step_s, on_cpu, phase_s, share_of
from hotlap.source import Script

# Ours: a fused kernel saves a part of what it replaces.
MIN_SHARE = 0.10

# What attention that is written out consists of, beside operators that are seldom costly elsewhere.
_OPERATORS = re.compile(
    r"aten::_?(bmm|baddbmm|softmax(_backward_data)?|masked_fill|where|mul|div|add|sub|native_dropout(_backward)?|copy)_?"
)
_CASTS = ("float", "to", "type_as", "contiguous", "half", "bfloat16")
_LAST_TWO = ("-2, -1", "-1, -2", "2, 3", "3, 2")

_FUSED = "torch.nn.functional.scaled_dot_product_attention"


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """By the script's source; what it costs at most, by operators where a profiler saw them."""
    at_most_s = _at_most_s(run)
    files = readable(run)
    if share_of(run, at_most_s) < MIN_SHARE or any("create_graph" in script.text for script in files):
        return None
    for script in files:
        for change in _changes(script):
            evidence = "Attention is computed step by step; one fused call does it, if nothing else reads its weights"
            return advice(run, at_most_s, evidence, change=change)
    return None


def _at_most_s(run: Run) -> float:
    passes_s = sum(phase_s(run, phase) or 0.0 for phase in (Phase.FORWARD, Phase.BACKWARD))
    seen = run.operators
    if seen is None or not seen.operators or not seen.wall_s:
        return passes_s
    found = [one for one in seen.operators if _OPERATORS.fullmatch(one.name)]
    under_profiler = min(1.0, mean_step_s(run) / seen.wall_s) if on_cpu(run) else 1.0
    return min(passes_s, under_profiler * sum(one.self_s if on_cpu(run) else one.device_s or 0.0 for one in found))


def _changes(script: Script) -> Iterator[Change]:
    for node in ast.walk(script.tree):
        product = _factors(script, node)
        found = None if product is None else _weights(script, product[0])
        if product is not None and found is not None and isinstance(node, ast.expr):
            given, words = found
            yield replaced(script, node, f"{_FUSED}({given}, {script.code(product[1])}{words})")
        elif isinstance(node, ast.Call) and _returns_unread_weights(script, node):
            yield replaced(script, node, f"{script.code(node)[:-1].rstrip(', ')}, need_weights=False)")


def _returns_unread_weights(script: Script, call: ast.Call) -> bool:
    """`out, _ = self.attn(x, x, x)`, or `self.attn(x, x, x)[0]`, of an `nn.MultiheadAttention`."""
    match next(iter(script.around(call)), None):
        case ast.Subscript(slice=ast.Constant(value=0)) | ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name(id="_")])]):
            layers = [next(script.around(made)) for made in script.calls("torch.nn.MultiheadAttention")]
            names = {ast.unparse(one.targets[0]) for one in layers if isinstance(one, ast.Assign)}
            said = len(call.args) > 4 or any(word.arg in (None, "need_weights") for word in call.keywords)
            return ast.unparse(call.func) in names and not said
    return False


def _factors(script: Script, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """`a @ b`, however it is spelled -> (a, b)."""
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return left, right
        case ast.Call(func=function, args=[left, right]) if script.full_name(function) in ("torch.matmul", "torch.bmm"):
            return left, right
        case ast.Call(func=ast.Attribute(value=left, attr="matmul" | "bmm"), args=[right]):
            return left, right
    return None


Found = tuple[str, str]
"""("q, k", further arguments of the call)."""


def _weights(script: Script, node: ast.expr | None) -> Found | None:
    """Of a softmax, with nothing but dropout and casts behind it."""
    match node:
        case ast.Name():
            return _weights(script, _made(script, node))
        case ast.Call(func=ast.Attribute(value=inner, attr="softmax"), args=[] | [ast.UnaryOp()]):
            return _scores(script, inner) if _is_last(node) else None
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _CASTS:
            return _weights(script, inner)
        case ast.Call(func=ast.Attribute(attr=name), args=[inner, *_]) if "softmax" in name or name == "attend":
            return _scores(script, inner) if _is_last(node) else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=[inner]) if "drop" in name:
            found = _weights(script, inner)
            return found and (found[0], f"{found[1]}, dropout_p=self.{name}.p if self.training else 0.0")
    return None


def _is_last(softmax: ast.Call) -> bool:
    """Over the last dimension; a layer's was said where it was made."""
    said = [*(word.value for word in softmax.keywords if word.arg == "dim"), *softmax.args]
    return all(ast.unparse(value) == "-1" for value in said if isinstance(value, ast.Constant | ast.UnaryOp))


def _scores(script: Script, node: ast.expr | None, scale: str = "") -> Found | None:
    """Of a product of queries and keys, with a scale and a mask behind it."""
    product = None if node is None else _factors(script, node)
    if product is not None:
        return f"{script.code(product[0])}, {_turned(script, product[1])}", f", scale={scale or '1.0'}"
    found, mask = None, ""
    match node:
        case ast.Name():
            return _scores(script, _made(script, node), scale)
        case ast.Call(func=ast.Attribute(value=inner, attr="masked_fill" | "masked_fill_"), args=[where, _]):
            found, mask = _scores(script, inner, scale), f"~({script.code(where)})"
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _CASTS:
            return _scores(script, inner, scale)
        case ast.BinOp(left=inner, op=ast.Add(), right=added) if not scale:  # the kernel adds behind the scale
            found, mask = _scores(script, inner), script.code(added)
        case ast.BinOp(left=inner, op=ast.Div(), right=factor) if not scale:
            return _scores(script, inner, f"1 / ({script.code(factor)})")
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if not scale:
            return _scores(script, left, script.code(right)) or _scores(script, right, script.code(left))
    return None if found is None or "attn_mask" in found[1] else (found[0], f"{found[1]}, attn_mask={mask}")


def _turned(script: Script, node: ast.expr) -> str:
    match node:
        case ast.Attribute(value=key, attr="mT"):
            return script.code(key)
        case ast.Call(func=ast.Attribute(value=key, attr="transpose"), args=dims) if (
            ", ".join(map(ast.unparse, dims)) in _LAST_TWO
        ):
            return script.code(key)
    return f"{script.code(node)}.transpose(-2, -1)"


def _made(script: Script, name: ast.Name) -> ast.expr | None:
    """What a name was assigned last, in front of where it is read, in the same function."""
    found = [
        node
        for node in ast.walk(script.scope(name))
        if isinstance(node, ast.Assign) and node.lineno < name.lineno and ast.unparse(node.targets[0]) == name.id
    ]
    return max(found, key=lambda node: node.lineno).value if found else None
