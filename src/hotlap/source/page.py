"""The text of one file while edits are made to it, one after the other: each sees what the ones before it left."""

import ast
import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from hotlap.record import CallSite
from hotlap.source import snippet
from hotlap.source.file import Refusal, SourceFile
from hotlap.source.layout import Layout
from hotlap.source.names import Names
from hotlap.source.script import Place, Script, Span

Splice = tuple[int, int, str]
"""What is between two offsets is replaced; inserted if they are equal. A line feed stands for the file's newline."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of code or a comment, at offsets into the text."""

    start: int
    end: int
    kind: str
    """As in `token.tok_name`."""
    text: str


class Page:
    """A file's text as it is by now, and the places in it that edits are about."""

    def __init__(self, source: SourceFile, sites: Sequence[CallSite], *, behind_imports: frozenset[str] | None) -> None:
        """`behind_imports`: names that must be bound in front of what is put there; None where nothing is."""
        self._source = source
        self.script = self.recorded = _parsed(source, source.text)
        calls = {_key(site): self.script.at(site) for site in sites}
        spans = {key: self.script.span(call) for key, call in calls.items() if call is not None}
        self._spans: dict[Place, Span | None] = {**spans}
        """Where each place is by now; None once it was replaced."""
        self.layout = Layout(self.script)
        first = min((start for start, _ in spans.values()), default=len(source.text))
        places = self.layout.places(first_edit=first, names=behind_imports)
        self._place = places[0]
        self._tops = [self.layout.offset(place) for place in places]
        self.names = Names(self.script.tree, self.script.names, before_line=self.layout.last_line(places[0]))
        self.behind: dict[str, None] = {}
        """What is to be inserted behind the imports."""
        self._arguments: dict[tuple[Place, str], str] = {}

    def call(self, site: CallSite) -> ast.Call:
        """The call at `site`.

        Raises:
            Refusal: none is there, or it cannot be told which.
        """
        span = self._spans.get(_key(site), ())
        if span is None:
            raise Refusal("two changes are in each other's way")
        found = next((call for call in self.script.all_calls if self.script.span(call) == span), None)
        if found is None:
            raise Refusal(f"no single call of {site.calls} is at column {site.col + 1}")
        outer = [*self.script.around(found)]
        if any(found in getattr(node, "decorator_list", ()) for node in outer[:1]):
            # The call in `@f(x)` and the call of what it returns are at the same place.
            raise Refusal("the call is a decorator")
        if any(isinstance(node, ast.JoinedStr) for node in outer):
            # Up to CPython 3.11 some of what is in it is placed somewhere else; and quotes could end it.
            raise Refusal("the call is in an f-string")
        return found

    def settle(self, site: CallSite, keyword: str, value: str) -> None:
        """Note what an argument is to be, unless another edit wants something else."""
        wanted = self._arguments.setdefault((_key(site), keyword), value)
        if wanted != value:
            raise Refusal(f"two changes want different values, {wanted} and {value}")

    def renamed(self, code: str, imports: str) -> str:
        """`code` with the names that this file has for what `imports` bind."""
        return snippet.renamed(code, self.names.spelled(imports))

    def outer(self, value: ast.expr) -> Span:
        """Where an argument of a call is with the parentheses around it."""
        outer = next(outer for outer in self.script.around(value) if isinstance(outer, ast.Call))
        opening, *inner, _ = self.brackets(outer)
        start, end = self.script.span(value)
        if start == opening.start:  # a generator expression that has the call's own
            return inner[0].start, inner[-1].end
        before = [token for token in inner if token.end <= start]
        behind = [token for token in inner if token.start >= end]
        while before and behind and (before[-1].text, behind[0].text) == ("(", ")"):
            start, end = before.pop().start, behind.pop(0).end
        return start, end

    def brackets(self, node: ast.Call) -> list[Token]:
        """What a call ends with: from the opening bracket to the closing one, without comments."""
        found = [token for token in self.tokens(node) if token.kind not in ("NL", "COMMENT")]
        depth, index = 0, len(found)
        while depth or index == len(found):
            index -= 1
            if found[index].kind == "OP":
                depth += (found[index].text in (")", "]", "}")) - (found[index].text in ("(", "[", "{"))
        return found[index:]

    def tokens(self, node: ast.expr | ast.stmt) -> list[Token]:
        """Of a node, comments included."""
        begin, end = self.script.span(node)
        # In brackets, so that lines and margins mean nothing.
        text = "(" + re.sub("\r(?!\n)", "\n", self.script.text[begin:end]) + "\n)\n"
        starts = [begin - 1, *(begin + match.start() for match in re.finditer("\n", text))]
        found = [
            Token(starts[line - 1] + col, starts[end_line - 1] + end_col, tokenize.tok_name[kind], string)
            for kind, string, (line, col), (end_line, end_col), _ in tokenize.generate_tokens(
                io.StringIO(text).readline
            )
        ]
        return [token for token in found if begin <= token.start < end]

    def apply(self, splices: Sequence[Splice]) -> None:
        """Change the text.

        Raises:
            Refusal: it would break the file.
        """
        text, done, parts = self.script.text, 0, []
        splices = sorted(splices, key=itemgetter(0, 1))
        splices = [(start, end, new.replace("\n", self._source.newline)) for start, end, new in splices]
        for start, end, new in splices:
            parts += [text[done:start], new]
            done = end
        self.script = _parsed(self._source, "".join([*parts, text[done:]]))
        self._spans = {key: None if span is None else _moved_span(span, splices) for key, span in self._spans.items()}
        self._tops = [_moved(top, splices, begins=False) for top in self._tops]

    def finish(self) -> str:
        """The text with all that its top needs: imports, and what stands behind them."""
        self._put_on_top(1, [*self.behind], above=True, below=True)
        if self._place < 0 or self.script.text[self._tops[0] - 1] not in "\r\n":
            self._put_on_top(0, self._import(), above=False, below=self._place < 0)
            return self.script.text
        for place, line in enumerate(self._import(), self._place):
            offset, block = Layout(self.script).import_splice(place, line, self._source.path)
            self.apply([(offset, offset, block)])
        return self.script.text

    def _import(self) -> list[str]:
        """Import statements, one for each module."""
        by_module: dict[str, list[str]] = {}
        for statement in self.names.added:
            module, _, name = statement.rpartition(" import ")
            by_module.setdefault(module, []).append(name)
        lines = by_module.pop("", [])
        return lines + [f"{module} import {', '.join(sorted(names))}" for module, names in sorted(by_module.items())]

    def _put_on_top(self, place: int, lines: Sequence[str], *, above: bool, below: bool) -> None:
        """Statements with an empty line above or below them, where something is there."""
        text, offset = self.script.text, self._tops[place]
        block = "".join(f"{line}\n" for line in lines)
        if above and offset:
            block = f"\n{block}"
        if below and offset < len(text) and text[offset] not in "\r\n":
            block = f"{block}\n"
        if offset and text[offset - 1] not in "\r\n":
            block = f"\n{block}".removesuffix("\n")
        if lines:
            self.apply([(offset, offset, block)])


@lru_cache(maxsize=64)
def _parsed(source: SourceFile, text: str) -> Script:
    try:
        snippet.check(text, name=source.path)
        return Script(path=source.path, sha256=source.sha256, text=text, tree=snippet.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = "it is not" if text == source.text else "the change would not be"
        raise Refusal(f"{what} valid Python ({error})") from None


def _key(site: CallSite) -> Place:
    return site.line, site.end_line, site.col, site.end_col


def _moved_span(span: Span, splices: Sequence[Splice]) -> Span | None:
    """None where all of it was replaced."""
    if any(start <= span[0] and span[1] <= end for start, end, _ in splices):
        return None
    return _moved(span[0], splices, begins=True), _moved(span[1], splices, begins=False)


def _moved(offset: int, splices: Sequence[Splice], *, begins: bool) -> int:
    """Where it is behind the splices; what is inserted there comes in front of what begins, and behind what ends."""
    return offset + sum(
        len(new) - (end - start)
        for start, end, new in splices
        if end < offset or (end == offset and (begins or start < end))
    )
