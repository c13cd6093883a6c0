"""Mentions what is worth a sentence before a run, and is no reason to refuse it: classes that no `h2h check` has
passed, and fields that have no effect. Fields of the head are not refused where the task's head does not read them,
since a study over many tasks gives all of them the same fields."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache

from headtohead.architectures.head_names import HEADS
from headtohead.config.compose.choices import choice_names, choices, config_folders
from headtohead.config.compose.plain_choices import GROUP as SIZE
from headtohead.config.compose.plain_choices import fields_of_size
from headtohead.config.errors import show
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.run_config import Node
from headtohead.config.schema.source_code import arguments, field_groups
from headtohead.config.unchecked_classes import unchecked_sentences
from headtohead.files.safe_read import read_yaml
from headtohead.training.parallel.devices import may_have_gpu

OPTIONS: Mapping[str, str] = {
    "tie_weights": "tied_to",
    "head_bias": "bias",
    "logit_cap": "logits",
    "logit_scale": "logits",
    "pooling": "pooling",
    "pooler": "pooler",
    "head_activation": "activation",
    "head_dense_bias": "dense_bias",
}
"""The fields that are for the head alone, and the parameter of a head's constructor that each becomes."""
_log = logging.getLogger(__name__)


def mentions(config: Node) -> Iterator[str]:
    """Yield a sentence for each class that no `h2h check` has passed, and each field that has no effect."""
    yield from unchecked_sentences(config)
    yield from unread_head_fields(config)
    yield from unread_num_heads(config)
    is_offloaded = config["checkpointing"].get("kind") == "offload"
    if is_offloaded and (config["trainer"]["accelerator"] == "cpu" or not may_have_gpu()):
        yield "checkpointing=offload has no effect on a CPU, whose memory holds the activations already"


def mention(config: Node) -> None:
    """Write them to the log, each once in a process."""
    for sentence in mentions(config):
        _mention(sentence)


@lru_cache(maxsize=64)
def _mention(sentence: str) -> None:
    _log.warning("%s", sentence)


def unread_head_fields(config: Node) -> Iterator[str]:
    """Yield a sentence for each field that is not as its choice has it, and that the head of the task does not read."""
    view = ConfigView(config)
    head = view.task_value("head")
    if head not in HEADS or "output" not in field_groups(view.model["_target_"]) or config.get("init_from"):
        return
    read = {item.name for item in arguments(HEADS[head]) or ()}
    ignored = [field for field, option in OPTIONS.items() if field in view.model and option not in read]
    usual = _of_choice(config) if ignored else {}
    for field in ignored:
        if field in usual and view.model[field] != usual[field]:
            typed = f"model.{field}={show(view.model[field])}"
            yield f"{typed} has no effect: the head of {view.chosen('task')}, {head}, does not read it"


def unread_num_heads(config: Node) -> Iterator[str]:
    """Yield a sentence for a number of heads that is not that of the size, and of which no layer has any."""
    view, size = ConfigView(config), (config.get("choices") or {}).get(SIZE)
    heads = view.model.get("num_heads")
    if heads is None or size not in choice_names(SIZE) or view.reads_heads:
        return
    if heads != fields_of_size(size, config_folders()).get("num_heads"):
        yield f"model.num_heads={heads} has no effect: no layer of {view.chosen('model')} has heads"


def _of_choice(config: Node) -> Mapping[str, object]:
    """Return what the file of the chosen model says; nothing where it was not chosen by name."""
    chosen = (config.get("choices") or {}).get("model")
    file = next((choice.path for choice in choices("model") if choice.name == chosen), None)
    return {} if file is None else read_yaml(file) or {}
