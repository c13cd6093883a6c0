"""trainer.batch_tokens, tokens of an optimizer step, turned into data.batch_size and trainer.accumulate."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError
from headtohead.config.schema.source_code import class_value

FIELD = "trainer.batch_tokens"
_AT_ONCE = 16_384
"""Tokens that a device reads at once, unless trainer.accumulate is given."""
_log = logging.getLogger(__name__)


def with_batch_tokens(config: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration with as many rows in a batch as have these tokens, in parts that a device can hold."""
    trainer, data = config.get("trainer") or {}, config.get("data") or {}
    tokens = trainer.get("batch_tokens")
    if tokens is None or config.get("resume_from"):
        return dict(config)
    keys = {key_of(override) for override in overrides}
    if "data.batch_size" in keys:
        raise ConfigurationError(
            f"{FIELD}={tokens} and data.batch_size both say how large a batch is: give one of them"
        )
    reads_text = "language" in (class_value(config["task"]["_target_"], "data_kinds") or ())
    length = data.get("context_length" if reads_text else "max_length")
    if length is None or "batch_size" not in data:
        raise ConfigurationError(
            f"{FIELD}={tokens} needs rows of one length, and data={config['choices'].get('data')} has none: give "
            "data.batch_size and trainer.accumulate, or cut the rows (data.max_length=128)"
        )
    processes = (trainer.get("devices") or 1) * (trainer.get("num_nodes") or 1)
    devices = processes // (trainer.get("tensor_parallel") or 1)
    if tokens < length * devices:
        raise ConfigurationError(
            f"{FIELD}={tokens} is less than a row of {length} tokens for each of {devices} devices"
        )
    of_device, parts = _solved(tokens // (length * devices), max(1, _AT_ONCE // length))
    if "trainer.accumulate" in keys:
        parts = trainer["accumulate"]
        of_device = max(1, tokens // (length * devices * parts)) * parts
    rows = of_device * devices
    _log.warning(
        "%s=%d: batches of %d rows of %d tokens (%d tokens), %d at once on each of %d device%s: "
        "data.batch_size=%d trainer.accumulate=%d",
        FIELD, tokens, rows, length, rows * length, of_device // parts, devices, "" if devices == 1 else "s",
        rows, parts,
    )  # fmt: skip
    return {
        **config,
        "data": {**data, "batch_size": rows},
        "trainer": {**trainer, "accumulate": parts, "batch_tokens": None},
    }


def _solved(rows: int, at_once: int) -> tuple[int, int]:
    """Return the rows of a device and the parts in which it reads them: all rows where they divide well, else a few
    fewer."""
    parts = -(-rows // at_once)
    if rows % parts:
        rows -= rows % parts
    return rows, parts
