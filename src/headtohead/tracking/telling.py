"""What W&B is told of a run beside its numbers, by which its page groups, filters and colours runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headtohead.tracking.agent import sweep_id
from headtohead.tracking.record import RunRecord
from headtohead.tracking.wandb_settings import setting

BESIDE = ("arm", "place", "content_hash", "environment")
"""What stands in W&B's configuration of a run besides its own."""
_MIXER, _OF_A_PATTERN = "model/mixer", "model/mixer@"
_TAGGED = ("model", _MIXER, "model/position", "model/norm")
"""Choices by which the runs of a project are told apart."""
_LONGEST_TAG = 64  # W&B's limit


def beside_config(record: RunRecord) -> dict[str, Any]:
    """`arm` is what `h2h compare` calls one, in every run; the place in a study where there is one."""
    place = {"place": asdict(record.place)} if record.place.arm else {}
    content = {"content_hash": record.content_hash} if record.content_hash else {}
    arm = record.place.arm or record.name or record.id
    return {"arm": arm, **place, **content, "environment": asdict(record.environment)}


def group_of(record: RunRecord) -> str:
    """The run's own, such as its study; else WANDB_RUN_GROUP, and then the sweep whose agent started it."""
    sweep = sweep_id()
    if record.group not in (RunRecord.group, f"sweep-{sweep}"):
        return record.group
    return setting("run_group") or (sweep if sweep and record.group == RunRecord.group else record.group)


def job_of(record: RunRecord) -> str:
    """Trials of a tuning and runs on a part of the budget are told apart from those that a verdict rests on; of what is
    only a training, WANDB_JOB_TYPE."""
    if record.place.trial is not None:
        return "trial"
    if record.place.share != 1:
        return "part"
    return (setting("run_job_type") if record.job_type == RunRecord.job_type else None) or record.job_type


def tags_of(record: RunRecord) -> list[str]:
    """The user's own, else those of WANDB_TAGS; the family with its main parts, all mixers of a pattern among them; the
    content. Each once."""
    choices: dict[str, Any] = record.config.get("choices") or {}
    mixed = {group: choice for group, choice in choices.items() if group.startswith(_OF_A_PATTERN)}
    groups = [name for group in _TAGGED for name in (mixed if mixed and group == _MIXER else (group,))]
    parts = [_tag(group, str(choices[group])) for group in groups if choices.get(group)]
    content = [f"content-{record.content_hash}"] if record.content_hash else []
    own = record.tags or [tag.strip() for tag in (setting("run_tags") or "").split(",")]
    return list(dict.fromkeys(tag[:_LONGEST_TAG] for tag in (*own, *parts, *content) if tag))


def _tag(group: str, choice: str) -> str:
    return f"no {group.rpartition('/')[2]}" if choice == "none" else choice
