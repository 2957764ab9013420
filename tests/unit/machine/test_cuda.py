"""Which code runs on which GPU."""

import pytest

from hotlap.machine import cuda


@pytest.mark.parametrize(
    ("arch", "capability", "how"),
    [
        ("sm_80", (8, 0), "binary"),
        ("sm_80", (8, 6), "binary"),
        ("sm_86", (8, 0), None),
        ("sm_80", (9, 0), None),
        ("compute_80", (9, 0), "compiled"),
        ("compute_90", (8, 0), None),
        ("sm_90a", (9, 0), "binary"),
        ("sm_100a", (10, 3), None),
        ("sm_100f", (10, 3), "binary"),
        ("sm_120", (12, 0), "binary"),
        ("gfx942", (9, 4), None),
    ],
)
def test_how_code_runs(arch: str, capability: tuple[int, int], how: str | None) -> None:
    assert cuda.runs(arch, capability) == how


@pytest.mark.parametrize(
    ("text", "numbers"), [("550.54.15", (550, 54)), ("12", (12, 0)), ("2.13.0+cpu", (2, 13)), ("", None), (None, None)]
)
def test_versions(text: str | None, numbers: tuple[int, int] | None) -> None:
    assert cuda.version(text) == numbers
