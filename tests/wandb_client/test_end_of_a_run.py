"""The end of a run takes 15 s at most after its last step, whatever its server does: every wait is added up."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headtohead.wandb_client import upload
from headtohead.wandb_client.connection import TrackingSettings
from headtohead.wandb_client.upload import Upload
from headtohead.wandb_client.wandb_tracker import WandbTracker
from run_folders import new_run

LIMIT = TrackingSettings().finish_timeout


class Clock:
    """Stands still but for waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float, timeout: float) -> bool:
        """Return whether what takes so long is done before the timeout."""
        self.now += min(seconds, timeout)
        return seconds <= timeout


class Run:
    """W&B's client as far as a tracker sees it: its `finish` takes as long as the server does, within its timeout."""

    def __init__(self, clock: Clock, folder: Path, takes: float, refused: bool) -> None:
        directory = folder / "wandb" / "run-1"
        (directory / "logs").mkdir(parents=True)
        (directory / "files").mkdir()
        (directory / "run-1.wandb").touch()
        (directory / "logs" / "debug-internal.log").write_text('"level":"ERROR' if refused else "")
        self.settings, self.dir = SimpleNamespace(sync_dir=str(directory)), str(directory / "files")
        self.id, self.url, self.starting_step = "1", "http://w/me/p/runs/1", 0
        self.summary: dict[str, Any] = {}
        self._clock, self._takes = clock, takes

    def define_metric(self, *names: str, **settings: str) -> None:
        """Nothing waits for it."""

    def save(self, *paths: str, **settings: str) -> None:
        """Neither for this."""

    def finish(self, exit_code: int) -> None:
        if not self._clock.wait(self._takes, LIMIT):
            raise TimeoutError


FOREVER = 1e9
FAULTS = {
    "none": (0.2, False, 1.0),
    "never answers": (FOREVER, False, FOREVER),
    "refuses": (1.0, True, FOREVER),
    "slow, then never answers": (LIMIT - 1, False, FOREVER),
    "takes the rows and not the artifacts": (2.0, False, FOREVER),
    "slow all the time": (LIMIT - 2, False, LIMIT - 2),
}
"""Seconds for the rows, whether it refuses, and seconds for the artifacts."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("slow_disk", [0.0, 4.0, 100.0])
def test_all_waits_together_take_no_longer_than_the_limit(
    fault: str, slow_disk: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rows, refused, artifacts = FAULTS[fault]
    config = {"tracking": {"artifacts": ["record"]}}
    clock, (_, folder) = Clock(), new_run(tmp_path, config=config)
    waited: list[float] = []

    def written(what: Any, apart: Path, aliases: Path, left: Callable[[], float]) -> list[bytes]:
        clock.wait(slow_disk, left())
        return []

    def synced(file: Path, timeout: float) -> Upload:
        waited.append(timeout)
        done = timeout > 0 and clock.wait(artifacts, timeout)
        return Upload() if done else Upload(trouble="not in time")

    monkeypatch.setattr(upload, "_artifacts", written)
    monkeypatch.setattr(upload, "_sync", synced)
    run = Run(clock, folder.path, rows, refused)
    tracker = WandbTracker(run, mode="online", folder=folder, finish_timeout=LIMIT, console=False, clock=clock)
    last_step = clock()
    tracker.finish("finished")
    assert clock() - last_step <= LIMIT
    arrived = clock() - last_step < LIMIT and not refused
    assert arrived == ("uploads the rest" not in caplog.text)
    assert bool(waited) == (not refused and rows < LIMIT)


def test_nothing_is_started_when_no_time_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", started.append)
    assert upload._sync(tmp_path / "run-1.wandb", timeout=-1.0).trouble == "no time was left for it"
    assert not started
