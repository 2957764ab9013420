"""Edits of a call's arguments -> splices."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import libcst as cst

from hotlap.source import snippet
from hotlap.source.edits import AddArgument, WrapArgument
from hotlap.source.file import Refusal
from hotlap.source.names import Names, any_same
from hotlap.source.splices import Rank, Splice, insert
from hotlap.source.tree import Tree

# In `{**x}` these need no parentheses around them.
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Dict)


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """A function that is to stand around an argument."""

    name: str
    """As it is written in this file."""
    targets: frozenset[str]
    """Its full name."""
    arguments: str
    """What it is given besides."""


@dataclass(slots=True)
class Arguments:
    """What is to become of the arguments of the calls in one file."""

    tree: Tree
    _appended: dict[cst.Call, dict[str, str]] = field(default_factory=dict)
    """New keywords of a call, with their values."""
    _merged: dict[cst.BaseExpression, dict[str, str]] = field(default_factory=dict)
    """New items of what is given as `**`, which may hold these keywords already."""
    _replaced: dict[cst.BaseExpression, str] = field(default_factory=dict)
    _wrapped: dict[cst.BaseExpression, list[_Wrapper]] = field(default_factory=dict)
    """Functions around an argument, the innermost first."""

    def add(self, edit: AddArgument, call: cst.Call, names: Names) -> None:
        """Plan an `AddArgument`."""
        if not edit.keyword.isidentifier() or not snippet.is_value(edit.value):
            raise ValueError(f"not a keyword and a value: {edit.keyword}={edit.value!r}")
        edit = replace(edit, value=snippet.renamed(edit.value, names.use(edit.imports)))
        present = next((arg.value for arg in call.args if arg.keyword and arg.keyword.value == edit.keyword), None)
        unknown = []
        for value in [arg.value for arg in call.args if arg.star == "**"]:
            items = _literal(value)
            if items is None:
                unknown.append(value)
            elif edit.keyword in items:
                present = items[edit.keyword]
        if present is not None:
            self._replace(present, edit.value)
        elif not unknown:
            _settle(self._appended.setdefault(call, {}), edit)
        elif len(unknown) == 1:
            self._merge(unknown[0], edit)
        else:
            raise Refusal(f"more than one ** argument of this call may hold {edit.keyword}")

    def wrap(self, edit: WrapArgument, call: cst.Call, names: Names) -> None:
        """Plan a `WrapArgument`."""
        value = inner = _argument(edit, call)
        function = snippet.renamed(edit.function, names.spelled(edit.imports))
        while isinstance(inner, cst.Call):
            if names.agree(self.tree.code(inner.func), function, imports=edit.imports):
                return
            stays_around = value is inner and names.is_any(self.tree.code(inner.func), edit.inside)
            if not inner.args or inner.args[0].keyword or inner.args[0].star:
                break
            if len(inner.args) != 1 and not stays_around:
                break
            inner = inner.args[0].value  # another function may stand around it
            value = inner if stays_around else value
        names.use(edit.imports)
        wrapper = _Wrapper(function, frozenset(names.targets(function)), edit.arguments)
        planned = self._wrapped.setdefault(value, [])
        if all(other.name != wrapper.name for other in planned):
            around = (k for k, other in enumerate(planned) if any_same(other.targets, edit.inside))
            planned.insert(next(around, len(planned)), wrapper)

    def splices(self) -> Iterator[Splice]:
        """All that was planned."""
        text = self.tree.source.text
        for value, new in self._replaced.items():
            start, end = self.tree.span(value)
            if text[start:end] != new:
                yield Splice(start, end, new)
        for value, wrappers in self._wrapped.items():
            start, end = self.tree.outer(value)
            yield insert(start, "".join(f"{wrapper.name}(" for wrapper in reversed(wrappers)), Rank.WRAP)
            behind = (f", {wrapper.arguments})" if wrapper.arguments else ")" for wrapper in wrappers)
            yield insert(end, "".join(behind), Rank.WRAP_END)
        for value, items in self._merged.items():
            yield from self._merge_splices(value, items)
        for call, keywords in self._appended.items():
            yield from self._append_splices(call, [f"{keyword}={new}" for keyword, new in keywords.items()])

    def _replace(self, present: cst.BaseExpression, value: str) -> None:
        if snippet.same(self.tree.code(present), value):
            value = self.tree.code(present)
        if self._replaced.setdefault(present, value) != value:
            raise Refusal(f"two changes want different values, {self._replaced[present]} and {value}")

    def _merge(self, value: cst.BaseExpression, edit: AddArgument) -> None:
        last = _last_item(value, edit.keyword)
        if last is not None:
            self._replace(last, edit.value)
        else:
            _settle(self._merged.setdefault(value, {}), edit)

    def _merge_splices(self, value: cst.BaseExpression, items: dict[str, str]) -> Iterator[Splice]:
        """`**x` -> `**{**x, "k": v}`; a display is added to."""
        new = "".join(f', "{keyword}": {item}' for keyword, item in items.items())
        if isinstance(value, cst.Dict):
            yield insert(self.tree.outer(value.elements[-1].value)[1], new, Rank.APPEND)
            return
        start, end = self.tree.outer(value)
        bare = not value.lpar and not isinstance(value, _ATOMS)
        yield insert(start, "{**(" if bare else "{**", Rank.PARENTHESIS)
        yield insert(end, f"){new}}}" if bare else f"{new}}}", Rank.APPEND)

    def _append_splices(self, call: cst.Call, new: list[str]) -> Iterator[Splice]:
        if not call.args:
            space = len(self.tree.module.code_for_node(call.whitespace_before_args))
            yield insert(self.tree.span(call)[1] - 1 - space, ", ".join(new), Rank.APPEND)
            return
        last = call.args[-1]
        end = self.tree.outer(last.value)[1]
        if isinstance(last.value, cst.GeneratorExp) and not last.value.lpar:
            yield insert(self.tree.outer(last.value)[0], "(", Rank.PARENTHESIS)
            yield insert(end, ")", Rank.PARENTHESIS_END)
        margin = self._margin(call, last)
        if margin is None:
            yield insert(end, "".join(f", {part}" for part in new), Rank.APPEND)
        else:
            yield from self._append_lines(last, [f"\n{margin}{part}" for part in new])

    def _append_lines(self, last: cst.Arg, new: list[str]) -> Iterator[Splice]:
        """Behind an argument that has its own line: each new one on its own line, below a comment on that line."""
        source = self.tree.source
        end = self.tree.outer(last.value)[1]
        comma = isinstance(last.comma, cst.Comma)
        behind = source.text.index(",", end) + 1 if comma else end
        line_end = source.line_end(behind)
        rest = source.text[behind:line_end].strip()
        if rest and not rest.startswith("#"):
            # The closing bracket is on the same line: behind the value, so that a trailing comma stays one.
            yield insert(end, "".join(f",{line}" for line in new), Rank.APPEND)
        elif comma:
            yield insert(line_end, "".join(f"{line}," for line in new), Rank.APPEND)
        elif rest:
            yield insert(end, ",", Rank.APPEND)
            yield insert(line_end, ",".join(new), Rank.APPEND)
        else:
            yield insert(end, "".join(f",{line}" for line in new), Rank.APPEND)

    def _margin(self, call: cst.Call, last: cst.Arg) -> str | None:
        """The space in front of an argument that begins a line; None if something else begins it."""
        source = self.tree.source
        start = self.tree.outer(last)[0]
        line = source.position(start)[0]
        margin = source.text[source.starts[line - 1] : start]
        return margin if not margin.strip() and line > source.position(self.tree.span(call)[0])[0] else None


def _argument(edit: WrapArgument, call: cst.Call) -> cst.BaseExpression:
    """The argument that is to be wrapped."""
    for arg in call.args:
        if arg.keyword and arg.keyword.value == edit.keyword:
            return arg.value
    for index, arg in enumerate(call.args):
        if arg.star or arg.keyword:
            break
        if index == edit.position:
            return arg.value
    stars = next((arg.star for arg in call.args if arg.star), None)
    where = f"; it may be in the {stars} argument" if stars else ""
    raise Refusal(f"the call has no argument {edit.keyword} to be seen{where}")


def _settle(planned: dict[str, str], edit: AddArgument) -> None:
    """Note the new value of a keyword, unless another edit wants another one."""
    if planned.setdefault(edit.keyword, edit.value) != edit.value:
        raise Refusal(f"two changes want different values, {planned[edit.keyword]} and {edit.value}")


def _literal(value: cst.BaseExpression) -> dict[str, cst.BaseExpression] | None:
    """The items of a dict display whose keys are all written out; None for anything else."""
    if not isinstance(value, cst.Dict):
        return None
    items: dict[str, cst.BaseExpression] = {}
    for element in value.elements:
        key = element.key if isinstance(element, cst.DictElement) else None
        if not isinstance(key, cst.SimpleString) or not isinstance(key.evaluated_value, str):
            return None
        items[key.evaluated_value] = element.value
    return items


def _last_item(value: cst.BaseExpression, keyword: str) -> cst.BaseExpression | None:
    """What a dict display surely holds for `keyword`: written out behind all that cannot be known."""
    if not isinstance(value, cst.Dict):
        return None
    for element in reversed(value.elements):
        key = element.key if isinstance(element, cst.DictElement) else None
        if not isinstance(key, cst.SimpleString):
            return None
        if key.evaluated_value == keyword:
            return element.value
    return None
