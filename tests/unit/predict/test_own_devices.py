"""A user's own devices, read from a file."""

from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.predict import own_devices
from hotlap.predict.catalogue import Device, Link, resolve

OWN = """
[[device]]
name = "Dream 1"
fp32_tflops = 100
bandwidth_gbs = 2000
memory_gb = 48
tensor_tflops = 400
link = "nvswitch"
link_gbs = 900
"""


def test_a_user_adds_a_device(tmp_path: Path) -> None:
    path = tmp_path / "devices.toml"
    path.write_text(OWN)
    extra = own_devices.load(path)
    found = resolve("dream 1", extra=extra).device
    assert isinstance(found, Device)
    assert (found.fp32, found.bandwidth, found.link) == (100e12, 2000e9, Link.NVSWITCH)
    assert found.units == 260, "multiprocessors of 128 lanes at 1.5 GHz"


def test_own_devices_are_of_no_architecture_that_is_known_nor_of_each_others(tmp_path: Path) -> None:
    path = tmp_path / "devices.toml"
    path.write_text(OWN.replace("Dream 1", "cpu") + OWN.replace("Dream 1", "ada"))
    first, second = own_devices.load(path)
    assert not first.is_cpu
    assert len({first.family, second.family, resolve("RTX 4090").device.family}) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "missing required field `device`"),
        ("[[device]]\nname = 'x'\n", "missing required field `fp32_tflops`"),
        (OWN + "speed = 3\n", "unknown field `speed`"),
        (OWN.replace("= 100\n", "= 'fast'\n"), "Expected `float`, got `str`"),
        (OWN.replace("= 100\n", "= -1\n"), "Expected `float` > 0"),
        (OWN.replace("= 100\n", "= inf\n"), "Expected `float` <= "),
        (OWN.replace("nvswitch", "string"), "Invalid enum value 'string'"),
        ("[[device", "devices.toml: "),
    ],
)
def test_a_wrong_device_file_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "devices.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        own_devices.load(path)
