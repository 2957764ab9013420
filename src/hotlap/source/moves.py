"""Calls that move a tensor to a device: `x.to(device)`, `x.cuda()`."""

import ast

# In names of devices; "rank" is the index of a card.
_SAYS_DEVICE = ("dev", "gpu", "cuda", "rank")
_SAYS_HOST = ("cpu", "host")


def device_of(call: ast.Call) -> str | None:
    """Where a call moves its tensor, as an expression; None if it does anything else, moves it to the CPU, or that
    cannot be told."""
    words = [word for word in call.keywords if word.arg != "non_blocking"]
    return moved_to(call) if len(call.args) + len(words) <= 1 else None


def moved_to(call: ast.Call) -> str | None:
    """As `device_of`, also where the call converts as well: `x.to(device, dtype=torch.float32)`."""
    # Behind them `non_blocking` can be given by position.
    most = {"to": 2, "cuda": 1}.get(call.func.attr, -1) if isinstance(call.func, ast.Attribute) else -1
    if len(call.args) > most or any(word.arg is None for word in call.keywords):
        return None
    given = [*(word.value for word in call.keywords if word.arg == "device"), *call.args][:1]
    if most == 1 and not given:
        return '"cuda"'
    return ast.unparse(given[0]) if given and _is_device(given[0]) else None


def _is_device(node: ast.expr) -> bool:
    """A GPU, as it is commonly written."""
    match node:
        case ast.Constant(value=str(name)) | ast.JoinedStr(values=[ast.Constant(value=str(name)), *_]):
            return not name.startswith("cpu")
        case ast.Constant(value=index):
            return type(index) is int
        case ast.Call(func=ast.Attribute(attr="device") | ast.Name(id="device"), args=[name, *_]):
            return _is_device(name)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            lower = name.lower()
            return any(part in lower for part in _SAYS_DEVICE) and not any(part in lower for part in _SAYS_HOST)
    return False
