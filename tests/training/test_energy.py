"""Energy as counters measure it: RAPL's on a tree of files, NVML's on an object that acts like the library, and runs
that were stopped and went on."""

from __future__ import annotations

import ctypes
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fake_powercap import PERIOD, FakePowercap, without_root
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.training import energy_counters
from headtohead.training.energy_counters import (
    Energy,
    EnergyCounter,
    NoCounter,
    NvmlBoards,
    RaplPackages,
    UnmeasuredError,
    counter_of,
)
from headtohead.training.loop.run_state import JOULES, RunState
from headtohead.training.loop.throughput import BETWEEN_READINGS, ThroughputMeter
from headtohead.training.run import train
from training.interruptions import send
from training.runs import TinyData, parts

CPU = torch.device("cpu")


class Clock:
    """Time that passes when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePowercap:
    powercap = FakePowercap(tmp_path / "powercap")
    monkeypatch.setattr(energy_counters, "POWERCAP", powercap.root)
    return powercap


def test_packages_are_summed_and_their_parts_and_the_platform_left_out(tree: FakePowercap) -> None:
    counter = counter_of(CPU)
    assert counter.source == "RAPL, 2 processor packages"
    for zone in ("intel-rapl:0:0", "intel-rapl:2", "intel-rapl-mmio:0"):
        tree.draw(1000, zone)
    tree.draw(3, "intel-rapl:0")
    tree.draw(4.5, "intel-rapl:1")
    assert (counter.read(), counter.read()) == (7.5, 0.0)


@pytest.mark.parametrize("before", [PERIOD - 1, PERIOD - 1_000_000, 0])
def test_a_counter_that_goes_round_loses_nothing(tmp_path: Path, before: int) -> None:
    tree = FakePowercap(tmp_path, packages=1, start=before)
    counter = RaplPackages(tree.root)
    for joules in (5.0, 0.0, 250_000.0, 13_000.0):
        tree.draw(joules)
        assert counter.read() == pytest.approx(joules, abs=1e-6)


def test_a_reading_so_late_that_the_counter_may_have_gone_round_twice_is_not_believed(tmp_path: Path) -> None:
    tree, clock = FakePowercap(tmp_path, packages=1), Clock()
    counter = RaplPackages(tree.root, clock)
    clock.now = PERIOD / 1e6 / energy_counters.MOST_WATTS + 1
    tree.draw(5)
    late = counter.drawn()
    assert late.joules is None and "may have gone round" in late.source
    tree.draw(5)
    assert counter.read() == 5.0, "the next is a measurement again"


@pytest.mark.parametrize("zone", ["intel-rapl:0", "intel-rapl:1"])
def test_one_counter_that_only_root_reads_leaves_all_unmeasured_and_says_what_to_type(
    tree: FakePowercap, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_root(monkeypatch)
    tree.close(zone)
    counter = counter_of(CPU)
    assert counter.read() is None
    assert f"{zone}/energy_uj can be read by root alone" in counter.source and "sudo chmod a+r" in counter.source


def test_a_counter_that_is_closed_while_a_run_reads_it_measures_no_more(
    tree: FakePowercap, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = counter_of(CPU)
    without_root(monkeypatch)
    tree.close("intel-rapl:1")
    drawn = counter.drawn()
    assert drawn.joules is None and drawn.source.startswith("not measured: RAPL, 2 processor packages")


@pytest.mark.parametrize("damage", ["nothing", "no packages", "garbage"])
def test_a_machine_without_counters_measures_nothing_and_says_why(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "powercap"
    if damage != "nothing":
        tree = FakePowercap(root, packages=0 if damage == "no packages" else 1)
        if damage == "garbage":
            file = tree.root / "intel-rapl:0/energy_uj"
            file.unlink()
            file.write_text("many")
    monkeypatch.setattr(energy_counters, "POWERCAP", root)
    counter = counter_of(CPU)
    assert counter.read() is None and counter.source.startswith("not measured: ") and str(root) in counter.source


def test_a_run_over_several_machines_is_not_measured(tree: FakePowercap) -> None:
    assert counter_of(CPU, num_nodes=2).source.startswith("not measured: a process reads the counters of its own")


class FakeNvml:
    """NVML with two boards, of which tests advance the counters."""

    def __init__(self) -> None:
        self.millijoules = {b"GPU-a": 10_000, b"GPU-b": 500}
        self.error = 0
        self._names = list(self.millijoules)
        self.library: Any = SimpleNamespace(
            nvmlInit_v2=lambda: 0,
            nvmlErrorString={3: b"Not Supported", 6: b"Not Found", 15: b"GPU is lost"}.__getitem__,
            nvmlDeviceGetHandleByUUID=self._handle,
            nvmlDeviceGetTotalEnergyConsumption=self._total,
        )

    def _handle(self, uuid: bytes, handle: Any) -> int:
        if uuid not in self.millijoules:
            return 6
        handle._obj.value = 1 + self._names.index(uuid)
        return 0

    def _total(self, handle: ctypes.c_void_p, total: Any) -> int:
        total._obj.value = self.millijoules[self._names[(handle.value or 0) - 1]]
        return self.error


def test_the_boards_of_a_run_are_summed() -> None:
    nvml = FakeNvml()
    counter = NvmlBoards(["a", "GPU-b"], nvml.library)
    nvml.millijoules = {b"GPU-a": 12_500, b"GPU-b": 1_000}
    assert counter.source == "NVML, 2 GPU boards" and counter.read() == 3.0 and counter.read() == 0.0


def test_a_board_without_a_counter_or_lost_on_the_way_is_not_measured() -> None:
    nvml = FakeNvml()
    with pytest.raises(UnmeasuredError, match="GPU c: Not Found"):
        NvmlBoards(["a", "c"], nvml.library)
    counter = NvmlBoards(["a"], nvml.library)
    nvml.error = 15
    assert counter.read() is None
    nvml.error = 3
    with pytest.raises(UnmeasuredError, match="energy of the GPU a: Not Supported"):
        NvmlBoards(["a"], nvml.library)


def test_a_driver_that_was_reloaded_gives_no_negative_energy() -> None:
    nvml = FakeNvml()
    counter = NvmlBoards(["a"], nvml.library)
    nvml.millijoules[b"GPU-a"] = 0
    assert counter.read() is None


def test_what_follows_a_failed_reading_is_not_believed(tree: FakePowercap, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts since before a pause, if the reading that ended the pause failed."""
    nvml = FakeNvml()
    boards = NvmlBoards(["a"], nvml.library)
    nvml.error = 15
    assert boards.read() is None
    nvml.error, nvml.millijoules[b"GPU-a"] = 0, 12_000
    assert (boards.read(), boards.read()) == (None, 0.0)
    packages = RaplPackages(tree.root)
    with monkeypatch.context() as failing:
        failing.setattr(energy_counters, "_number_in", lambda file: int(file.suffix))
        assert packages.read() is None
    tree.draw(5)
    assert (packages.read(), packages.read()) == (None, 0.0)


@pytest.mark.gpu
def test_the_real_counter_of_a_gpu_goes_up_while_it_computes() -> None:
    device = torch.device("cuda", 0)
    counter = counter_of(device)
    matrix = torch.ones(8192, 8192, device=device)
    for _ in range(60):
        matrix = (matrix @ matrix).clamp(max=1)
    torch.cuda.synchronize()
    joules = counter.read()
    assert counter.source == "NVML, 1 GPU board" and joules is not None and joules > 1


def test_amounts_of_different_counters_and_of_unmeasured_starts_have_no_sum() -> None:
    rapl, nvml = Energy(2.0, "RAPL"), Energy(3.0, "NVML")
    assert Energy() + rapl == rapl == rapl + Energy() and rapl + rapl == Energy(4.0, "RAPL")
    unlike, unknown = rapl + nvml, NoCounter("none").drawn()
    assert unlike.joules is None and "one start was measured by RAPL, another by NVML" in unlike.source
    assert rapl + unknown == unknown == unknown + rapl


class Steady(EnergyCounter):
    """A counter of 50 watts."""

    source = "steady"

    def __init__(self, clock: Clock) -> None:
        self._clock, self._read_at, self.longest = clock, clock(), 0.0

    def read(self) -> float | None:
        before, self._read_at = self._read_at, self._clock()
        self.longest = max(self.longest, self._read_at - before)
        return 50 * (self._read_at - before)


def test_the_meter_counts_training_alone_and_reads_often_enough() -> None:
    clock = Clock()
    counter = Steady(clock)
    meter = ThroughputMeter(warm_up=2, clock=clock, counter=counter)
    clock.now += 7  # before the start
    meter.start()
    for step in range(100):
        clock.now += 2
        meter.add(samples=2, tokens=25, flops=1.0, padding=0.0, waited=0.0)
        if step == 1:
            meter.read()
    assert counter.longest <= BETWEEN_READINGS
    with meter.paused():
        clock.now += 1000  # a validation
    rates = meter.read().rates(peak_flops=None)
    assert (rates["joules_per_token"], rates["joules_per_sample"], rates["watts"]) == pytest.approx((4.0, 50.0, 50.0))
    assert meter.energy == Energy(10_000.0, "steady") and meter.seconds == 200


def test_rates_have_no_energy_where_none_was_measured() -> None:
    meter = ThroughputMeter(warm_up=0, clock=(clock := Clock()))
    meter.start()
    clock.now += 1
    meter.add(samples=1, tokens=1, flops=1.0, padding=0.0, waited=0.0)
    assert not {"joules_per_token", "joules_per_sample", "watts"} & meter.read().rates(peak_flops=None).keys()


class Drawing(TinyData):
    """Data of which each training batch draws two joules, and one of them can do something else as well."""

    def __init__(self, tree: FakePowercap, number: int = 0, action: Any = None) -> None:
        self.seen = 0

        def watch(rows: np.ndarray) -> None:
            self.seen += 1
            tree.draw(2)
            if self.seen == number:
                action()

        super().__init__(on_batch=watch)


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL):
        yield


def joules_of(record: RunRecord) -> float | None:
    assert record.path is not None
    assert RunFolder.open(record.path).read_record() == record
    return record.throughput.get("joules")


def drawn_by(run: Path) -> list[tuple[int, float]]:
    """Return what a run logged that it had drawn, by step."""
    curve = RunFolder.open(run).metrics({JOULES})[JOULES]
    return list(zip(curve.step, curve.value, strict=True))


@pytest.mark.slow
def test_a_record_has_the_joules_of_its_steps_and_those_of_a_resumed_run_add_up(
    tmp_path: Path, tree: FakePowercap
) -> None:
    whole = train(parts(tmp_path / "runs", data=Drawing(tree)))
    steps = whole.progress.step
    assert joules_of(whole) == pytest.approx(2 * steps, abs=4) and "repeated_joules" not in whole.throughput
    assert whole.environment.device["energy"] == "RAPL, 2 processor packages"
    assert whole.path is not None and drawn_by(whole.path)[-1][1] == joules_of(whole)
    first = train(parts(tmp_path / "runs", data=Drawing(tree, 8, send(signal.SIGTERM))))
    assert first.status == "interrupted" and first.path is not None
    before = joules_of(first) or 0
    second = train(parts(tmp_path / "runs", data=Drawing(tree), resume_from=first.path))
    assert joules_of(second) == pytest.approx(2 * steps, abs=8) and (joules_of(second) or 0) > before > 0
    assert "repeated_joules" not in second.throughput, "nothing was done twice"


@pytest.mark.slow
def test_what_a_killed_start_drew_after_its_checkpoint_is_counted_apart(tmp_path: Path, tree: FakePowercap) -> None:
    """Killed is as good as failed here: neither saves a checkpoint; twice, of which both are counted."""

    def fail() -> None:
        raise RuntimeError("struck by lightning")

    folder = tmp_path / "runs"
    with pytest.raises(RuntimeError, match="lightning"):
        train(parts(folder, data=Drawing(tree, 9, fail), log_every=1))
    run = next(path.parent for path in folder.rglob("record.json"))
    lost = []
    for _ in range(2):
        drawn = drawn_by(run)
        at_checkpoint = max((joules for step, joules in drawn if step <= 5), default=0.0)
        lost.append(drawn[-1][1] - at_checkpoint)
        with pytest.raises(RuntimeError, match="lightning"):
            train(parts(folder, data=Drawing(tree, 4, fail), log_every=1, resume_from=run))
    drawn = drawn_by(run)
    lost.append(drawn[-1][1] - max(joules for step, joules in drawn if step <= 5))
    record = train(parts(folder, data=Drawing(tree), log_every=1, resume_from=run))
    assert min(lost) > 0 and record.throughput["repeated_joules"] == pytest.approx(sum(lost))
    assert joules_of(record) == pytest.approx(2 * record.progress.step, abs=12)


@pytest.mark.slow
def test_a_start_that_was_not_measured_leaves_the_run_without_an_amount_and_with_a_reason(
    tmp_path: Path, tree: FakePowercap, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    first = train(parts(tmp_path / "runs", data=Drawing(tree, 8, send(signal.SIGTERM))))
    assert (joules_of(first) or 0) > 0 and first.path is not None
    monkeypatch.setattr(energy_counters, "POWERCAP", tmp_path / "nothing")
    second = train(parts(tmp_path / "runs", data=Drawing(tree), resume_from=first.path))
    assert joules_of(second) is None and second.environment.device["energy"].startswith("not measured: ")
    assert not any("joules" in name for name in second.throughput)


def test_a_checkpoint_from_before_energy_was_measured_is_of_unknown_energy() -> None:
    state = RunState.saved({"step": 5, "seconds": 1.0})
    energy = Energy(state.joules, state.energy_source) + Energy(1.0, "RAPL")
    assert energy.joules is None and "an earlier start did not read a counter" in energy.source
