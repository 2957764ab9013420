"""`hotlap machine` as a user types it, on this machine."""

from pathlib import Path

import pytest

from hotlap.record import Checkup, Weight, decode
from tests.e2e.running import hotlap

pytestmark = pytest.mark.e2e


def test_the_machine_is_measured_or_it_is_said_why_not(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    # A user's file of this name must not get into the measuring process.
    (home / "torch.py").write_text("raise SystemExit('shadowed')\n")
    first = hotlap("machine", "--quick", "--json", "-", cwd=home)
    assert first.returncode == 0, first.stderr
    assert "measuring the machine" in first.stderr
    found = decode(first.stdout.encode(), Checkup)
    assert {figure.name for figure in found.figures} >= {
        "matmul",
        "read",
        "copy",
        "triad",
        "operator",
        "operator-autograd",
        "launch",
    }
    for figure in found.figures:
        assert 0 < figure.value.low <= figure.value.mid <= figure.value.high, figure
    assert found.quick and found.torch is not None
    assert all(complaint.weight in Weight for complaint in found.complaints)
    assert {path.name for path in home.iterdir()} == {"torch.py"}

    refused = hotlap("machine", "--quick", "--json", str(tmp_path / "no" / "such.json"), cwd=home)
    assert refused.returncode == 2
    assert "cannot be written" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.gpu
def test_each_gpu_has_its_figures(tmp_path: Path) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    done = hotlap("machine", "--quick", "--json", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = decode(done.stdout.encode(), Checkup)
    assert found.torch is not None and len(found.torch.devices) == torch.cuda.device_count()
    assert not [note for note in found.notes if "ended early" in note]
    for number in range(torch.cuda.device_count()):
        names = {f.name for f in found.figures if f.device == f"cuda:{number}"}
        assert names >= {"matmul", "read", "copy", "triad", "operator", "launch", "to-device", "to-host"}
