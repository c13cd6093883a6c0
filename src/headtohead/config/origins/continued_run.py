"""A continued run keeps its own configuration: what is given beside `resume_from` changes that, not the defaults."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.config.compose.overrides import key_of
from headtohead.config.compose.replacements import note_replaced
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.trust import check_recorded

if TYPE_CHECKING:
    from headtohead.records.record import RunRecord

_log = logging.getLogger(__name__)
_TRAINED = (
    "task", "data", "augmentation", "model", "optimizer", "parametrisation", "schedule", "finetuning", "precision",
    "experiment", "seed", "init_from",
)  # fmt: skip
"""The fields that stay as they were: with another value there it would be another run."""

_NAMED = {
    "name": "start a new run under it",
    "group": "move its folder",
    "output_dir": "move its folder",
    "tags": "h2h runs tag RUN --add TAG",
    "notes": 'h2h runs note RUN --text "..."',
}
"""Fields that say what the run's record and folder say already, and what changes these."""


def continued(
    composed: Mapping[str, Any], overrides: Sequence[str], default: Callable[[str], Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The recorded configuration of the run to continue, with the overrides in it; None where none is continued.

    `composed` is the defaults with the overrides in them, and `default` gives those with one override alone.
    """
    run = composed.get("resume_from")
    recorded = _recorded(Path(run)) if isinstance(run, str) and run else None
    if recorded is None:
        return None
    config = _completed(recorded, composed)
    for key in map(key_of, overrides):
        if key in composed["choices"]:
            _choose(key, config, composed, default)
        else:
            _set(key, config, composed)
    note_replaced(config, recorded, composed, [key for key in map(key_of, overrides) if key in composed["choices"]])
    return {**config, "resume_from": run}


def content_hash(config: Mapping[str, object]) -> str:
    """Return the hash of what decides the result; of a run that continues under other settings of the trainer, which
    neither configuration alone repeats, that of both."""
    from headtohead.config.run_id import deciding, run_id

    own, run = run_id(config), config.get("resume_from")
    record = _record(Path(run)) if isinstance(run, str) and run else None
    if record is None or not record.config.get("trainer"):
        return own
    before, now = (deciding(one)["trainer"] for one in (record.config, config))
    changed = [field for field in now if field in before and before[field] != now[field]]
    if not changed:
        return record.content_hash or own
    _log.warning(
        "resume_from=%s continues with %s: no run of either configuration alone repeats it",
        run,
        " and ".join(f"trainer.{name}={show(now[name])} (it was {show(before[name])})" for name in changed),
    )
    return hashlib.sha256(f"{record.content_hash} {own}".encode()).hexdigest()[: len(own)]


def _choose(
    group: str, config: dict[str, Any], composed: Mapping[str, Any], default: Callable[[str], Mapping[str, Any]]
) -> None:
    """Replace the choice of a group: the run takes over what distinguishes the new choice from the old one."""
    chosen, before = composed["choices"][group], config["choices"].get(group)
    if chosen == before:
        return
    if group.partition("/")[0] in _TRAINED:
        raise _refusal(group, chosen, before, str(composed["resume_from"]))
    had = default(f"{group}={before}")[group]
    config[group] |= {key: value for key, value in composed[group].items() if had.get(key) != value}
    config["choices"][group] = chosen


def _set(key: str, config: dict[str, Any], composed: Mapping[str, object]) -> None:
    node, value, last = config, _at(composed, key), key.rpartition(".")[2]
    if key.partition(".")[0] in _TRAINED:
        if value is not None and (before := _at(config, key)) != value:
            raise _refusal(key, value, before, str(composed["resume_from"]))
        return
    if key in _NAMED and value != _at(config, key):
        raise ConfigurationError(
            f"{key}={show(value)} has no effect on a run that is continued, which keeps its own: leave it out, or "
            f"instead {_NAMED[key]}"
        )
    for name in key.split(".")[:-1]:
        node = node[name]
    node[last] = value


def _at(config: Mapping[str, object], key: str) -> Any:
    node: Any = config
    for name in key.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def _refusal(key: str, value: Any, before: Any, run: str) -> ConfigurationError:
    return ConfigurationError(
        f"{key}={show(value)} cannot be given to a run that was trained with {key}={show(before)}: remove it, or "
        f"start a new run, with init_from={run} from these weights"
    )


def _recorded(run: Path) -> dict[str, Any] | None:
    """Return None where there is no record, which a rule refuses."""
    from headtohead.records.run_folder import RECORD

    if (record := _record(run)) is None:
        return None
    config = record.config
    check_recorded(config, (run if run.is_dir() else run.parent) / RECORD)
    return {**config, "choices": dict(config.get("choices") or {})} if config else None


def _record(run: Path) -> RunRecord | None:
    """Return the record of a run, which is named by its folder or a file in it; None where there is none."""
    from headtohead.records.run_folder import RECORD, RunFolder

    folder = run if run.is_dir() else run.parent
    return RunFolder.open(folder).read_record_as_written() if os.path.lexists(folder / RECORD) else None


def _completed(config: dict[str, Any], composed: Mapping[str, Any]) -> dict[str, Any]:
    """Add the usual choice of each group that did not exist when the run began."""
    new = {key: value for key, value in composed.items() if key not in config}
    choices = {group: choice for group, choice in composed["choices"].items() if group in new}
    return {**config, **new, "choices": {**choices, **config["choices"]}}
