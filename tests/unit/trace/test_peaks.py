"""What the catalogue says of a trace's GPU."""

import pytest

from hotlap.trace.peaks import known_name


@pytest.mark.parametrize(
    ("name", "units", "gigabytes", "capability", "meant"),
    [
        ("NVIDIA Graphics Device", 132, 79.1, (9, 0), "H100 SXM5 80GB"),
        ("H100", 114, 79.1, (9, 0), "H100 PCIe 80GB"),
        ("Orin", 14, 29.9, (8, 7), "Jetson AGX Orin 32GB"),
        ("NVIDIA A100-SXM4-80GB", 0, 0.0, (0, 0), "NVIDIA A100-SXM4-80GB"),
        ("Some GPU", 132, 12.0, (9, 0), "Some GPU"),
        ("Some GPU", -1, -1.0, (-1, -1), "Some GPU"),
    ],
)
def test_figures_tell_a_gpu_whose_name_does_not(
    name: str, units: int, gigabytes: float, capability: tuple[int, int], meant: str
) -> None:
    assert known_name(name, units=units, memory=gigabytes * 2**30, capability=capability) == meant
