"""What `nvidia-smi -q -x` prints, as drivers of several ages print it, and what is read from it."""

import pytest

from hotlap.machine import nvidia

# Tags and their order are those of driver 550; the values are made up.
NEW = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>550.54.15</driver_version>
  <cuda_version>12.4</cuda_version>
  <attached_gpus>1</attached_gpus>
  <gpu id="00000000:01:00.0">
    <product_name>NVIDIA GeForce RTX 4090</product_name>
    <persistence_mode>Disabled</persistence_mode>
    <mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
    <uuid>GPU-12345678-1234-1234-1234-123456789abc</uuid>
    <pci>
      <pci_gpu_link_info>
        <pcie_gen>
          <max_link_gen>3</max_link_gen><current_link_gen>1</current_link_gen>
          <max_device_link_gen>4</max_device_link_gen><max_host_link_gen>3</max_host_link_gen>
        </pcie_gen>
        <link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths>
      </pci_gpu_link_info>
    </pci>
    <clocks_event_reasons>
      <clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
      <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
      <clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>
    </clocks_event_reasons>
    <fb_memory_usage><total>24564 MiB</total><used>1024 MiB</used></fb_memory_usage>
    <utilization><gpu_util>37 %</gpu_util></utilization>
    <ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode>
    <ecc_errors>
      <volatile>
        <sram_correctable>9</sram_correctable><sram_uncorrectable_parity>0</sram_uncorrectable_parity>
        <dram_uncorrectable>2</dram_uncorrectable>
      </volatile>
      <aggregate><dram_uncorrectable>7</dram_uncorrectable></aggregate>
    </ecc_errors>
    <temperature><gpu_temp>46 C</gpu_temp></temperature>
    <gpu_power_readings>
      <instant_power_draw>149.70 W</instant_power_draw>
      <current_power_limit>350.00 W</current_power_limit>
      <default_power_limit>450.00 W</default_power_limit>
    </gpu_power_readings>
    <clocks><sm_clock>2850 MHz</sm_clock></clocks>
    <max_clocks><sm_clock>3105 MHz</sm_clock></max_clocks>
    <processes>
      <process_info><pid>11</pid><type>G</type><used_memory>40 MiB</used_memory></process_info>
      <process_info><pid>12</pid><type>C</type><used_memory>900 MiB</used_memory></process_info>
      <process_info><pid>13</pid><type>C+G</type><used_memory>90 MiB</used_memory></process_info>
    </processes>
  </gpu>
</nvidia_smi_log>
"""
OLD = """<nvidia_smi_log><driver_version>470.82.01</driver_version><gpu id="0">
  <product_name>Tesla V100-SXM2-16GB</product_name><persistence_mode>Enabled</persistence_mode>
  <clocks_throttle_reasons>
    <clocks_throttle_reason_hw_slowdown>Active</clocks_throttle_reason_hw_slowdown>
    <clocks_throttle_reason_applications_clocks_setting>Active</clocks_throttle_reason_applications_clocks_setting>
  </clocks_throttle_reasons>
  <power_readings>
    <power_draw>40.00 W</power_draw><power_limit>250.00 W</power_limit>
    <default_power_limit>300.00 W</default_power_limit>
  </power_readings></gpu></nvidia_smi_log>"""


def only(xml: str) -> nvidia.Gpu:
    driver = nvidia.parse(xml)
    assert driver is not None
    (gpu,) = driver.gpus
    return gpu


def test_a_driver_of_today_is_read_whole() -> None:
    driver = nvidia.parse(NEW)
    assert driver is not None
    assert (driver.version, driver.cuda) == ("550.54.15", "12.4")
    assert only(NEW) == nvidia.Gpu(
        name="NVIDIA GeForce RTX 4090",
        uuid="GPU-12345678-1234-1234-1234-123456789abc",
        persistence=False,
        mig=None,
        ecc=True,
        ecc_uncorrected=2,
        link_generation=1,
        link_generation_most=3,
        link_generation_card=4,
        link_width=8,
        link_width_most=16,
        slowdowns=("sw_power_cap",),
        sm_mhz=2850.0,
        sm_mhz_most=3105.0,
        power_w=149.7,
        power_limit_w=350.0,
        power_limit_default_w=450.0,
        temperature_c=46.0,
        memory_bytes=24564 << 20,
        used_bytes=1024 << 20,
        utilisation=0.37,
        processes=(12, 13),
    )


def test_an_older_driver_has_other_names_for_the_same() -> None:
    gpu = only(OLD)
    assert (gpu.power_w, gpu.power_limit_w, gpu.power_limit_default_w) == (40.0, 250.0, 300.0)
    assert gpu.slowdowns == ("hw_slowdown",)
    assert gpu.persistence is True
    assert gpu.link_width is None


@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", "<html></html>", "<nvidia_smi_log></nvidia_smi_log>", NEW[:-40]]
)
def test_what_is_no_answer_of_a_driver_is_none(text: str) -> None:
    assert nvidia.parse(text) is None


def test_a_driver_without_a_card_has_no_gpus() -> None:
    driver = nvidia.parse("<nvidia_smi_log><driver_version>550.1</driver_version></nvidia_smi_log>")
    assert driver is not None and driver.gpus == ()
