"""Ways in which a run can end before its last step, by a signal, by divergence or for lack of memory, and what its
record then says."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from headtohead.files.disk_operations import OutOfDisk, is_full
from headtohead.records.record import Status
from headtohead.training.parallel.process_group import lost_process
from headtohead.training.run_components import RunComponents
from headtohead.wandb_client.registered_sweeps import stop_message

_ALLOCATORS_WORDS = ("out of memory", "not enough memory", "DefaultCPUAllocator", "can't allocate memory")


class Diverged(Exception):  # noqa: N818 - the name of an outcome, like the next one
    """A loss that is not a number any more."""

    def __init__(self, what: str, value: float, step: int) -> None:
        super().__init__(f"{what} was {value} at step {step}")
        self.step = step


class Interrupted(BaseException):
    """Somebody wants the run to stop. Like KeyboardInterrupt no Exception, so that nothing swallows it."""


def outcome_of(error: BaseException, parts: RunComponents) -> tuple[Status, str]:
    """The status and the reason that the record keeps."""
    if isinstance(error, Diverged):
        clip = parts.settings.gradient_clip
        clipping = "set trainer.gradient_clip" if clip is None else f"lower trainer.gradient_clip (now {clip:g})"
        return "diverged", f"{error}: lower optimizer.lr, lengthen schedule.warmup or {clipping}"
    if isinstance(error, Interrupted | KeyboardInterrupt | SystemExit):
        return "interrupted", str(error) or type(error).__name__
    if is_full(error):
        return "out_of_disk", _of_the_disk(error)
    if (lost := lost_process(error)) is not None:
        return "interrupted", lost
    if is_out_of_memory(error):
        return "out_of_memory", f"{_first_line(error)}: {_what_to_lower(parts)}"
    return "failed", f"{type(error).__name__}: {_first_line(error)}"


def _of_the_disk(error: BaseException) -> str:
    if isinstance(error, OutOfDisk):
        return error.sentence("resume the run")
    return f"the disk is full ({_first_line(error)}): free some space, then resume the run"


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _ALLOCATORS_WORDS)


def _what_to_lower(parts: RunComponents) -> str:
    settings = parts.settings
    advice = [
        f"raise trainer.accumulate (now {settings.accumulate}), which changes no result",
        f"lower data.batch_size (now {parts.data.batch_size})",
    ]
    if parts.checkpointing.kind == "none":
        advice.insert(1, "set checkpointing=full")
    if parts.precision.name in ("32-true", "64-true"):
        advice.append("set precision=bf16-mixed")
    return ", or ".join((", ".join(advice[:-1]), advice[-1]))


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_ONE_REQUEST_SECONDS = 3.0
"""A scheduler signals all processes of a job, and a worker among them passes it on to its run: that is asked once."""
_log = logging.getLogger(__name__)


class StopRequest:
    """A stop request records whether somebody asked the run to stop, and stops it."""

    def __init__(self) -> None:
        self.reason = "asked to stop"
        self._ask: Callable[[], None] | None = None
        self._requested_at: float | None = None
        self._previous: dict[int, Any] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside; only a program's main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
        self.listen()
        try:
            yield
        finally:
            for number, handler in self._previous.items():
                signal.signal(number, handler)
            self._previous = {}

    def listen(self) -> None:
        """Take the signals back: Lightning takes them when training starts, and stops without a checkpoint."""
        for number in self._previous:
            signal.signal(number, self._handle)

    @contextmanager
    def gentle(self, ask: Callable[[], None]) -> Iterator[None]:
        """Inside, a first signal calls `ask`; outside, it raises Interrupted on the spot."""
        self._ask = ask
        try:
            yield
        finally:
            self._ask = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        now, name = time.monotonic(), signal.Signals(number).name
        if (
            self._requested_at is not None
            and number != signal.SIGINT
            and now - self._requested_at < _ONE_REQUEST_SECONDS
        ):
            return
        self.reason = stop_message(name) or f"stopped by {name}"
        if self._ask is None or self._requested_at is not None:
            raise Interrupted(self.reason)
        self._requested_at = now
        self._ask()
        _log.info("%s: finishing this step and saving a checkpoint; interrupt again to stop at once", self.reason)
