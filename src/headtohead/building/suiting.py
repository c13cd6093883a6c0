"""What a choice brings with it: a published set the usual task of its kind and a model that can do it, a tokenizer its
own vocabulary."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headtohead.building.choices import choices
from headtohead.building.overrides import key_of
from headtohead.building.sources import class_value
from headtohead.data.tables.parts import kind_of_fields

_PUBLISHED = ("headtohead.data.hub.", "headtohead.data.streaming.")
_SPOKEN_FOR = {"task", "experiment", "init_from", "resume_from"}
"""Whoever gives one of these has said what is to be done."""
USUAL_TASKS: Mapping[str, str] = {
    "labelled_text": "classification",
    "scored_text": "similarity",
    "tagged_text": "tagging",
    "questions": "span_qa",
    "pairs_of_text": "seq2seq",
    "images": "image_classification",
    "language": "causal_lm",
}
"""By the kind of data."""
LEARNED = {"bpe", "unigram", "wordpiece", "published"}
"""Tokenizers of which the size is chosen."""
_log = logging.getLogger(__name__)


def suited(
    composed: dict[str, Any], overrides: Sequence[str], compose: Callable[[Sequence[str]], dict[str, Any]]
) -> dict[str, Any]:
    """Composed anew with what the set brings; as it was where a task was given, or the task at hand reads the set."""
    keys = {key_of(override) for override in overrides}
    data, task = composed.get("data") or {}, composed.get("task") or {}
    target = str(data.get("_target_") or "")
    if not target.startswith(_PUBLISHED) or not task or keys & _SPOKEN_FOR:
        return composed
    kind = class_value(target, "kind") or kind_of_fields(data)
    if kind is None or kind in (class_value(task["_target_"], "data_kinds") or (kind,)):
        return composed
    brought = [f"task={USUAL_TASKS[kind]}", *([] if "model" in keys else [f"model={_model_for(USUAL_TASKS[kind])}"])]
    _log.warning("data=%s is %s: %s", composed["choices"].get("data"), kind, " ".join(brought))
    return compose([*brought, *overrides])


def with_own_tokenizer(config: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration without the size of the set's own vocabulary where another tokenizer was asked for that
    takes its own, data=fineweb_edu data.tokenizer=hf:gpt2."""
    keys = {key_of(override) for override in overrides}
    data = config.get("data") or {}
    kind = str(data.get("tokenizer"))
    if "data.tokenizer" not in keys or "data.vocab_size" in keys or data.get("vocab_size") is None or kind in LEARNED:
        return config
    _log.warning("data.vocab_size=%s is left out, since data.tokenizer=%s takes its own", data["vocab_size"], kind)
    return {**config, "data": {**data, "vocab_size": None}}


def _model_for(task: str) -> str:
    """The first of the architectures that the task names."""
    (target,) = (choice.target for choice in choices("task") if choice.name == task)
    return str(class_value(target, "families")[0])
