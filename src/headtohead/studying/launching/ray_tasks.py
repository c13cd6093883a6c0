"""Commands as tasks of Ray (Moritz et al. 2018, https://arxiv.org/abs/1712.05889)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headtohead.building.errors import ConfigurationError
from headtohead.ranges import Amount, Count, NotNegative
from headtohead.studying.launcher import Command, Ended, Launcher, environment

_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.1


class RayTasks(Launcher):
    """Each command is one task, which Ray places, and begins anew elsewhere when its node is lost."""

    def __init__(
        self, *, address: str | None = None, cpus: Count = 1, gpus: NotNegative = 0, retries: Amount = 20
    ) -> None:
        self._address, self._cpus, self._gpus, self._retries = address, cpus, gpus, retries
        self._tasks: list[tuple[Command, Any]] = []
        self._ray: Any = None

    def threads(self, workers: int) -> int:
        del workers
        return self._cpus

    def submit(self, commands: Sequence[Command]) -> None:
        self._ray = ray = self._ray or self._joined()
        task = ray.remote(num_cpus=self._cpus, num_gpus=self._gpus, max_retries=self._retries)(_carried_out)
        here = Path.cwd()
        self._tasks += [(command, task.remote(command, here)) for command in commands]

    def ended(self) -> list[Ended]:
        if not self._tasks:
            return []
        done, _ = self._ray.wait([task for _, task in self._tasks], num_returns=len(self._tasks), timeout=0)
        found = [Ended(command, self._code(command, task)) for command, task in self._tasks if task in done]
        self._tasks = [(command, task) for command, task in self._tasks if task not in done]
        return found

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    def stop(self) -> None:
        if self._ray is None:
            return
        waiting = [task for _, task in self._tasks]
        for task in waiting:
            self._ray.cancel(task)
        if waiting:
            self._ray.wait(waiting, num_returns=len(waiting), timeout=_PATIENCE_SECONDS)
        self._tasks.clear()
        self._ray.shutdown()
        self._ray = None

    def _joined(self) -> Any:
        try:
            import ray
        except ImportError:
            raise ConfigurationError("launcher=ray needs the package ray: pip install 'headtohead[ray]'") from None
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # unless somebody wants to report to its makers
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        address = self._address or os.environ.get("RAY_ADDRESS")
        try:
            if address:
                ray.init(address, **quiet)
            else:
                ray.init(include_dashboard=False, **quiet)
        except (ConnectionError, RuntimeError) as error:
            said = " ".join(str(error).split())
            raise ConfigurationError(f"launcher=ray, launcher.address={address or 'null'}: {said}") from None
        return ray

    def _code(self, command: Command, task: Any) -> int:
        try:
            return int(self._ray.get(task))
        except self._ray.exceptions.RayError as error:
            with command.log.open("a", encoding="utf-8") as log:
                log.write(f"{' '.join(str(error).split())}\n")
            return 1


def _carried_out(command: Command, folder: Path) -> int:
    """On the node; Ray's cancelling raises KeyboardInterrupt here."""
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("ab") as log:
        process = subprocess.Popen(
            command.arguments,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(command.threads),
        )
    try:
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    return process.returncode
