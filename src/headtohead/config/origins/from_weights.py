"""Take over from the run that another starts from, besides weights, how text becomes tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import torch

from headtohead.components.component import Position
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.instantiate import make
from headtohead.config.rules.parametrisation_rules import scaling
from headtohead.config.schema.source_code import class_value
from headtohead.config.trust import recorded_config
from headtohead.data.data_source import DataSource, DataSpec
from headtohead.pretrained.checkpoint_reference import PREFIX
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder

FIELD = "max_length"


def with_row_limit(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with `data.max_length` set to what the weights of `init_from` have positions for, where
    the data have this field and nobody set it."""
    data = config["data"]
    if not config.get("init_from") or FIELD not in data or data[FIELD] is not None:
        return dict(config)
    limit = _learned_positions(config)
    return dict(config) if limit is None else {**config, "data": {**data, FIELD: limit}}


def report_cut(config: Mapping[str, Any], limited: Mapping[str, Any], data: DataSource) -> None:
    """Say in one line how many texts were cut, where `with_row_limit` set the limit."""
    limit = limited["data"].get(FIELD)
    if limit == config["data"].get(FIELD):
        return
    shares = data.reading().get("cut_share", {})
    cut = {split: round(share * len(data.split(split))) for split, share in shares.items()}
    rows = sum(len(data.split(split)) for split in shares)
    _log.warning(
        "init_from=%s knows %d positions: %s of %s rows are cut to as many tokens (data.max_length=%d)",
        config["init_from"], limit, f"{sum(cut.values()):,}", f"{rows:,}", limit,
    )  # fmt: skip


def _learned_positions(config: Mapping[str, Any]) -> int | None:
    """Return the rows of the table of positions; None for weights without one, and for a model of another position."""
    origin = str(config["init_from"])
    if origin.startswith(PREFIX):
        longest = config["model"].get(FIELD)
        return int(longest) if longest else None
    run = RunFolder.open(origin.removeprefix("run:"))
    there = recorded_config(run)
    if _position(there) != _position(config):
        return None
    return _rows_of_table(str(run.path), run.path.stat().st_mtime_ns)


def _position(config: Mapping[str, Any]) -> object:
    return (config["model"].get("position") or {}).get("_target_")


@lru_cache(maxsize=16)
def _rows_of_table(folder: str, changed: int) -> int | None:
    """The model is made without memory, to ask its position."""
    del changed
    config = recorded_config(RunFolder.open(folder))
    if class_value(config["model"]["_target_"], "needs_real_device"):
        return None
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = make(config["model"], head=class_value(config["task"]["_target_"], "head"))
    positions = [part for part in model.modules() if isinstance(part, Position)]
    tables = [part for part in positions if next(part.parameters(), None) is not None]
    return min((part.max_length for part in tables if part.max_length is not None), default=None)


_MAY_DIFFER = (
    "vocab_size", "max_length", "max_target_length", "num_classes", "image_shape", "pooling", "dropout", "drop_path",
    "tie_weights", "head_bias", "logit_cap", "logit_scale", "head_activation", "head_dense_bias", "pooler",
    "scale_logits", "initialisation", "num_segments", "decoder_width", "decoder_layers", "decoder_heads",
)  # fmt: skip
"""The fields of a model that may differ: those of the head, those that weights do not tell, and those that their shapes
tell anyway."""
_log = logging.getLogger(__name__)


def origin_of(text: str) -> str:
    """A published checkpoint as it is, hf:NAME; a run by its folder, given as run:outputs/GROUP/RUN or without run:."""
    return text.removeprefix("run:")


def tokenizer_to_take(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """That of the run whose weights this one starts from; once there is a folder of its own, that folder has it."""
    if not config.get("init_from"):
        return None
    own, first = config.get("resume_from"), origin_of(config["init_from"])
    if own and (facts := RunFolder.open(own).read_tokenizer()) is not None:
        return facts
    return _published_tokenizer(first) if first.startswith(PREFIX) else RunFolder.open(first).read_tokenizer()


def _published_tokenizer(origin: str) -> dict[str, Any] | None:
    from headtohead.pretrained.hub_checkpoint import open_checkpoint, tokenizer_of
    from headtohead.pretrained.safetensor_files import CheckpointError

    try:
        tokenizer = tokenizer_of(open_checkpoint(origin))
    except CheckpointError as error:
        raise ConfigurationError(str(error)) from None
    return None if tokenizer is None else tokenizer.to_dict()


def as_started(config: Mapping[str, Any], data: DataSource) -> dict[str, Any]:
    """The configuration with the tokenizer that is really used, and with rows as long as the weights can read, where
    the data are cut to a length."""
    config = dict(config) if FIELD in data.ignored_fields() else with_row_limit(config)
    facts, node = tokenizer_to_take(config), config["data"]
    if facts is None or "tokenizer" not in node:
        return config
    return {**config, "data": {**node, "tokenizer": facts["kind"], "vocab_size": None}}


def check_start(config: Mapping[str, Any], spec: DataSpec) -> None:
    """Raises ConfigurationError where the same token ids would mean other things than to the run it starts from."""
    if not config.get("init_from") or config.get("resume_from"):
        return
    if config["init_from"].startswith(PREFIX):
        _check_published(config, spec)
        return
    record = RunFolder.open(origin_of(config["init_from"])).read_record_as_written()
    if spec.vocab_size and not _same_ids(config, spec, record):
        raise ConfigurationError(
            f"init_from={config['init_from']} was trained on data={_data(record.config)}, and the token ids of "
            f"data={_data(config)} mean nothing to its weights: choose data of the same kind of tokens, or start "
            "without init_from"
        )
    if scaling(record.config) != scaling(config):
        theirs, ours = (_parametrisation(of) for of in (record.config, config))
        raise ConfigurationError(
            f"init_from={config['init_from']} was trained under {theirs}, whose multipliers are not part of its "
            f"weights, and this run has {ours}: give both the same parametrisation"
        )
    for difference in _differences(record.config.get("model", {}), config["model"], "model"):
        _log.warning("init_from=%s: %s, which its weights were not trained for", config["init_from"], difference)


def _check_published(config: Mapping[str, Any], spec: DataSpec) -> None:
    if not spec.vocab_size:
        return
    if not spec.tokenizer_hash:
        _log.warning(
            "init_from=%s was trained with other token ids than those of data=%s: its embedding is of no use here",
            config["init_from"],
            _data(config),
        )
    elif config["data"].get("tokenizer") != "published":
        raise ConfigurationError(
            f"init_from={config['init_from']} comes without a tokenizer.json, and data={_data(config)} is text: save "
            "its fast tokenizer beside its weights, or choose data with token ids of its own"
        )


def _same_ids(config: Mapping[str, Any], spec: DataSpec, record: RunRecord) -> bool:
    if spec.tokenizer_hash or record.comparability.tokenizer:
        return spec.tokenizer_hash == record.comparability.tokenizer
    return bool(config["data"]["_target_"] == record.config.get("data", {}).get("_target_"))


def _data(config: Mapping[str, Any]) -> str:
    choice = (config.get("choices") or {}).get("data")
    return str(choice or config.get("data", {}).get("_target_", "").rpartition(".")[2])


def _parametrisation(config: Mapping[str, object]) -> str:
    node = scaling(config)
    if node is None:
        return "parametrisation=standard"
    return f"parametrisation=mup of base {node['base_width']} and heads of {node['base_head_width']}"


def _differences(there: Any, here: Any, path: str) -> Iterator[str]:
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in [*there, *(key for key in here if key not in there)]:
            if key not in _MAY_DIFFER:
                yield from _differences(there.get(key), here.get(key), f"{path}.{key}")
    elif there != here:
        yield f"{path}={show(here)} differs from {show(there)} there"


def build_data(config: Mapping[str, object]) -> DataSource:
    """A run that starts from another reads text as that one did."""
    data: DataSource = make(with_row_limit(config)["data"])
    if (tokenizer := tokenizer_to_take(config)) is not None:
        data.take_tokenizer(tokenizer)
    return data
