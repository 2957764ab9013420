"""native-ode: which scripts it is for."""

from dataclasses import replace

from hotlap.levers.native import NativeOde
from tests.conformance.recorded import awkward_runs
from tests.sample_runs import machine


def test_only_a_script_that_imports_torchdiffeq_is_served() -> None:
    plain = awkward_runs()["plain"]
    assert NativeOde().rejects(plain, machine()) == "The script does not import torchdiffeq."
    with_it = replace(plain, versions={**plain.versions, "torchdiffeq": "0.2.5"})
    assert NativeOde().rejects(with_it, machine()) is None
    assert "GPU" in (NativeOde().rejects(replace(with_it, device="NVIDIA H200"), machine()) or "")
