"""Who may import whom (DESIGN.md section 2), read from the source; and what a fresh process really loads."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import hotlap

ROOT = Path(hotlap.__file__).parent

# Each part may import those of the layers above it, and itself.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"record", "errors", "at_work", "units", "student", "cgroups", "folders", "cuda", "native"}),
    frozenset({"source", "machine", "data", "small", "recurrent", "accelerator"}),
    frozenset({"rules", "levers", "gate", "predict"}),
    frozenset({"experiment", "probe"}),
    frozenset({"search", "trace"}),
    frozenset({"tune"}),
    frozenset({"launch"}),
    frozenset({"report"}),
    frozenset({"cli", "lab", "mcp"}),
)
LAYER_OF = {part: number for number, layer in enumerate(LAYERS) for part in layer}

# These two know everything, each other as well (DESIGN.md, section 2).
TOP = LAYERS[-1]

# Narrower than their layer: these two know the record and nothing that made it; one of them reads traces beside it.
RECORD_ONLY = {"launch": frozenset({"trace"}), "report": frozenset[str]()}

# Within the first layer these stand alone; the record raises errors, a folder may be in memory.
FIRST_LAYER = {
    **{part: frozenset[str]() for part in ("errors", "units", "student", "cgroups", "cuda", "native")},
    "record": frozenset({"errors", "units"}),
    "folders": frozenset({"cgroups"}),
}

# Torch may be imported at module level here: in the child, or on the user's own wish.
TORCH_AT_HOME = ("probe", "data", "small", "recurrent", "accelerator", "cuda")
# These run in the training process only.
TORCH_IN_THE_CHILD: tuple[str, ...] = ("predict/trace.py",)
TORCH_IN_THE_CHILD += tuple(f"machine/measure/{name}.py" for name in ("__main__", "gpu", "timing", "work"))

# The lab's work and trainings, in processes of their own.
TORCH_IN_THE_CHILD += tuple(f"lab/scripts/{name}.py" for name in ("lorenz", "mnist", "products", "transformer"))

FILES = sorted(ROOT.rglob("*.py"))


def part_of(path: Path) -> str:
    """`.../hotlap/tune/tuner.py` -> "tune"; the package's own files -> ""."""
    first = path.relative_to(ROOT).parts[0]
    return "" if first in ("__init__.py", "__main__.py") else first.removesuffix(".py")


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Full names of all that is imported, anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def imported_parts(tree: ast.AST) -> set[str]:
    """Parts of hotlap that a file imports; `import hotlap` alone (its version, its folder) is no part."""
    names = [name.split(".") for name in imported_modules(tree)]
    parts = {words[1] for words in names if words[0] == "hotlap" and len(words) > 1}
    return {part for part in parts if (ROOT / part).is_dir() or (ROOT / f"{part}.py").is_file()}


def allowed(part: str) -> frozenset[str]:
    if part in FIRST_LAYER:
        return FIRST_LAYER[part]
    if part in RECORD_ONLY:
        return LAYERS[0] | RECORD_ONLY[part]
    return frozenset().union(*LAYERS[: LAYER_OF[part]], TOP if part in TOP else ())


def at_import_time(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when a module is imported: not those in functions or under TYPE_CHECKING."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            yield from at_import_time(statement.orelse)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "orelse", "finalbody"):
                yield from at_import_time(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from at_import_time(handler.body)


def imports_torch_at_module_level(source: str) -> bool:
    statements = at_import_time(ast.parse(source).body)
    imports = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
    return any(name.split(".")[0] == "torch" for node in imports for name in imported_modules(node))


def test_a_file_imports_only_parts_of_the_layers_above_its_own() -> None:
    wrong = {}
    for path in FILES:
        part = part_of(path)
        if part:  # the package's own files hand out the public names of all parts
            assert part in LAYER_OF, f"{part} is new: say in DESIGN and here which layer it belongs to"
            wrong[str(path.relative_to(ROOT))] = imported_parts(ast.parse(path.read_text())) - {part} - allowed(part)
    assert len(wrong) > 100, "the files of the package"
    assert not {path: sorted(parts) for path, parts in wrong.items() if parts}


@pytest.mark.parametrize(("part", "other"), [("small", "data"), ("data", "small")])
def test_native_code_of_one_part_includes_nothing_of_another(part: str, other: str) -> None:
    folder = ROOT.parents[1] / "native" / part
    if not folder.is_dir():
        pytest.skip("not a checkout")
    includes = [line for path in folder.iterdir() for line in path.read_text().splitlines() if "#include" in line]
    assert includes
    assert not [line for line in includes if f"{other}/" in line]


def test_only_the_child_and_the_public_loaders_import_torch_at_module_level() -> None:
    kept = [path for path in FILES if part_of(path) not in TORCH_AT_HOME]
    loads = {path.relative_to(ROOT).as_posix() for path in kept if imports_torch_at_module_level(path.read_text())}
    assert loads <= set(TORCH_IN_THE_CHILD)


def test_the_reader_of_imports_sees_through_branches_and_spares_functions() -> None:
    assert imports_torch_at_module_level("try:\n    import torch.nn\nexcept ImportError:\n    pass\n")
    assert imports_torch_at_module_level("if True:\n    pass\nelse:\n    from torch import nn\n")
    assert imports_torch_at_module_level("class A:\n    import torch\n")
    assert not imports_torch_at_module_level("def f():\n    import torch\n")
    assert not imports_torch_at_module_level("if TYPE_CHECKING:\n    import torch\n")
    assert imported_parts(ast.parse("def f():\n    from hotlap import tune, __version__\n    import hotlap")) == {
        "tune"
    }


def test_every_folder_of_the_package_belongs_to_a_layer() -> None:
    parts = {part_of(path) for path in FILES} - {""}
    assert parts <= set(LAYER_OF)


def loaded_by(code: str) -> set[str]:
    """Top-level names in `sys.modules` of a fresh Python after `code`."""
    ending = "import json, sys; print(); print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{ending}"], capture_output=True, text=True, timeout=400, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


PARENT: tuple[str, ...] = (
    "cli",
    "gate",
    "launch",
    "levers",
    "machine",
    "record",
    "report",
    "report.html",
    "report.terminal",
)
PARENT += ("rules", "source", "source.disk", "source.edits", "experiment", "search", "tune", "data")
PARENT += ("cli.live", "cli.storage")
PARENT += ("machine.checkup", "machine.threads", "report.machine", "experiment.sweep", "cli.machine")
PARENT += (
    "predict",
    "predict.prediction",
    "cli.predict",
    "cli.traced",
    "cli.forecast_table",
)
PARENT += ("lab", "lab.result", "cli.notebook", "cli.lab")
PARENT += tuple(f"lab.{name}" for name in ("transfer", "launch_floor", "pinning", "devices", "lorenz", "transformer"))
PARENT += ("lab.checklist",)
PARENT += ("mcp.server",) if find_spec("mcp") else ()


def test_the_parent_never_loads_torch() -> None:
    modules = ", ".join(f"hotlap.{name}" for name in PARENT)
    assert "torch" not in loaded_by(f"import hotlap, {modules}")


def test_importing_hotlap_loads_nothing_but_the_standard_library() -> None:
    extra = loaded_by("import hotlap") - loaded_by("pass")
    assert extra - set(sys.stdlib_module_names) == {"hotlap"}


HEAVY = {"torch", "numpy", "scipy", "rich", "jinja2", "psutil", "msgspec"}

HELP = """
import sys
from hotlap.cli import main
try:
    main({words})
except SystemExit as done:
    assert not done.code
"""


@pytest.mark.parametrize("words", [["--help"], ["tune", "--help"], ["apply", "--help"], ["--version"]])
def test_help_loads_none_of_the_heavy_packages(words: list[str]) -> None:
    # What keeps `hotlap --help` under 0.3 s; the time itself is the machine's affair and not asserted.
    assert not loaded_by(HELP.format(words=words)) & HEAVY


def test_the_child_waits_for_torch_with_little_in_its_hands() -> None:
    loaded = loaded_by("import hotlap.probe.bootstrap")
    assert not loaded & (HEAVY - {"msgspec"})


@pytest.mark.processes
def test_the_child_never_loads_what_only_the_parent_needs() -> None:
    # What torch itself has loaded is taken out of the list.
    mark = "import sys, torch, psutil; before = set(sys.modules)"
    forget = "[sys.modules.pop(name) for name in before - {'json', 'sys'}]"
    loaded = loaded_by(f"{mark}\nfrom hotlap.probe import hooks, session\n{forget}")
    assert "hotlap" in loaded
    assert not loaded & {"rich", "jinja2", "scipy"}


def test_what_runs_first_in_every_python_is_under_version_control() -> None:
    # An ignored folder name (`site/`) once kept it out of every clone, and nothing else noticed.
    checkout = ROOT.parents[1]
    if not (checkout / ".git").exists():
        pytest.skip("not a git checkout")
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *(str(path) for path in package_files())],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ignored.stdout == ""


def package_files() -> list[Path]:
    """All files of the package but the compiled ones."""
    return [path for path in sorted(ROOT.rglob("*")) if _is_source(path)]


def _is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
