"""Calls that move a tensor to a device: `x.to(device)`, `x.cuda()`."""

import ast


def device_of(call: ast.Call) -> str | None:
    """Where a call moves its tensor, as an expression; None if it does anything else, moves it to the CPU, or that
    cannot be told."""
    words = [word for word in call.keywords if word.arg != "non_blocking"]
    given = [*call.args, *(word.value for word in words)]
    if any(word.arg != "device" for word in words):
        return None
    match call.func, given:
        case ast.Attribute(attr="cuda"), []:
            return '"cuda"'
        case ast.Attribute(attr="to"), [ast.Constant(value="cpu")]:
            return None
        case ast.Attribute(attr="to"), [ast.Constant(value=str()) | ast.Attribute(attr="device")]:
            return ast.unparse(given[0])
        case ast.Attribute(attr="to"), [ast.Name(id=name) | ast.Attribute(attr=name)] if "dev" in name.lower():
            return ast.unparse(given[0])
    return None
