"""No test here sees the user's W&B account, settings or proxies, and none leaves a W&B service behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer

import psutil
import pytest

from wandb_server import WandbServer


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("WANDB_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "set and taken away, so that it is put back afterwards")
    monkeypatch.delenv("WANDB_ERROR_REPORTING")
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "no-settings"))
    yield
    if "wandb" in sys.modules:
        import wandb

        killer = Timer(SERVICE_SECONDS, kill_services)
        killer.start()
        with suppress(SystemExit):  # as of a service that was killed
            wandb.teardown()
        killer.cancel()


SERVICE_SECONDS = 20.0
"""The time a service has to end; one that still asks a server which is gone would try for hours."""


def kill_services() -> None:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if process.name().startswith("wandb-core"):
                process.kill()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    """A healthy W&B server that this process is logged in to."""
    running = WandbServer()
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    yield running
    running.close()
    assert running.unknown == []
