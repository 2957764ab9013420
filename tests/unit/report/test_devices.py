"""The picture of step times by device."""

import re

import pytest

from hotlap.record import Interval, Prediction
from hotlap.report import devices


def predicted(device: str, mid: float, *, count: int = 1) -> Prediction:
    return Prediction(
        device=device, count=count, step_s=Interval(low=mid / 1.3, mid=mid, high=mid * 1.4), bound_by="memory"
    )


def places(svg: str) -> list[float]:
    return [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', svg)]


def test_a_faster_device_lies_further_left() -> None:
    svg = devices.plot([predicted("slow", 0.2), predicted("fast", 0.02)])
    slow, fast = places(svg)
    assert fast < slow


def test_every_prediction_is_named_with_its_count() -> None:
    svg = devices.plot([predicted("RTX 4090", 0.1), predicted("RTX 4090", 0.11, count=4)])
    assert ">RTX 4090<" in svg
    assert ">4 x RTX 4090<" in svg


def test_the_measured_step_is_a_line() -> None:
    svg = devices.plot([predicted("A100", 0.1)], measured=("V100", 0.3))
    assert "300 ms on V100" in svg
    assert "stroke-dasharray" in svg


@pytest.mark.parametrize("measured_s", [0.001, 0.1, 10.0])
def test_a_long_name_of_the_measured_device_stays_in_the_picture(measured_s: float) -> None:
    """Seven units a letter at most, in a picture of known width."""
    name = "AMD Ryzen Threadripper PRO 7995WX 96-Cores"
    svg = devices.plot([predicted("A100", 0.1)], measured=(name, measured_s))
    found = re.search(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="(\w+)" fill="#c60">([^<]+)', svg)
    width = re.search(r'width="(\d+)"', svg)
    assert found and width
    x, length = float(found[1]), 7 * len(found[3])
    left = {"start": x, "end": x - length}[found[2]]
    assert left >= 0 and left + length <= int(width[1])


def test_what_cannot_be_drawn_is_left_out() -> None:
    assert devices.plot([]) == ""
    assert devices.plot([predicted("broken", float("inf"))]) == ""
    assert len(places(devices.plot([predicted("broken", float("nan")), predicted("sound", 1.0)]))) == 1


def test_texts_are_escaped() -> None:
    page = devices.page([predicted("<script>alert(1)</script>", 0.1)], title="<b>\x1b[31m")
    assert "<script" not in page
    assert "<b>" not in page
    assert "\x1b" not in page
