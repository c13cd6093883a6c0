"""Refuse data, augmentations and trainers that do not suit how a task reads its rows, with the reason and the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headtohead.config.rules.config_view import ConfigView
from headtohead.config.schema.source_code import class_value


def rules() -> tuple[Callable[[ConfigView], Iterator[str]], ...]:
    return (_packing, _whole_batches, _augmented_kinds, _augmented_classes, _augmented_pairs, _augmentation_sources)


def _packing(view: ConfigView) -> Iterator[str]:
    if view.task_value("keeps_documents_apart") is not False:
        return
    for path, _, node in view.data_nodes():
        if node.get("packing") == "apart":
            yield (
                f"{view.chosen('task')} reads each row as a whole, and {path}.packing=apart lets documents share rows "
                f"without seeing each other: set {path}.packing=stream, where they do see what came before, or none"
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


def _augmented_kinds(view: ConfigView) -> Iterator[str]:
    kind = class_value(view.data["_target_"], "kind")
    if view.reads_no_labels and kind in (None, "labelled_text"):
        kind = "language"  # which is what such a task makes of them
    for name, step in _steps(view):
        kinds = class_value(step["_target_"], "data_kinds")
        if kind and kinds and kind not in kinds:
            usual = f"it changes data of kind {' or '.join(kinds)}, and this is {kind}"
            yield f"augmentation={name} cannot be used with {view.chosen('data')}: {_reasons(step).get(kind, usual)}"


def _augmented_classes(view: ConfigView) -> Iterator[str]:
    for name, step in _steps(view):
        if view.task_value("head") == "pixel_decoder" and class_value(step["_target_"], "changes_classes"):
            yield (
                f"augmentation={name} changes the classes of images, and {view.chosen('task')} reads none: choose "
                "augmentation=random_crop or resized_crop, or task=image_classification"
            )


def _augmented_pairs(view: ConfigView) -> Iterator[str]:
    size, devices = view.data.get("batch_size"), view.trainer.get("devices", 1) * view.trainer.get("num_nodes", 1)
    parts = devices // view.trainer.get("tensor_parallel", 1) * view.trainer.get("accumulate", 1)
    if not isinstance(size, int) or parts < 2 or size % (2 * parts) == 0:
        return
    for name, step in _steps(view):
        if class_value(step["_target_"], "pairs_rows"):
            yield (
                f"augmentation={name} mixes pairs of neighbours, and data.batch_size={size} in {parts} parts "
                f"(trainer.accumulate, trainer.devices) leaves some without a partner: give a multiple of {2 * parts}, "
                "or fewer parts"
            )


def _reasons(step: Mapping[str, object]) -> Mapping[str, str]:
    """Only those that are written down: what is made when imported is checked once the data is at hand."""
    try:
        return class_value(step["_target_"], "cannot") or {}
    except ValueError:
        return {}


def _augmentation_sources(view: ConfigView) -> Iterator[str]:
    for name, step in _steps(view):
        for field in ("path", "run"):
            if field in step and step[field] is None:
                yield f"augmentation={name} needs a {field}: give augmentation.steps.{name}.{field}"


def _steps(view: ConfigView) -> Iterator[tuple[str, Mapping[str, object]]]:
    yield from view.config["augmentation"]["steps"].items()
