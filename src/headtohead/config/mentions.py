"""Mentions what is worth a sentence before a run, and is no reason to refuse it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import lru_cache

from headtohead.config.run_config import Node
from headtohead.config.unchecked_classes import unchecked_sentences
from headtohead.config.unread_head_fields import unread_head_fields
from headtohead.training.parallel.devices import device_for

_log = logging.getLogger(__name__)


def mentions(config: Node) -> Iterator[str]:
    """Yield a sentence for each class that no `h2h check` has passed, and each field that has no effect."""
    yield from unchecked_sentences(config)
    yield from unread_head_fields(config)
    if config["checkpointing"].get("kind") == "offload" and device_for(config["trainer"]["accelerator"]).type == "cpu":
        yield "checkpointing=offload has no effect on a CPU, whose memory holds the activations already"


def mention(config: Node) -> None:
    """Write them to the log, each once in a process."""
    for sentence in mentions(config):
        _mention(sentence)


@lru_cache(maxsize=64)
def _mention(sentence: str) -> None:
    _log.warning("%s", sentence)
