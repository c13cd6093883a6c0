"""Fields that are turned into others: trainer.max_epochs into trainer.max_steps, in which budgets are counted, and
trainer.batch_tokens into data.batch_size and trainer.accumulate."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError
from headtohead.config.schema.source_code import class_value
from headtohead.data.sources.column_roles import kind_of_fields

BATCH_TOKENS = "trainer.batch_tokens"
_AT_ONCE = 16_384
"""Tokens that a device reads at once, unless trainer.accumulate is given."""
_log = logging.getLogger(__name__)


def with_batch_tokens(config: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration with as many rows in a batch as have these tokens, in parts that a device can hold."""
    trainer, data = config.get("trainer") or {}, config.get("data") or {}
    tokens = trainer.get("batch_tokens")
    run = config.get("resume_from")
    if tokens is None or (run and not Path(run).exists()):  # which a rule refuses
        return dict(config)
    keys = {key_of(override) for override in overrides}
    if "data.batch_size" in keys:
        raise ConfigurationError(
            f"{BATCH_TOKENS}={tokens} and data.batch_size both say how large a batch is: give one of them"
        )
    length = _length_of_rows(config)
    if length is None or "batch_size" not in data:
        alike = (
            "give all data.sources the same context_length"
            if "sources" in data
            else "cut the rows (data.max_length=128)"
        )
        raise ConfigurationError(
            f"{BATCH_TOKENS}={tokens} needs rows of one length, and data={config['choices'].get('data')} has none: "
            f"give data.batch_size and trainer.accumulate, or {alike}"
        )
    processes = (trainer.get("devices") or 1) * (trainer.get("num_nodes") or 1)
    devices = processes // (trainer.get("tensor_parallel") or 1)
    if tokens < length * devices:
        raise ConfigurationError(
            f"{BATCH_TOKENS}={tokens} is less than a row of {length} tokens for each of {devices} devices"
        )
    of_device, parts = _solved(tokens // (length * devices), max(1, _AT_ONCE // length))
    if "trainer.accumulate" in keys:
        parts = trainer["accumulate"]
        of_device = max(1, tokens // (length * devices * parts)) * parts
    rows = of_device * devices
    if run and rows != data["batch_size"]:
        raise ConfigurationError(
            f"{BATCH_TOKENS}={tokens} makes batches of {rows} rows, and the run to continue was trained with "
            f"data.batch_size={data['batch_size']}: leave it out, or start a new run, with init_from={run} from these "
            "weights"
        )
    _log.warning(
        "%s=%d: batches of %d rows of %d tokens (%d tokens), %d at once on each of %d device%s: "
        "data.batch_size=%d trainer.accumulate=%d",
        BATCH_TOKENS, tokens, rows, length, rows * length, of_device // parts, devices, "" if devices == 1 else "s",
        rows, parts,
    )  # fmt: skip
    return {
        **config,
        "data": {**data, "batch_size": rows},
        "trainer": {**trainer, "accumulate": parts, "batch_tokens": None},
    }


def _length_of_rows(config: Mapping[str, Any]) -> int | None:
    """Return the tokens of each row, of a mix those of all its sources; None where rows differ in length."""
    data = config["data"]
    if not _reads_rows_of_one_length(config):
        length: int | None = data.get("max_length")
        return length
    lengths = {own.get("context_length") for own in (data.get("sources") or {"data": data}).values()}
    return lengths.pop() if len(lengths) == 1 else None


def _reads_rows_of_one_length(config: Mapping[str, Mapping[str, object]]) -> bool:
    """Return whether rows are cut from a corpus; the columns of files are known once they are read, and are taken for
    what the task reads."""
    kind = class_value(str(config["data"]["_target_"]), "kind") or kind_of_fields(config["data"])
    if kind is not None:
        return bool(kind == "language")
    reads_corpora = "language" in (class_value(str(config["task"]["_target_"]), "data_kinds") or ())
    return reads_corpora and not config["task"].get("without_labels")


def _solved(rows: int, at_once: int) -> tuple[int, int]:
    """Return the rows of a device and the parts in which it reads them: all rows where they divide well, else a few
    fewer."""
    parts = -(-rows // at_once)
    if rows % parts:
        rows -= rows % parts
    return rows, parts


EPOCHS, STEPS = "trainer.max_epochs", "trainer.max_steps"
_UNKNOWN = 2**62
"""A number of steps that no rule about schedules refuses, used while the rows have not been counted."""


def refuse_both(overrides: Sequence[str]) -> None:
    """Refuse a length that is given twice."""
    by_key = {key_of(override): override for override in overrides}
    if EPOCHS in by_key and STEPS in by_key and not by_key[EPOCHS].endswith("=null"):
        raise ConfigurationError(f"{by_key[EPOCHS]} and {by_key[STEPS]} both say how long to train: give one of them")


def in_epochs(config: Mapping[str, Any]) -> int | None:
    """The number of epochs that are still to be turned into steps."""
    epochs: int | None = (config.get("trainer") or {}).get("max_epochs")
    return epochs


def resolved_length(
    config: Mapping[str, Any], overrides: Sequence[str], check: Callable[[Mapping[str, Any]], None]
) -> dict[str, Any]:
    """Return the configuration in steps, checked; where rows have to be counted, all that can be is checked before."""
    if in_epochs(config) is not None:
        check({**config, "trainer": {**config["trainer"], "max_steps": _UNKNOWN}})
    in_steps_config = in_steps(config, overrides)
    check(in_steps_config)
    return in_steps_config


def in_steps(config: Mapping[str, Any], overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The same run with its length in optimizer steps. Of epochs and steps, what the later override gives counts."""
    epochs, keys = in_epochs(config), [key_of(override) for override in overrides]
    if epochs is None:
        return dict(config)
    trainer = {**config["trainer"], "max_epochs": None}
    last = next((key for key in reversed(keys) if key in (EPOCHS, STEPS)), EPOCHS)
    if last == EPOCHS:
        read = {name: config.get(name) for name in ("data", "init_from", "resume_from", "choices")}
        trainer["max_steps"] = epochs * _steps_of_epoch(json.dumps(read), trainer.get("train_rows"))
    return {**config, "trainer": trainer}


@lru_cache(maxsize=64)
def _steps_of_epoch(config: str, train_rows: int | None) -> int:
    """Return how many full batches the run's training rows make."""
    from headtohead.config.origins.from_weights import build_data
    from headtohead.data.batches.row_order import EpochOrder, OrderedSplit
    from headtohead.data.splits.sample_splits import train_subset

    data = build_data(json.loads(config))
    train = data.split("train")
    if isinstance(train, OrderedSplit):
        raise ConfigurationError(
            f"{EPOCHS} counts how often all rows are read, and this data streams them, so that nobody knows how many "
            f"there are: give {STEPS}"
        )
    return EpochOrder(train_subset(train, train_rows, 0), batch_size=data.batch_size, seed=0).steps_per_epoch
