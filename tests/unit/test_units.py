"""Numbers as text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.units import between, count, duration, factor, num_bytes, percent, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 us"), (4.1e-5, "41.0 us"), (9.996e-4, "1.00 ms"), (2.31e-3, "2.31 ms"), (9.996e-3, "10.0 ms"),
        (0.5, "500 ms"), (0.9994, "999 ms"), (0.9996, "1.00 s"), (1, "1.00 s"), (12.345, "12.3 s"),
        (60, "1 min"), (200, "3 min 20 s"), (119.6, "2 min"), (-0.0021, "-2.10 ms"), (-200, "-3 min 20 s"),
        (math.nan, "unknown"), (math.inf, "unknown"), (3600, "1 h"), (3599.7, "1 h"),
        (47_220, "13 h 7 min"), (2_835_038, "32 d 20 h"),
    ],
)  # fmt: skip
def test_a_duration_has_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_interval_names_its_unit_once() -> None:
    ends = ((0.003, 0.0042), (0.0009, 0.0042), (70.0, 80.0))
    told = [between(duration(low), duration(high)) for low, high in ends]
    assert told == ["3.00 to 4.20 ms", "900 us to 4.20 ms", "1 min 10 s to 1 min 20 s"]


@pytest.mark.parametrize(("share", "text"), [(0, "0%"), (0.4, "40%"), (1, "100%"), (0.004, "0.4%"), (0.014, "1%")])
def test_a_share_is_shown_in_percent(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(("number", "text"), [(1, "1"), (2.52, "2.52"), (99.9, "99.9"), (2810.6, "2,811")])
def test_a_count_has_no_exponent(number: float, text: str) -> None:
    assert count(number) == text


@pytest.mark.parametrize(("ratio", "text"), [(1, "1.00x"), (2.314, "2.31x"), (99.9, "99.90x"), (123.4, "123x")])
def test_a_speed_up_is_a_factor(ratio: float, text: str) -> None:
    assert factor(ratio) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.50 KiB"),
        (3 << 20, "3.00 MiB"),
        (1 << 30, "1.00 GiB"),
        (1 << 50, "1024 TiB"),
    ],
)
def test_bytes_are_counted_in_powers_of_two(num_bytes: int, text: str) -> None:
    assert size(num_bytes) == text


@given(seconds=st.floats(1e-6, 59))
def test_what_is_shown_is_within_half_a_percent_of_the_truth(seconds: float) -> None:
    number, unit = duration(seconds).split()
    assert float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit] == pytest.approx(seconds, rel=0.0051)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4096", 4096), ("0", 0), ("500MB", 500_000_000), ("1.5 GiB", 3 << 29), ("8G", 8 << 30), ("8gb", 8_000_000_000),
        (" 2 TB ", 2 * 10**12), ("7B", 7), ("3k", 3072), ("3KiB", 3072),
        ("", None), ("GB", None), ("-1GB", None), ("1e9", None), ("80%", None), ("8 G B", None), ("8iB", None),
    ],
)  # fmt: skip
def test_a_size_is_read_in_its_unit(text: str, found: int | None) -> None:
    assert num_bytes(text) == found


@given(st.integers(0, 2**45))
def test_a_size_that_was_shown_is_read_again(value: int) -> None:
    assert num_bytes(size(value)) == pytest.approx(value, rel=0.01)
