"""Refuse data and trainers that do not suit how a task reads its rows, with the reason and the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headtohead.config.rules.config_view import ConfigView


def rules() -> tuple[Callable[[ConfigView], Iterator[str]], ...]:
    return (_packing, _whole_batches)


def _packing(view: ConfigView) -> Iterator[str]:
    if view.data.get("packing") == "apart" and view.task_value("keeps_documents_apart") is False:
        yield (
            f"{view.chosen('task')} reads each row as a whole, and data.packing=apart lets documents share rows "
            "without seeing each other: set data.packing=stream, where they do see what came before, or none"
        )


def _whole_batches(view: ConfigView) -> Iterator[str]:
    if not view.task_value("compares_rows"):
        return
    accumulate, strategy = view.trainer.get("accumulate", 1), view.trainer.get("strategy")
    if strategy != "single" or accumulate > 1:
        devices = f"{view.chosen('trainer')} with trainer.devices={view.trainer.get('devices', 1)}"
        split = f"trainer.accumulate={accumulate}" if accumulate > 1 else devices
        yield (
            f"{view.chosen('task')} compares the rows of a whole batch with each other, which {split} splits: set "
            "trainer=auto trainer.devices=1 trainer.accumulate=1, with checkpointing=full where memory is short"
        )
    if view.data.get("batch_size") == 1:
        yield f"{view.chosen('task')} compares the rows of a batch with each other: give data.batch_size of at least 2"
