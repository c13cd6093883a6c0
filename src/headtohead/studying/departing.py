"""A study that is asked otherwise than its file says: of one's own data, another model, other steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headtohead.building.choices import groups
from headtohead.building.configuration import compose
from headtohead.building.overrides import key_of
from headtohead.building.schema import fields_of
from headtohead.studying.study import Study

_ASKS = {
    "task", "data", "augmentation", "model", "optimizer", "parametrisation", "schedule", "finetuning", "precision",
    "trainer.max_steps", "trainer.max_epochs", "trainer.accumulate", "init_from",
}  # fmt: skip
"""What a run does, and not where it is done or how it is watched."""
_CHOICE = re.compile(r"(?P<group>\w+)=(?P<name>[\w.-]+)")


def departed(study: Study, given: Sequence[str], config_dir: str | Path | None = None) -> Study:
    """Return the study with these overrides in all its arms. A group that is chosen anew takes the study's fields of
    the old choice with it where the new one has no such fields; a question that is no longer the file's has no
    expectations, and says so."""
    asked = [override for override in given if {key_of(override), re.split(r"[./]", key_of(override))[0]} & _ASKS]
    if not asked:
        return replace(study, base=(*study.base, *given))
    lost = [override for override in study.base if _is_lost(override, given, config_dir)]
    sentences = [f"asked with {' '.join(asked)}, which is no longer the question of study {study.name}"]
    if study.expected:
        sentences[0] += ": nothing is expected of its arms"
    if lost:
        sentences.append(f"left out, since the new choice has no such field: {' '.join(lost)}")
    base = tuple(override for override in study.base if override not in lost)
    return replace(study, base=(*base, *given), expected={}, departures=tuple(sentences))


def _is_lost(override: str, given: Sequence[str], config_dir: str | Path | None) -> bool:
    group, dot, field = key_of(override).partition(".")
    names = [match["name"] for one in given if (match := _CHOICE.fullmatch(one)) and match["group"] == group]
    if not dot or not names or group not in groups(config_dir):
        return False
    fields = fields_of(group, compose("train", [f"{group}={names[-1]}"], config_dir)[group])
    return fields is not None and field.partition(".")[0] not in fields.kinds
