"""Which names a file binds, and what an import that an edit needs is called there."""

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from hotlap.source import snippet
from hotlap.source.file import Refusal


@dataclass(frozen=True, slots=True)
class Binding:
    """One name that an import statement binds."""

    name: str
    target: str
    """What it is bound to: "torch", "hotlap.data.cached"."""
    loads: str
    """Module or object that is loaded with it: "torch.utils.data" for `import torch.utils.data`."""

    def statement(self, name: str) -> str:
        """An import statement that binds it to `name`."""
        if self.loads != self.target:
            if name != self.name:
                raise Refusal(f"it uses the name {self.name} for something else, and `import {self.loads}` is needed")
            return f"import {self.loads}"
        module, _, last = self.target.rpartition(".")
        found = f"from {module} import {last}" if module else f"import {last}"
        return found if name == last else f"{found} as {name}"


def bindings(node: ast.AST) -> Iterator[Binding]:
    """The names that `node` binds if it is an import statement (those of a star import cannot be known)."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            target = alias.name if alias.asname else alias.name.split(".")[0]
            yield Binding(alias.asname or target, target, alias.name)
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            target = f"{module}.{alias.name}"
            yield Binding(alias.asname or alias.name, target, target)


def bound_behind(node: ast.stmt) -> Iterator[Binding]:
    """What is surely bound behind a statement that imports: also a `try` that ends the script where it fails."""
    if isinstance(node, ast.Try) and all(map(_ends_script, node.handlers)) and not (node.orelse or node.finalbody):
        for part in node.body:
            yield from bindings(part)
    yield from bindings(node)


def _ends_script(handler: ast.ExceptHandler) -> bool:
    match handler.body[-1]:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=function)):
            return ast.unparse(function) in ("sys.exit", "exit", "quit", "os._exit")
    return False


def needed(imports: str) -> tuple[Binding, ...]:
    """What the import statements in `imports` bind."""
    body = snippet.parse(imports).body
    assert all(isinstance(node, ast.Import | ast.ImportFrom) for node in body), imports
    return tuple(binding for node in body for binding in bindings(node))


class Names:
    """The names of one file, and the imports that edits add to it.

    `targets`: name -> what imports bind it to, anywhere in the file; "" where something else binds it. `before_line`:
    imports up to this line are done when what is inserted runs.
    """

    def __init__(self, tree: ast.Module, targets: Mapping[str, set[str]], *, before_line: int) -> None:
        self.added: dict[str, None] = {}
        """Import statements to insert, in order."""
        self._targets = {name: {*targets} for name, targets in targets.items()}
        nodes = ast.walk(tree)
        self._used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        self._imported = [found for node in tree.body if node.lineno <= before_line for found in bound_behind(node)]

    def spelled(self, imports: str) -> dict[str, str]:
        """Name in `imports` -> name for the same thing in this file, there or to be."""
        return {binding.name: self._name(binding) for binding in needed(imports)}

    def use(self, imports: str) -> None:
        """Note in `added` what the file does not import."""
        for binding in needed(imports):
            name = self._name(binding)
            if self._present(binding) is None:
                self.added[binding.statement(name)] = None
                self._imported.append(Binding(name, binding.target, binding.loads))
                self._targets.setdefault(name, set()).add(binding.target)

    def is_any(self, there: str, full_names: Collection[str]) -> bool:
        """`there`, the function of a call in this file, is surely one of these."""
        root, _, rest = there.partition(".")
        found = [f"{target}.{rest}".rstrip(".") for target in self._targets.get(root, set())]
        return bool(found) and all(any(same_object(target, name) for name in full_names) for target in found)

    def _name(self, binding: Binding) -> str:
        found = self._present(binding)
        if found is not None:
            return found
        if self._is_always(binding.name, binding.target):
            return binding.name
        name = f"hotlap_{binding.name}"
        while name in self._used or name in self._targets:
            name += "_"
        return name

    def _present(self, binding: Binding) -> str | None:
        """The name under which the file has it already."""
        if binding.loads != binding.target and not any(found.loads == binding.loads for found in self._imported):
            return None
        known = (found.name for found in self._imported if same_object(found.target, binding.target))
        return next((name for name in known if self._is_always(name, binding.target)), None)

    def _is_always(self, name: str, target: str) -> bool:
        """Wherever the file binds `name`, in any scope, it is to `target`."""
        if name not in self._targets:
            # Bound nowhere but used: it comes from a star import (or is a builtin).
            return name not in self._used
        return all(same_object(found, target) for found in self._targets[name])


def same_object(one: str, other: str) -> bool:
    """Two full names of one thing: hotlap's public names are also those of the modules that have them."""
    first, second = one.split("."), other.split(".")
    return first == second or (first[0] == second[0] == "hotlap" and first[-1] == second[-1] and first[-1] != "hotlap")


def bound(node: ast.AST) -> tuple[str, ...]:
    """Names that `node` binds (or declares, or deletes) other than by an import."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name) | ast.MatchMapping(rest=str(name)):
            return (name,)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return (node.name,)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return (name,)
    return ()
