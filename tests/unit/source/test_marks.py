"""What of an edit must run, statement by statement, and that a marked text does what it did."""

import ast
import re
from collections.abc import Callable

import pytest

from hotlap.source.marks import marked

SCRIPT = '''\
"""Trains."""
from __future__ import annotations

import json

RATE, FINETUNE_RATE = 0.1, 0.01


def step(rate: float) -> None:
    """One."""
    print(rate)


def finetune(rate=FINETUNE_RATE):
    for epoch in range(2):
        step(rate)


for epoch in range(5):
    step(RATE)
    if epoch == 3: step(0.0)
    elif epoch > 100:
        raise ValueError(epoch)
    try:
        pass
    except StopIteration:
        loader = []
    except OSError:
        print("no file")
if epoch > 9:
    finetune()
    json.dumps(epoch)


def helper():
    return 1
'''


def unseen(old: str, new: str, *, script: str = SCRIPT) -> list[tuple[str, bool]]:
    """Runs the script with `new` for `old`; (line, excused) of each edit that had no part."""
    assert script.count(old) == 1
    edited = script.replace(old, new)
    text, found = marked(edited, script)
    passed: set[int] = set()
    code = text.replace("from hotlap.probe.marks import passed as __hotlap_passed__", "")
    exec(code, {"__hotlap_passed__": passed.add, "print": lambda *_: None})
    lines = edited.splitlines()
    return [(lines[one.line - 1].strip(), one.excused) for one in found if one.marks.isdisjoint(passed)]


def line_of(text: str) -> int:
    return next(k for k, line in enumerate(SCRIPT.splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    print(rate)", "    print(2 * rate)"),
        ("RATE, FINETUNE_RATE = 0.1, 0.01\n", "RATE, FINETUNE_RATE = 0.1, 0.01\nOTHER = 2\n"),
        ("range(5)", "range(6)"),
        ("step(0.0)", "step(1.0)"),
        ("epoch == 3", "epoch == 2"),
    ],
)
def test_an_edit_that_runs_has_its_part(old: str, new: str) -> None:
    assert unseen(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("    json.dumps(epoch)", "    json.dumps(None)", ["json.dumps(None)"]),
        ("        step(rate)", "        step(2 * rate)", ["step(2 * rate)"]),
        # Its argument, and its body.
        ("rate=FINETUNE_RATE", "rate=1.0", ["def finetune(rate=1.0):", "for epoch in range(2):"]),
        ("0.1, 0.01", "0.1, 1.0", ["RATE, FINETUNE_RATE = 0.1, 1.0"]),
        ("import json", "import ast as json", ["import ast as json"]),
        ("epoch > 9", "epoch > 8", ["finetune()"]),
        ("epoch == 3", "epoch == 30", ["if epoch == 30: step(0.0)"]),
        ("loader = []", "loader = [1]", ["loader = [1]"]),
    ],
)
def test_an_edit_of_what_does_not_run_is_told(old: str, new: str, lines: list[str]) -> None:
    assert unseen(old, new) == [(line, False) for line in lines]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("raise ValueError(epoch)", "raise KeyError(epoch)", "raise KeyError(epoch)"),
        ('print("no file")', "print(0)", "print(0)"),
        ("return 1", "return 2", "return 2"),
    ],
)
def test_error_paths_and_what_nothing_calls_are_excused(old: str, new: str, line: str) -> None:
    assert unseen(old, new) == [(line, True)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    finetune()", "    finetune()  # later"),
        ("One.", "Two.\n    And more."),
        ("rate: float", "rate: int"),
        ("    if epoch == 3: step(0.0)", "    if epoch == 3:\n\n        step(\n            0.0,\n        )"),
        ('    """One."""\n', ""),
        ("    print(rate)", '    "Another text."\n    print(rate)'),
    ],
)
def test_comments_docstrings_annotations_and_layout_are_no_edit(old: str, new: str) -> None:
    assert SCRIPT.count(old) == 1
    edited = SCRIPT.replace(old, new)
    assert marked(edited, SCRIPT)[1] == marked(SCRIPT, edited)[1] == []


def test_what_one_version_alone_has_is_marked_there() -> None:
    shorter = SCRIPT.replace("    json.dumps(epoch)\n", "")
    assert marked(shorter, SCRIPT)[1] == []
    assert [one.line for one in marked(SCRIPT, shorter)[1]] == [line_of("json.dumps")]


def test_what_is_moved_into_another_block_is_edited() -> None:
    dedented = SCRIPT.replace("    json.dumps(epoch)", "json.dumps(epoch)")
    assert [one.line for one in marked(dedented, SCRIPT)[1]] == [line_of("json.dumps")]


BRANCHES = "if a:\n    b()\nelif c:\n    d()\nelse:\n    if e:\n        f()\n    g()\n"


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("elif c", "if c", [3, 4, 6]),
        ("    g()", "g()", [6, 7, 8]),
        ("elif c", "elif h:\n    i()\nelif c", [3, 4, 5]),
    ],
)
def test_branches_are_not_statements_behind_each_other(old: str, new: str, lines: list[int]) -> None:
    _, found = marked(BRANCHES.replace(old, new), BRANCHES)
    assert [one.line for one in found] == lines


def test_options_of_the_command_line_and_attributes_must_be_used() -> None:
    text = "p.add_argument('--late-rate', default=0.1)\nself.late = 1\nif False:\n    f(a.late_rate, self.late)\n"
    _, found = marked(text, text.replace("0.1", "0.2").replace("= 1", "= 2"))
    assert [(one.line, len(one.marks)) for one in found] == [(1, 1), (1, 1), (2, 1), (2, 1)]


EARLY_AND_LATE = """\
early, late = 1, 1
c = dict(early=1, late=1)
d = {"early": 1, "late": 1}


def main(early=1, *, late=1):
    print(early)
    if early > 9:
        print(late)


print(early, c["early"], d["early"])
main()
if early > 9:
    print(late, c["late"], d["late"])
"""


@pytest.mark.parametrize("line", [1, 2, 3, 6])
def test_of_several_settings_those_that_are_edited_must_be_used(line: int) -> None:
    before = EARLY_AND_LATE.splitlines()
    first, second = (found.start() for found in re.finditer("1", before[line - 1]))
    for at, seen in ((first, True), (second, False)):
        edited = before[line - 1][:at] + "2" + before[line - 1][at + 1 :]
        missed = unseen(before[line - 1], edited, script=EARLY_AND_LATE)
        assert missed == ([] if seen else [(edited, False)])


def test_imports_that_only_moved_are_no_edit() -> None:
    assert marked("import b\nimport a\n", "import a, b\n")[1] == []
    assert [one.line for one in marked("import c\n", "import a\n")[1]] == [1]


@pytest.mark.parametrize("first", ['"""Doc."""\n', "", "from __future__ import annotations\n"])
def test_marks_stand_behind_the_head_of_the_file(first: str) -> None:
    text, _ = marked(f"{first}x = 1\n", f"{first}x = 2\n")
    compile(text, "x.py", "exec")
    assert ast.get_docstring(ast.parse(text)) == ("Doc." if "Doc" in first else None)


def test_a_file_may_be_all_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCHDYNAMO_DISABLE", "PYTORCH_JIT", "NUMBA_DISABLE_JIT"):
        monkeypatch.setenv(name, "")  # what importing the marks sets is gone behind this test
    run: Callable[..., None] = exec
    run(compile(marked('"""Doc."""\n', "x = 1\n")[0], "x.py", "exec"), {})


PATIENT = """waited, PATIENCE, LIMIT = 0, 4, 9
for epoch in range(3):
    waited += 1
    if waited > LIMIT:
        raise ValueError(epoch)
    if waited >= PATIENCE:
        break
"""


@pytest.mark.parametrize(("now", "has_part"), [(5, False), (3, True)])
def test_of_a_setting_that_a_condition_reads_what_that_guards_must_run(now: int, has_part: bool) -> None:
    told = unseen("0, 4, 9", f"0, {now}, 9", script=PATIENT)
    assert told == ([] if has_part else [(f"waited, PATIENCE, LIMIT = 0, {now}, 9", False)])


def test_of_a_setting_that_guards_against_errors_the_guard_must_run() -> None:
    assert unseen("0, 4, 9", "0, 4, 8", script=PATIENT) == []
