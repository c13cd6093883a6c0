"""The meter, on a clock that the tests turn."""

from __future__ import annotations

import pytest

from headtohead.training.devices import number_format, peak_flops
from headtohead.training.meter import Meter, Work


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def run_step(meter: Meter, clock: Clock, seconds: float, *, tokens: int = 10, waited: float = 0.0) -> None:
    clock.now += seconds
    meter.add(samples=2, tokens=tokens, flops=1000.0, waited=waited)


def test_rates_are_work_over_time() -> None:
    clock = Clock()
    meter = Meter(warm_up=0, clock=clock)
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
            "mfu": 0.1,
        }
    )


def test_warm_up_is_left_out_of_the_rates_but_not_of_the_time() -> None:
    clock = Clock()
    meter = Meter(warm_up=2, clock=clock)
    meter.start()
    for seconds in (30.0, 20.0):
        assert not meter.ends_warm_up
        run_step(meter, clock, seconds)
    assert meter.ends_warm_up
    assert meter.read() == Work()
    run_step(meter, clock, 1.0)
    assert meter.read().seconds == pytest.approx(1.0)
    assert meter.measured.steps == 1
    assert meter.seconds == pytest.approx(51.0)


def test_readings_during_warm_up_give_nothing() -> None:
    clock = Clock()
    meter = Meter(warm_up=3, clock=clock)
    meter.start()
    for _ in range(3):
        run_step(meter, clock, 1.0)
        assert meter.read().rates(peak_flops=None) == {}
    run_step(meter, clock, 1.0)
    assert meter.read().steps == 1


def test_a_validation_between_two_steps_takes_no_time() -> None:
    clock = Clock()
    meter = Meter(warm_up=0, clock=clock)
    meter.start()
    run_step(meter, clock, 1.0)
    meter.stop()
    clock.now += 60.0
    meter.start()
    run_step(meter, clock, 1.0)
    assert meter.read().seconds == pytest.approx(2.0)
    assert meter.seconds == pytest.approx(2.0)


def test_utilisation_is_unknown_where_the_peak_is() -> None:
    assert Work(steps=1, samples=1, tokens=1, flops=1.0, seconds=1.0).rates(peak_flops=None)["mfu"] is None


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
    ],
)
def test_known_devices_have_the_dense_peak_of_their_data_sheet(name: str, kind, teraflops: float) -> None:
    assert peak_flops(name, kind) == pytest.approx(teraflops * 1e12)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AMD EPYC 7B13", "fp32"),
        ("Tesla T4", "bf16"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "bf16"),
        ("NVIDIA GH200 480GB", "bf16"),
    ],
)
def test_unknown_devices_and_formats_have_no_peak(name: str, kind) -> None:
    assert peak_flops(name, kind) is None


@pytest.mark.parametrize(
    ("precision", "kind"),
    [("32-true", "fp32"), ("64-true", "fp64"), ("bf16-mixed", "bf16"), ("bf16-true", "bf16"), ("16-mixed", "fp16")],
)
def test_the_peak_is_that_of_the_format_in_use(precision: str, kind: str) -> None:
    assert number_format(precision) == kind
