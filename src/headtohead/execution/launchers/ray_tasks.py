"""Commands as tasks of Ray (Moritz et al. 2018, https://arxiv.org/abs/1712.05889)."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headtohead.config.errors import ConfigurationError
from headtohead.execution.launchers.launcher import Command, EndedCommand, Launcher, environment
from headtohead.ranges import Amount, Count, NotNegative

_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.1


class RayTasks(Launcher):
    """Each command is one task, which Ray places, and restarts elsewhere when its node is lost."""

    def __init__(
        self,
        *,
        address: str | None = None,
        cpus: Count = 1,
        gpus: NotNegative = 0,
        retries: Amount = 20,
        claims: str | None = None,
    ) -> None:
        self.claims = claims
        self._address, self._cpus, self._gpus, self._retries = address, cpus, gpus, retries
        self._tasks: list[tuple[Command, Any]] = []
        self._ray: Any = None

    def threads(self, workers: int) -> int:
        del workers
        return self._cpus

    def submit(self, commands: Sequence[Command]) -> None:
        self._ray = ray = self._ray or self._joined()
        task = ray.remote(max_retries=self._retries)(_carried_out)
        here = Path.cwd()
        self._tasks += [(command, task.options(**self.needs(command)).remote(command, here)) for command in commands]

    def needs(self, command: Command) -> dict[str, float]:
        """Return what Ray sets aside for a command: GPUs for the widest of its runs, where runs take GPUs."""
        wide = command.devices if self._gpus and command.devices > 1 else 0
        return {"num_cpus": self._cpus, "num_gpus": max(self._gpus, wide)}

    def ended(self) -> list[EndedCommand]:
        if not self._tasks:
            return []
        done, _ = self._ray.wait([task for _, task in self._tasks], num_returns=len(self._tasks), timeout=0)
        commands = [EndedCommand(command, self._code(command, task)) for command, task in self._tasks if task in done]
        self._tasks = [(command, task) for command, task in self._tasks if task not in done]
        return commands

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
        address = self._address or os.environ.get("RAY_ADDRESS")
        try:
            ray.init(
                address,
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, RuntimeError) as error:
            message = " ".join(str(error).split())
            raise ConfigurationError(f"launcher=ray, launcher.address={address or 'null'}: {message}") from None
        return ray

    def _code(self, command: Command, task: Any) -> int:
        try:
            return int(self._ray.get(task))
        except self._ray.exceptions.RayError as error:
            with command.log.open("a", encoding="utf-8") as log:
                log.write(f"{' '.join(str(error).split())}\n")
            return 1


def _carried_out(command: Command, folder: Path) -> int:
    """Run the command on the node; Ray's cancelling raises KeyboardInterrupt here."""
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
