"""The picture of step times by device."""

from hotlap.record import Interval, Prediction
from hotlap.report import devices, html


def predicted(device: str, mid: float, *, count: int = 1) -> Prediction:
    return Prediction(
        device=device, count=count, step_s=Interval(low=mid / 1.3, mid=mid, high=mid * 1.4), bound_by="memory"
    )


def test_a_faster_device_lies_further_left_and_each_is_named_with_its_count() -> None:
    found = devices.picture([predicted("slow", 0.2), predicted("fast", 0.02, count=4)])
    assert found is not None
    slow, fast = found.devices
    assert (slow.title, fast.title) == ("slow", "4 x fast")
    assert 0 < fast.low < fast.mid < fast.high < slow.low < slow.mid < slow.high < 100


def test_the_measured_step_is_a_line() -> None:
    found = devices.picture([predicted("A100", 0.1)], measured=("V100", 0.3))
    assert found is not None
    assert found.devices[0].high < found.measured_at < 100
    page = html.predictions([predicted("A100", 0.1)], title="a.py", measured=("V100", 0.3))
    assert "the measured step: 300 ms on V100." in page and 'class="measured"' in page
    without = html.predictions([predicted("A100", 0.1)], title="a.py")
    assert "measured step" not in without and 'class="measured"' not in without


def test_what_cannot_be_drawn_is_left_out() -> None:
    assert devices.picture([]) is None
    assert devices.picture([predicted("broken", float("inf"))]) is None
    found = devices.picture([predicted("broken", float("nan")), predicted("sound", 1.0)])
    assert found is not None and [one.title for one in found.devices] == ["sound"]
    assert "<circle" not in html.predictions([predicted("broken", float("inf"))], title="a.py")


def test_texts_are_escaped() -> None:
    page = html.predictions([predicted("<script>alert(1)</script>", 0.1)], title="<b>\x1b[31m", lead=["<i>"])
    assert "<script" not in page
    assert "<b>" not in page and "<i>" not in page
    assert "\x1b" not in page
