"""Components of the user's own that no `h2h check` has passed as they stand: training mentions them, once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from headtohead.config.schema.source_code import module_path
from headtohead.config.trust import is_shipped, targets
from headtohead.data.cache.paths import cache_root
from headtohead.files.atomic_write import replace_text

KINDS = ("mixer", "cross", "position", "norm", "feedforward")
"""Slots whose classes have laws."""


def mark_checked(target: str) -> None:
    """Remember that a class, as its source is now, obeys every law."""
    if (file := _mark_of(target)) is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, f"{target}\n")


def unchecked_sentences(config: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each class of the user's own among the model's components that has not passed."""
    for path, group, target in targets(config):
        kind = next((part for part in reversed(_slots(group)) if part in KINDS), None)
        if not group.startswith("model/") or kind is None or is_shipped(group, target) or not isinstance(target, str):
            continue
        mark = _mark_of(target)
        if mark is not None and not mark.is_file():
            yield f"{path.removesuffix('._target_')}={target} has not been checked against the laws: h2h check {target}"


def _slots(group: str) -> list[str]:
    """Return the slots that a group names: `mixers`, `feedforwards` and `early_feedforward` are of mixers and
    feed-forwards."""
    return [part.removesuffix("s").removeprefix("early_") for part in group.split("/")]


def _mark_of(target: str) -> Path | None:
    """Return the file that stands for the class and its source; None where there is no source to read."""
    source = module_path(target.rpartition(".")[0])
    if source is None:
        return None
    digest = hashlib.sha256(f"{target}\n".encode() + source.read_bytes()).hexdigest()
    return cache_root() / "checked" / digest
