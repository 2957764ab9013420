"""Names of devices, and what is said about them."""

import csv
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.predict.catalogue import devices, facts, resolve
from hotlap.predict.precision import Precision, matrix_rate

QUOTED = Path(__file__).parents[3].parent / "shared" / "data" / "gpu" / "specs.csv"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("RTX 4090", "RTX 4090"),
        ("4090", "RTX 4090"),
        ("rtx4070ti", "RTX 4070 Ti"),
        ("NVIDIA GeForce RTX 2080 SUPER", "RTX 2080 Super"),
        ("GeForce GTX 1080 Ti", "GTX 1080 Ti"),
        ("L4", "L4"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("NVIDIA A100-PG509-200", "A100 SXM4 40GB"),
        ("Tesla V100-SXM2-32GB-LS", "Tesla V100 SXM2 32GB"),
        ("NVIDIA GH200 120GB", "GH200 96GB"),
        ("NVIDIA B300 SXM6 AC", "B300 SXM"),
        ("NVIDIA A100-SXM-64GB", "A100 SXM4 64GB"),
        ("NVIDIA H100 64GB HBM2", "H100 SXM5 64GB"),
        ("NVIDIA H100 96GB HBM3", "H100 SXM5 96GB"),
        ("NVIDIA H200", "H200 SXM 141GB"),
        ("NVIDIA H800", "H800 SXM5 80GB"),
        ("NVIDIA H800 PCIe", "H800 PCIe 80GB"),
        ("NVIDIA B100", "B100 SXM"),
        ("NVIDIA GB300", "GB300"),
        ("AMD Instinct MI250X/MI250", "Instinct MI250X"),
        ("AMD Instinct MI300A", "Instinct MI300A"),
        ("AMD Instinct MI350X", "Instinct MI350X"),
        ("AMD Instinct MI300X VF", "Instinct MI300X"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe 80GB"),
        ("H100 80GB PCIe Gen5", "H100 PCIe 80GB"),
        ("B200 192GB", "B200 SXM"),
        ("NVIDIA GH200 480GB", "GH200 96GB"),
        ("Tesla V100-SXM2-32GB", "Tesla V100 SXM2 32GB"),
        ("Tesla V100-PCIE-16GB", "Tesla V100 PCIe 16GB"),
        ("Tesla T4", "Tesla T4"),
        ("Tesla K80", "Tesla K80"),
        ("A6000", "RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("TITAN Xp", "Titan Xp"),
        ("AMD Instinct MI300X", "Instinct MI300X"),
    ],
)
def test_names_of_people_and_drivers_resolve(written: str, meant: str) -> None:
    found = resolve(written)
    assert found.device.name == meant
    assert found.assumption is None


@pytest.mark.parametrize("written", ["A100", "V100", "H100", "RTX 3080"])
def test_a_name_with_several_variants_says_which_was_taken(written: str) -> None:
    assumption = resolve(written).assumption
    assert assumption is not None
    assert f'"{written}" was taken for' in assumption


@pytest.mark.parametrize("written", ["RTX 4095", "NVIDIA GeForce RTX 2080 Laptop GPU", "L", "L4 Ti", "A100 96GB", ""])
def test_an_unknown_name_is_an_error(written: str) -> None:
    with pytest.raises(UserError, match="No device is called"):
        resolve(written)


def test_the_error_names_the_nearest_devices() -> None:
    with pytest.raises(UserError, match=r"Nearest: RTX 4090"):
        resolve("RTX 4095")
    with pytest.raises(UserError, match=r"Nearest: H100"):
        resolve("H1000")


def test_every_device_resolves_by_its_own_name() -> None:
    for device in devices():
        assert resolve(device.name).device == device


def test_there_are_sixty_gpus_and_each_says_where_its_figures_come_from() -> None:
    assert len(devices()) >= 60
    known = {row["key"] for row in facts("sources.csv")}
    for row in facts("gpus.csv"):
        assert row["sources"] and known >= set(row["sources"].split()), row["name"]
    for device in devices():
        assert min(device.fp32, device.bandwidth, device.memory, device.power_w) > 0, device.name


def test_names_are_unique() -> None:
    names = [device.name for device in devices()]
    assert len(set(names)) == len(names)


def test_geforce_tensor_peaks_are_those_of_fp32_accumulation() -> None:
    # Half of the 330 that are advertised for the RTX 4090, and of the 142 of the RTX 3090.
    assert resolve("RTX 4090").device.tensor == pytest.approx(165.2e12, rel=0.01)
    assert resolve("RTX 3090").device.tensor == pytest.approx(71.2e12, rel=0.01)
    assert resolve("A100 SXM4 80GB").device.tensor == pytest.approx(312e12, rel=0.01)
    assert resolve("H100 SXM5 80GB").device.tensor == pytest.approx(989e12, rel=0.01)


def test_double_precision_is_that_of_the_data_sheets_with_tensor_cores_and_without() -> None:
    quoted = {"A100 SXM4 80GB": 19.5, "H100 SXM5 80GB": 67, "H100 PCIe 80GB": 51, "A30": 10.3, "B200 SXM": 37}
    quoted |= {"B300 SXM": 1.2, "H20": 1.0, "Tesla V100 SXM2 16GB": 7.8, "RTX 4090": 1.29}
    quoted |= {"Instinct MI250X": 95.7, "Instinct MI300X": 163.4, "Instinct MI355X": 78.6}
    for name, matrix in quoted.items():
        rate = matrix_rate(resolve(name).device, Precision.FP64, tf32=False)
        assert rate == pytest.approx(matrix * 1e12, rel=0.04), name


def test_cards_for_inference_and_export_have_the_rates_of_their_data_sheets() -> None:
    assert resolve("L20").device.tensor == pytest.approx(119.5e12, rel=0.01)
    h20 = resolve("NVIDIA H20").device
    assert (h20.fp32, h20.tensor, h20.tf32) == pytest.approx((44e12, 148e12, 74e12), rel=0.01)
    assert h20.bandwidth == pytest.approx(4.0e12, rel=0.01)


def test_a_module_that_shares_its_memory_has_the_rates_of_its_brief() -> None:
    orin = resolve("Jetson AGX Orin 64GB").device
    assert (orin.fp32, orin.tensor, orin.bandwidth) == pytest.approx((5.3e12, 42.5e12, 204.8e9), rel=0.01)
    assert resolve("NVIDIA GB10").device.tensor == pytest.approx(125e12, rel=0.06)


def test_a_die_of_several_on_a_board_has_its_part_of_the_boards_power() -> None:
    assert [resolve(name).device.power_w for name in ("Tesla K80", "Tesla M60", "A16")] == [150, 150, 62.5]


def test_a_laptops_gpu_is_not_the_card_of_that_number() -> None:
    laptop, card = resolve("NVIDIA GeForce RTX 4090 Laptop GPU").device, resolve("NVIDIA GeForce RTX 4090").device
    assert (laptop.name, card.name) == ("RTX 4090 Laptop", "RTX 4090")
    assert laptop.fp32 == pytest.approx(39.7e12, rel=0.01)
    assert laptop.bandwidth == pytest.approx(576e9)


# Derived rates that differ from the quoted ones on purpose.
DIFFERENT = {
    "Tesla K40c": "quoted at its base clock",
    "A10G": "80 multiprocessors, as the driver says, not 72",
    "Instinct MI100": "quoted without the matrix units",
    "Instinct MI210": "quoted without the matrix units",
    "Instinct MI250X (2 GCD)": "quoted without the matrix units",
}


@pytest.mark.skipif(not QUOTED.exists(), reason="needs ../shared/data/gpu/specs.csv")
def test_derived_rates_are_within_three_percent_of_the_quoted_ones() -> None:
    rows = list(csv.DictReader(QUOTED.read_text().splitlines()))
    compared = 0
    for row in rows:
        name = row["name"].replace(" (per die)", "").replace(" (2 GCD)", "").replace(" (GPU part)", "")
        if row["name"] in DIFFERENT or name.startswith("GB200"):
            continue
        device = resolve(name).device
        assert device.fp32 == pytest.approx(float(row["fp32_tflops"]) * 1e12, rel=0.03), name
        assert device.bandwidth == pytest.approx(float(row["mem_bw_gbs"]) * 1e9, rel=0.03), name
        if row["fp16_tensor_dense_fp32acc_tflops"]:
            assert device.tensor == pytest.approx(float(row["fp16_tensor_dense_fp32acc_tflops"]) * 1e12, rel=0.03), name
        compared += 1
    assert compared >= 60
