"""patch(): whatever the script looks like, the result parses, does what was asked, and leaves the rest alone."""

import ast
import io
import re
import shutil
import subprocess
import tempfile
import tokenize
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.source import AddArgument, CannotEdit, Edit, WrapArgument, WrapStatement, file, patch
from tests.edits.sites import sites

FORMS = ("{0}", "é = {0}", "r = ({0}).sum()", "r += {0} + {1}", "r = [{0} for s in t]", "r = other({0})")
SUITES = ("{0}", "if u: {0}", "if u:\n    # deep\n    {0}  # é", "for v in w:\n\t{0}", "{0};")
HEADER = 'with torch.autocast("cpu")'

values = st.sampled_from(
    ["a", "(b)", "[c, d]", "e + 1", "'é'", "g if h else i", "[j for k in l]", "{'m': 1}", '"""n\n  o"""', "other(p)"]
)
gaps = st.sampled_from(["", " ", "\n", "\n        ", "  # a word, 'é'\n    "])
commas = st.sampled_from([",", " ,", ", ", ",\n      ", ",  # \u2192\n  "])


@st.composite
def calls(draw: st.DrawFn) -> str:
    """`call(...)`, spread over lines in some way."""
    parts = [draw(values)]
    parts += [f"{name}={draw(values)}" for name in draw(st.lists(st.sampled_from("xyz"), unique=True, max_size=2))]
    text = parts[0] + "".join(draw(commas) + part for part in parts[1:])
    end = draw(st.sampled_from(["", ","]))
    owner = draw(st.sampled_from(["", "some.", "(thing).", "made()\n   ."]))
    call = f"{owner}call({draw(gaps)}{text}{end}{draw(gaps)})"
    return f"({call})" if owner.endswith("\n   .") else call


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A simple statement with one or two calls."""
    form = draw(st.sampled_from(FORMS))
    return form.format(draw(calls()), draw(calls()))


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """A module of such statements, with any line ending."""
    lines = ["import torch", "", "# what follows was drawn"]
    for _ in range(draw(st.integers(1, 3))):
        some = "; ".join(draw(st.lists(statements(), min_size=1, max_size=2)))
        suite = draw(st.sampled_from(SUITES))
        lines += suite.format(some).split("\n") + draw(st.sampled_from([[], [""], ["é = 1  # between"]]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines) + draw(st.sampled_from(["", end]))


class _Asked(ast.NodeTransformer):
    """The same edits made on the syntax tree, where they are easy."""

    def __init__(self, *, add: bool, wrap: bool, suffix: bool) -> None:
        self.add, self.wrap, self.suffix = add, wrap, suffix

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if ast.unparse(node.func).rpartition(".")[2] != "call":
            return node
        if self.add:
            node.keywords.append(ast.keyword("fused", ast.Constant(value=True)))
        if self.wrap:
            node.args[0] = ast.Call(ast.Name("cached", ast.Load()), [node.args[0]], [])
        return ast.Call(ast.Attribute(node, "float", ast.Load()), [], []) if self.suffix else node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        wraps = self.suffix and isinstance(node, ast.Expr | ast.Assign | ast.AugAssign)
        before = ast.dump(node)
        super().generic_visit(node)
        if wraps and ast.dump(node) != before and "'call'" in before:
            (statement,) = ast.parse(f"{HEADER}:\n pass").body
            assert isinstance(statement, ast.With) and isinstance(node, ast.stmt)
            statement.body = [node]
            return statement
        return node


def comments(text: str) -> list[str]:
    """All comments, in order."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def edits_for(text: str, path: Path, *, add: bool, wrap: bool, suffix: bool) -> list[Edit]:
    edits: list[Edit] = []
    for site in sites(text, "call", path=str(path), data=path.read_bytes()):
        if add:
            edits.append(AddArgument(site=site, keyword="fused", value="True"))
        if wrap:
            imports = "from hotlap.data import cached"
            edits.append(WrapArgument(site=site, position=0, keyword="data", function="cached", imports=imports))
        if suffix:
            edits.append(WrapStatement(site=site, header=HEADER, suffix=".float()", imports="import torch"))
    return edits


@settings(max_examples=60)
@given(text=scripts(), add=st.booleans(), wrap=st.booleans(), suffix=st.booleans(), shuffle=st.randoms())
def test_does_what_was_asked_and_nothing_else(text: str, add: bool, wrap: bool, suffix: bool, shuffle: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_bytes(text.encode())
        edits = edits_for(text, path, add=add, wrap=wrap, suffix=suffix)
        shuffle.shuffle(edits)
        try:
            patched = patch(edits, root=Path(folder))
        except CannotEdit as refusal:
            assert suffix and "no line of its own" in str(refusal) and re.search(r"; |: ", text)
            return
        new = patched.texts.get(str(path), text)
        asked = _Asked(add=add, wrap=wrap, suffix=suffix).visit(ast.parse(text))
        if wrap:
            asked.body[1:1] = ast.parse("from hotlap.data import cached").body
        assert ast.dump(ast.parse(new)) == ast.dump(asked)
        assert comments(new) == comments(text)
        assert new.count("\r") == (new.count("\n") if "\r" in text else 0)
        assert new.endswith("\n") == text.endswith("\n")
        # What is between the calls stays where it is, space included.
        kept = [line for line in text.split("\n") if "between" in line or "drawn" in line]
        assert [line for line in new.split("\n") if "between" in line or "drawn" in line] == kept
        assert patched.diff == file.unified(text, new, label="train.py")
        # Once more on the result: all of it is there.
        path.write_bytes(new.encode())
        again = edits_for(new, path, add=add, wrap=wrap, suffix=suffix)
        assert patch(again, root=Path(folder)).diff == ""


pieces = st.lists(
    st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "\r", "\x0c", "--- d\n", "+++ e\n", "@@\n", "\\ f\n", "é"])
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=25)
@given(old=pieces.map("".join), new=pieces.map("".join))
def test_git_applies_a_diff_and_takes_it_back(old: str, new: str) -> None:
    made = file.unified(old, new, label="x.py")
    assert (made == "") == (old == new)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.py"
        path.write_bytes(old.encode())
        for reverse, text in (([], new), (["-R"], old)):
            if made:
                subprocess.run(["git", "apply", *reverse, "-"], input=made.encode(), cwd=folder, check=True)
            assert path.read_bytes() == text.encode()
