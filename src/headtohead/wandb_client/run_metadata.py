"""A run's id on W&B, and what describes it there beside its numbers, so that its page can group, filter and colour
runs."""

from __future__ import annotations

import logging
import os
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headtohead.records.record import RunRecord, WandbLink
from headtohead.records.run_folder import RECORD, RunFolder
from headtohead.records.strict_json import RecordError
from headtohead.wandb_client.connection import TrackingSettings, setting
from headtohead.wandb_client.registered_sweeps import sweep_id

BESIDE = ("arm", "place", "content_hash", "environment")
"""The entries of W&B's configuration of a run besides the run's own."""
TRIAL, PART = "trial", "part"
"""Job types of runs that no verdict rests on."""
_MIXER, _OF_A_PATTERN = "model/mixer", "model/mixer@"
_TAGGED = ("model", _MIXER, "model/position", "model/norm")
"""Choices by which the runs of a project are told apart."""
_LONGEST_TAG = 64  # W&B's limit


def beside_config(record: RunRecord) -> dict[str, Any]:
    """`arm` is what `h2h compare` calls one, in every run; the place in a study where there is one."""
    position = {"place": asdict(record.place)} if record.place.arm else {}
    content = {"content_hash": record.content_hash} if record.content_hash else {}
    return {"arm": record.arm, **position, **content, "environment": asdict(record.environment)}


def group_of(record: RunRecord) -> str:
    """The run's own, such as its study; else WANDB_RUN_GROUP, and then the sweep whose agent started it."""
    sweep = sweep_id()
    if record.group not in (RunRecord.group, f"sweep-{sweep}"):
        return record.group
    return setting("run_group") or (sweep if sweep and record.group == RunRecord.group else record.group)


def job_of(record: RunRecord, settings: TrackingSettings) -> str:
    """Trials of a tuning and runs on part of the budget are told apart from those that a verdict rests on; of what is
    only a training, tracking.job_type and then WANDB_JOB_TYPE."""
    if record.place.trial is not None:
        return TRIAL
    if record.place.share != 1:
        return PART
    if record.job_type != RunRecord.job_type:
        return record.job_type
    return settings.job_type or setting("run_job_type") or record.job_type


def tags_of(record: RunRecord) -> list[str]:
    """Return the user's own, else those of WANDB_TAGS; the family with its main parts, all mixers of a pattern among
    them; the content. Each once."""
    choices: dict[str, Any] = record.config.get("choices") or {}
    mixed = {group: choice for group, choice in choices.items() if group.startswith(_OF_A_PATTERN)}
    groups = [name for group in _TAGGED for name in (mixed if mixed and group == _MIXER else (group,))]
    parts = [_tag(group, str(choices[group])) for group in groups if choices.get(group)]
    content = [f"content-{record.content_hash}"] if record.content_hash else []
    own = record.tags or [tag.strip() for tag in (setting("run_tags") or "").split(",")]
    return list(dict.fromkeys(tag[:_LONGEST_TAG] for tag in (*own, *parts, *content) if tag))


def _tag(group: str, choice: str) -> str:
    return f"no {group.rpartition('/')[2]}" if choice == "none" else choice


_ID_BYTES = 8

_log = logging.getLogger(__name__)


def assign_run_id(record: RunRecord, folder: RunFolder) -> None:
    """Write the id into the record before W&B's client starts, so that a run that is killed finds it again.

    An agent's run has the agent's id; the copy of a run folder gets a new one.
    """
    link = record.wandb
    if (original := original_of(folder.path, link)) is not None:
        _log.warning(
            "this folder is a copy of %s, which keeps W&B run %s; this one gets a new run",
            os.path.relpath(original),
            link.id,
        )
        record.wandb = link = WandbLink()
    agent_id = os.environ.get("WANDB_RUN_ID") if sweep_id() else None
    link.id = agent_id or link.id or secrets.token_hex(_ID_BYTES)
    link.folder = str(folder.path)
    folder.write_record(record)


def original_of(folder: Path, link: WandbLink) -> Path | None:
    """Return the folder that this one is a copy of; None for a folder of its own, and for one that was moved."""
    if link.id is None or link.folder is None:
        return None
    other = Path(link.folder)
    try:
        if not (other / RECORD).is_file() or other.samefile(folder):
            return None
        return other if RunFolder(other).read_record_as_written().wandb.id == link.id else None
    except (OSError, RecordError):
        return None
