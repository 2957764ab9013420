"""The page about what programs may call names all of it, with the arguments that it takes."""

import inspect
import re
from types import ModuleType

import pytest

import hotlap
from hotlap import data, recurrent, small
from hotlap.cli import notebook
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
# A class by whose name nobody calls it, and what is raised or warned of, are named without arguments.
NAMED = ("CompiledStep", "NativeSolveSkipped", "SolveFailed", "Unsupported")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *((hotlap, name) for name in ("measure", "tune", "read_trace")),
        *((data, name) for name in data.__all__),
        *((small, name) for name in small.__all__ if name not in NAMED),
        (recurrent, "padded_recurrent"),
    ],
)
def test_the_page_has_each_call_with_its_arguments(module: ModuleType, name: str) -> None:
    called = inspect.signature(notebook.tune if name == "tune" else getattr(module, name))
    told = re.search(rf"`{re.escape(module.__name__)}\.{name}\(([^`]*)\)`", PAGE)
    assert told is not None
    plain = [one.replace(annotation=one.empty) for one in called.parameters.values()]
    assert told[1].replace('"', "'") == str(called.replace(parameters=plain, return_annotation=called.empty))[1:-1]


@pytest.mark.parametrize("name", [*hotlap.__all__[1:], *NAMED])
def test_the_page_names_what_else_is_public(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)
