"""`hotlap tune` on a small network: the native step is taken, and does no harm."""

from pathlib import Path

import pytest

from hotlap import native
from tests.e2e.test_levers import study

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_small_network_with_all_that_scripts_put_around_a_step_runs_natively(tmp_path: Path) -> None:
    """Clipping, a scheduler, a metric and a checkpoint stay as they are."""
    if native.core().module is None:
        pytest.skip(native.core().why_not)
    found = study("small_mlp.py", tmp_path, levers="native-step", budget="420s")
    result = found["result"]
    assert [lever["name"] for lever in result["levers"]] == ["native-step"], found["trials"]
    assert result["verdict"] == "UNHARMED"
    assert result["speedup"]["low"] > 1.2
    assert "+native_steps()" in found["patch"]
