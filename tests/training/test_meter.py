"""The meter, on a clock that the tests turn."""

from __future__ import annotations

from typing import get_args

import pytest

from headtohead.training.loop.throughput import ThroughputMeter, WorkDone
from headtohead.training.parallel.device_sheets import Format, device_sheets, peak_flops
from headtohead.training.parallel.devices import number_format


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def run_step(meter: ThroughputMeter, clock: Clock, seconds: float, *, tokens: int = 10, waited: float = 0.0) -> None:
    clock.now += seconds
    meter.add(samples=2, tokens=tokens, flops=1000.0, padding=250.0, waited=waited)


def test_rates_are_work_over_time() -> None:
    clock = Clock()
    meter = ThroughputMeter(warm_up=0, clock=clock)
    meter.start()
    run_step(meter, clock, 0.5, tokens=10, waited=0.1)
    run_step(meter, clock, 1.5, tokens=30, waited=0.3)
    assert meter.read().rates(peak_flops=10_000.0) == pytest.approx(
        {
            "tokens_per_second": 20.0,
            "samples_per_second": 2.0,
            "step_seconds": 1.0,
            "data_wait_share": 0.2,
            "flops_per_second": 1000.0,
            "padding_share": 0.2,
            "mfu": 0.1,
        }
    )


def test_warm_up_is_left_out_of_the_rates_but_not_of_the_time() -> None:
    clock = Clock()
    meter = ThroughputMeter(warm_up=2, clock=clock)
    meter.start()
    for seconds in (30.0, 20.0):
        assert not meter.ends_warm_up
        run_step(meter, clock, seconds)
    assert meter.ends_warm_up
    assert meter.read() == WorkDone()
    run_step(meter, clock, 1.0)
    assert meter.read().seconds == pytest.approx(1.0)
    assert meter.measured.steps == 1
    assert meter.seconds == pytest.approx(51.0)


def test_readings_during_warm_up_give_nothing() -> None:
    clock = Clock()
    meter = ThroughputMeter(warm_up=3, clock=clock)
    meter.start()
    for _ in range(3):
        run_step(meter, clock, 1.0)
        assert meter.read().rates(peak_flops=None) == {}
    run_step(meter, clock, 1.0)
    assert meter.read().steps == 1


def test_a_validation_between_two_steps_takes_no_time() -> None:
    clock = Clock()
    meter = ThroughputMeter(warm_up=0, clock=clock)
    meter.start()
    run_step(meter, clock, 1.0)
    meter.stop()
    clock.now += 60.0
    meter.start()
    run_step(meter, clock, 1.0)
    assert meter.read().seconds == pytest.approx(2.0)
    assert meter.seconds == pytest.approx(2.0)


def test_utilisation_is_unknown_where_the_peak_is() -> None:
    assert WorkDone(steps=1, samples=1, tokens=1, flops=1.0, seconds=1.0).rates(peak_flops=None)["mfu"] is None


@pytest.mark.parametrize(
    ("name", "kind", "teraflops"),
    [
        ("NVIDIA A100-SXM4-80GB", "bf16", 312),
        ("NVIDIA A100 80GB PCIe", "fp32", 19.5),
        ("NVIDIA H100 80GB HBM3", "bf16", 989.5),
        ("NVIDIA H100 PCIe", "bf16", 756),
        ("NVIDIA H200", "fp16", 989.5),
        ("Tesla V100-SXM2-16GB", "fp16", 125),
        ("Tesla T4", "fp16", 65),
        ("NVIDIA L40S", "bf16", 362),
        ("NVIDIA L4", "bf16", 121),
        ("NVIDIA GeForce RTX 4090", "bf16", 165.2),
        ("A100-SXM4-40GB", "tf32", 156),
        ("NVIDIA A100-PCIE-40GB", "fp64", 9.7),
        ("NVIDIA H200 NVL", "bf16", 835.5),
        ("NVIDIA H100 NVL", "fp32", 60),
        ("NVIDIA A10", "bf16", 125),
        ("NVIDIA A40", "bf16", 149.7),
        ("NVIDIA L40", "bf16", 181),
        ("Tesla V100-PCIE-32GB", "fp16", 112),
        ("AMD Instinct MI250X", "bf16", 191.5),
        ("AMD Instinct MI300X", "bf16", 1307.4),
    ],
)
def test_known_devices_have_the_dense_peak_of_their_data_sheet(name: str, kind, teraflops: float) -> None:
    assert peak_flops(name, kind) == pytest.approx(teraflops * 1e12)


# As drivers report the names of chips that the table does not hold: relatives of those that it holds, parts of one
# (MIG, the vGPU of a hypervisor), and processors.
UNKNOWN = """
NVIDIA A100-SXM4-40GB MIG 1g.5gb
NVIDIA A100-SXM4-80GB MIG 7g.80gb
NVIDIA A100 80GB PCIe MIG 2g.20gb
NVIDIA H100 80GB HBM3 MIG 1g.10gb
NVIDIA H100 PCIe MIG 3g.40gb
NVIDIA H200 MIG 1g.18gb
NVIDIA H200 NVL MIG 1g.18gb
NVIDIA GeForce RTX 4090 D
NVIDIA GeForce RTX 4090 Laptop GPU
NVIDIA GeForce RTX 4080 SUPER
NVIDIA GeForce RTX 5090
NVIDIA GeForce RTX 5090 D
NVIDIA RTX 4000 Ada Generation
NVIDIA RTX A4000
NVIDIA GH200 480GB
NVIDIA GH200 144G HBM3e
NVIDIA H100 64GB HBM2
NVIDIA H100 80GB HBM2e
NVIDIA H20
NVIDIA H800
NVIDIA H800 PCIe
NVIDIA GB200
NVIDIA A100X
NVIDIA A100-SXM-64GB
NVIDIA A800-SXM4-80GB
NVIDIA A800 80GB PCIe
NVIDIA A30
NVIDIA A30 MIG 1g.6gb
NVIDIA A10M
NVIDIA A10-24Q
NVIDIA A40-48Q
NVIDIA A16
NVIDIA A2
NVIDIA L20
NVIDIA L2
NVIDIA L40G
NVIDIA L40-48Q
NVIDIA L4-24Q
NVIDIA T400
NVIDIA T4G
GRID T4-16Q
GRID A100-40C
GRID V100DX-32C
Tesla V100S-PCIE-32GB
Tesla V100-SXM3-32GB
Tesla V100-SXM2-32GB-LS
Tesla V100-FHHL-16GB
Tesla V100-DGXS-32GB
Tesla P100-PCIE-16GB
Quadro RTX 4000
Orin
AMD Instinct MI210
AMD Instinct MI250
AMD Instinct MI300A
AMD Instinct MI300X VF
AMD Instinct MI308X
AMD Instinct MI325X
AMD Radeon RX 7900 XTX
AMD EPYC 7B13
Intel(R) Xeon(R) Platinum 8481C
x86_64
4090
H100
""".strip().splitlines()


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_name_that_is_not_in_the_table_word_for_word_has_no_peak(name: str) -> None:
    assert all(peak_flops(name, kind) is None for kind in get_args(Format))


@pytest.mark.parametrize("name", sorted(name for sheet in device_sheets().values() for name in sheet.drivers))
def test_no_known_device_lends_its_peak_to_a_relative_of_it(name: str) -> None:
    """Whatever a maker adds to a name, and whatever is left out of it."""
    assert any(peak_flops(name, kind) for kind in get_args(Format))
    relatives = [f"{name}{more}" for more in (" MIG 1g.10gb", " D", " Laptop GPU", "-8Q", " Ti", "S", "X", " SUPER")]
    relatives += [f"GRID {name}", f"G{name}", name.rpartition(" ")[0]]
    known = {name for sheet in device_sheets().values() for name in sheet.drivers}
    unknown = [relative for relative in relatives if relative.lower() not in known]
    assert len(unknown) >= len(relatives) - 1
    assert all(peak_flops(stranger, kind) is None for stranger in unknown for kind in get_args(Format))


def test_formats_that_a_chip_lacks_have_no_peak() -> None:
    assert peak_flops("Tesla T4", "bf16") is None


@pytest.mark.parametrize(
    ("precision", "kind"),
    [("32-true", "fp32"), ("64-true", "fp64"), ("bf16-mixed", "bf16"), ("bf16-true", "bf16"), ("16-mixed", "fp16")],
)
def test_the_peak_is_that_of_the_format_in_use(precision: str, kind: str) -> None:
    assert number_format(precision) == kind
