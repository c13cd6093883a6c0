"""Arms that were timed under other conditions than their runs would have are refused, and not taken for equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headtohead.config.errors import ConfigurationError
from headtohead.estimates import step_times
from headtohead.estimates.step_timing import StepTiming
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.training.parallel import devices
from studies.small_studies import TINY, small_study, write_run

ARMS = {"a": [], "b": ["model/norm=rms_norm"]}


@pytest.fixture(scope="module", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The device that is here; b takes twice as long as a on all of them."""
    here = ["a small device"]

    def calibrate(configs: Mapping[str, Any], **_: Any) -> dict[str, StepTiming]:
        threads = next(iter(configs.values()))["trainer"]["threads"]
        return {
            name: StepTiming((2.0 if name == "b" else 1.0,) * 7, here[0], {}, threads)
            for name, config in configs.items()
        }

    monkeypatch.setattr(step_times, "measure_step_times", calibrate)
    monkeypatch.setattr(devices, "device_name", lambda _: here[0])
    return here


def planned(folder: Path, threads: int, **arms: list[str]) -> StudyPlan:
    base = [*TINY, f"output_dir={folder}", "trainer.max_steps=40"]
    study = small_study(base=base, seeds=1, arms={**ARMS, **arms}, budget="equal_time")
    return StudyPlanner(study, threads=threads).plan()


def test_arms_are_timed_once_and_kept_with_their_conditions(tmp_path: Path) -> None:
    plan = planned(tmp_path, threads=1)
    assert plan.matching is not None and plan.matching == planned(tmp_path, threads=1).matching
    assert plan.matching.arm("b").overrides == ("trainer.max_steps=20",)


def test_runs_with_other_threads_than_were_timed_are_refused(tmp_path: Path) -> None:
    planned(tmp_path, threads=1)
    message = r"timed on a small device with 1 thread, and its runs would be made on a small device with 2 threads"
    with pytest.raises(
        ConfigurationError, match=message + r".*\(--threads 1\), or remove .*matchings to time them again"
    ):
        planned(tmp_path, threads=2)


def test_runs_on_another_device_than_was_timed_are_refused(tmp_path: Path, machine: list[str]) -> None:
    planned(tmp_path, threads=1)
    machine[0] = "a large device"
    with pytest.raises(ConfigurationError, match=r"timed on a small device .* made on a large device"):
        planned(tmp_path, threads=1)


def test_an_arm_that_joins_elsewhere_is_refused_before_it_is_timed(tmp_path: Path) -> None:
    before = planned(tmp_path, threads=1)
    with pytest.raises(ConfigurationError, match="timed on a small device with 1 thread"):
        planned(tmp_path, threads=2, c=["model/norm=none"])
    assert len(list((before.folder / "matchings").iterdir())) == 1


def test_a_study_that_is_complete_is_read_anywhere(tmp_path: Path, machine: list[str]) -> None:
    before = planned(tmp_path, threads=1)
    for run in before.runs:
        write_run(before.run_folder(run))
    machine[0] = "a laptop"
    assert planned(tmp_path, threads=2).runs == before.runs
