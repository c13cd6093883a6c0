"""The id of a run on W&B: random, minted once, written into the record first, and used by one folder alone."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

from headtohead.tracking.agent import sweep_id
from headtohead.tracking.record import RunRecord, WandbLink
from headtohead.tracking.store import RECORD, RunFolder
from headtohead.tracking.strict_json import RecordError

_ID_BYTES = 8

_log = logging.getLogger(__name__)


def settle_id(record: RunRecord, folder: RunFolder) -> None:
    """Write the id into the record before W&B's client starts, so that a run that is killed finds it again.

    An agent's run has the agent's id; the copy of a run folder gets a new one.
    """
    link = record.wandb
    if (original := original_of(folder.path, link)) is not None:
        _log.warning(
            "this folder is a copy of %s: W&B run %s stays with that one, and this one gets a run of its own",
            os.path.relpath(original),
            link.id,
        )
        record.wandb = link = WandbLink()
    given = os.environ.get("WANDB_RUN_ID") if sweep_id() else None
    link.id = given or link.id or secrets.token_hex(_ID_BYTES)
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
