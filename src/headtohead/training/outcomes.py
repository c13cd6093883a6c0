"""How a run can end before its last step, and what its record says then."""

from __future__ import annotations

import torch

from headtohead.files.disk import OutOfDisk, is_full
from headtohead.tracking.record import Status
from headtohead.training.parts import Parts
from headtohead.training.peers import lost_process

_ALLOCATORS_WORDS = ("out of memory", "not enough memory", "DefaultCPUAllocator", "can't allocate memory")


class Diverged(Exception):  # noqa: N818 - the name of an outcome, like the next one
    """A loss that is no number any more."""

    def __init__(self, what: str, value: float, step: int) -> None:
        super().__init__(f"{what} was {value} at step {step}")
        self.step = step


class Interrupted(BaseException):
    """Somebody wants the run to stop. Like KeyboardInterrupt no Exception, so that nothing swallows it."""


def outcome_of(error: BaseException, parts: Parts) -> tuple[Status, str]:
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
    return f"the disk is full ({_first_line(error)}): free some room, then resume the run"


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _ALLOCATORS_WORDS)


def _what_to_lower(parts: Parts) -> str:
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
