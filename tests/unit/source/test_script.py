"""What is called where in a file of the user's, by full name."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.record import Run
from hotlap.source import Script, scripts
from tests.sample_runs import run_with


def run_of(*paths: Path) -> Run:
    return replace(run_with(), sources={str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths})


def script(folder: Path, text: str) -> Script:
    path = folder / "train.py"
    path.write_text(text)
    (found,) = scripts(run_of(path))
    return found


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.nn.functional.relu(x)",
        "import torch.nn.functional\ntorch.nn.functional.relu(x)",
        "import torch.nn.functional as F\nF.relu(x)",
        "from torch.nn import functional as F\nF.relu(x)",
        "def f():\n    from torch.nn.functional import relu as r\n    return r(x)",
    ],
)
def test_a_function_is_known_by_any_name_that_an_import_gives_it(tmp_path: Path, text: str) -> None:
    assert len(list(script(tmp_path, text).calls("torch.nn.functional.relu"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "relu(x)",
        "from torch.nn.functional import relu\nrelu = mine\nrelu(x)",
        "import torch, ours as torch\ntorch.nn.functional.relu(x)",
        "import torch\ntorch.nn.functional.relu",
        "import torch\ndef f(torch): torch.nn.functional.relu(x)",
        "import torch\nfor torch in x: torch.nn.functional.relu(x)",
    ],
)
def test_what_may_be_something_else_is_not_taken_for_it(tmp_path: Path, text: str) -> None:
    assert not list(script(tmp_path, text).calls("torch.nn.functional.relu"))


def test_a_recorded_call_is_found_again_at_its_place(tmp_path: Path) -> None:
    found = script(tmp_path, "é = g(f(1),\n  f(2))\n")
    for call in found.all_calls:
        assert found.at(found.site(call, calls="f")) is call
    elsewhere = replace(found.site(found.all_calls[0], calls="f"), path="/x/other.py")
    assert found.at(elsewhere) is None


def test_a_file_that_changed_is_refused_and_one_that_is_no_python_left_out(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("f(1)\n")
    bad.write_text("def (:\n")
    assert [one.path for one in scripts(run_of(good, bad))] == [str(good)]
    run = run_of(good)
    good.write_text("f(2)\n")
    with pytest.raises(UserError, match=r"good\.py changed since"):
        scripts(run)
