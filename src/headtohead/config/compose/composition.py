"""Composition: a root, the choices of its groups and the overrides become one plain, resolved dictionary."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from headtohead.config.compose.by_hydra import Config
from headtohead.config.compose.choices import choices, config_folder
from headtohead.config.compose.composer import Composer
from headtohead.config.compose.overrides import key_of
from headtohead.config.origins.continued_run import continued
from headtohead.config.origins.from_published import starts_published, with_its_choices
from headtohead.config.schema.source_code import class_value
from headtohead.data.sources.column_roles import kind_of_fields
from headtohead.files.safe_read import read_yaml

_ALWAYS = ("model", "model/size")
_NEVER = ("data", "task", "experiment", "trainer", "evaluation", "tracking")
_UNTOLD = (
    "seed",
    "name",
    "group",
    "tags",
    "notes",
    "output_dir",
    "resume_from",
    "tracking.",
    "evaluation.",
    "trainer.",
    "hydra.",
    "bench.",
)
_LONGEST_VALUE = 24


def run_name(config: Mapping[str, Any], overrides: Sequence[str], folder: Path) -> str:
    """Return a name such as "decoder_only-tiny-alibi-grammar_lm-lr0.001-s0"; `folder` is that of the configurations."""
    chosen = config["choices"]
    usual = _defaults(folder / "train.yaml", "") | _defaults(folder / "model" / f"{chosen['model']}.yaml", "model/")
    words = [str(chosen[group]) for group in _ALWAYS if chosen.get(group)]
    for group, choice in sorted(chosen.items()):
        if choice is not None and group not in (*_ALWAYS, *_NEVER) and usual.get(group) != choice:
            words.append(_word(group, str(choice)))
    if chosen.get("task") != usual.get("task"):
        words.append(str(chosen["task"]))
    words += [str(chosen.get("data")), *_values(overrides), f"s{config['seed']}"]
    return "-".join(re.sub(r"[^\w.+]+", "_", word).strip("_") for word in words if word)


def renamed(before: Mapping[str, Any], config: Mapping[str, Any], overrides: Sequence[str]) -> str:
    """The name of a run that was, and what is another in this one: "decoder_only-tiny-grammar_lm-alibi-s1"."""
    name = str(before.get("name") or "run").removesuffix(f"-s{before.get('seed')}")
    choices = (override.lstrip("+").partition("=") for override in overrides)
    words = [_word(group, choice) for group, _, choice in choices if group in config["choices"] and group not in _NEVER]
    words += [*_values(overrides), f"s{config['seed']}"]
    return "-".join([name, *(re.sub(r"[^\w.+]+", "_", word).strip("_") for word in words if word)])


def _word(group: str, choice: str) -> str:
    slot, _, package = group.partition("@")
    leaf = slot.rpartition("/")[2]
    side = f"{package.split('.')[1]}_" if package.count(".") > 1 else ""
    return f"no_{side}{leaf}" if choice == "none" else f"{side}{choice}"


def _values(overrides: Sequence[str]) -> Iterator[str]:
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        if "." in key and "/" not in key and not key.startswith(_UNTOLD) and len(value) <= _LONGEST_VALUE:
            yield f"{key.rpartition('.')[2]}{'_' if value[:1].isalpha() else ''}{value}"


def _defaults(path: Path, prefix: str) -> dict[str, str]:
    """The choices that a file's defaults list makes."""
    if not path.is_file():
        return {}
    listed = (read_yaml(path) or {}).get("defaults", [])
    pairs = (pair for entry in listed if isinstance(entry, dict) for pair in entry.items())
    return {f"{prefix}{group}": choice for group, choice in pairs}


def compose(root: str, overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> Config:
    """Return a resolved configuration with its choices listed, not yet checked for sense.

    `config_dir` holds a user's own YAML files by group, which add choices, and replace those whose name they say.
    """
    return deepcopy(Composer(root, config_dir).compose(overrides))  # whoever asks may change it


def composed_once(config_dir: str | Path | None = None) -> Callable[[tuple[str, ...]], Config]:
    """Return what composes and checks a run for the same overrides but once; nobody may change what it hands out."""
    composer = Composer("train", config_dir)
    return lru_cache(maxsize=None)(lambda overrides: _checked(overrides, composer.compose))


def compose_checked(root: str, overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> Config:
    """A named configuration whose keys are checked and whose choices go together, as far as can be known unbuilt."""
    return _checked(overrides, Composer(root, config_dir).compose)


def _checked(overrides: Sequence[str], compose: Callable[[Sequence[str]], Config]) -> Config:
    from headtohead.config.compose.steps_and_batches import resolved_length, with_batch_tokens
    from headtohead.config.rules import compatibility
    from headtohead.config.rules.unread_overrides import refuse_unread
    from headtohead.config.rules.unread_source_fields import refuse_unread_of_sources
    from headtohead.config.schema import key_checks

    composed = with_dataset_defaults(compose(overrides), overrides, compose)
    composed = with_own_tokenizer(composed, overrides)
    if starts_published(composed):
        composed = with_its_choices(composed, overrides, compose)
    config = key_checks.check(continued(composed, overrides, lambda override: compose([override])) or composed)
    refuse_unread(overrides, config)
    refuse_unread_of_sources(overrides, config)
    config = with_batch_tokens(config, overrides)
    config = resolved_length(config, overrides, compatibility.check)
    if config.get("name") is None:
        config["name"] = run_name(config, overrides, config_folder())
    return config


_PUBLISHED = ("headtohead.data.sources.hub.", "headtohead.data.streaming.")
_SPOKEN_FOR = {"task", "experiment", "init_from", "resume_from"}
"""Whoever gives one of these has decided what is to be done."""
USUAL_TASKS: Mapping[str, str] = {
    "labelled_text": "classification",
    "scored_text": "similarity",
    "tagged_text": "tagging",
    "questions": "span_qa",
    "pairs_of_text": "seq2seq",
    "images": "image_classification",
    "language": "causal_lm",
}
"""The usual tasks, by the kind of data."""
LEARNED = {"bpe", "unigram", "wordpiece", "published"}
"""Tokenizers of which the size is chosen."""
_log = logging.getLogger(__name__)


def with_dataset_defaults(
    composed: dict[str, Any], overrides: Sequence[str], compose: Callable[[Sequence[str]], dict[str, Any]]
) -> dict[str, Any]:
    """Composed again with what the set brings; as it was where a task was given, or the task at hand reads the set."""
    keys = {key_of(override) for override in overrides}
    data, task = composed.get("data") or {}, composed.get("task") or {}
    target = str(data.get("_target_") or "")
    if not target.startswith(_PUBLISHED) or not task or keys & _SPOKEN_FOR:
        return composed
    kind = class_value(target, "kind") or kind_of_fields(data)
    if kind is None or kind in (class_value(task["_target_"], "data_kinds") or (kind,)):
        return composed
    brought = [f"task={USUAL_TASKS[kind]}", *([] if "model" in keys else [f"model={model_for(USUAL_TASKS[kind])}"])]
    _log.warning("data=%s is %s: %s", composed["choices"].get("data"), kind, " ".join(brought))
    return compose([*brought, *overrides])


def with_own_tokenizer(config: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration without the size of the set's own vocabulary where another tokenizer was requested that
    takes its own, data=fineweb_edu data.tokenizer=hf:gpt2."""
    keys = {key_of(override) for override in overrides}
    data = config.get("data") or {}
    kind = str(data.get("tokenizer"))
    if "data.tokenizer" not in keys or "data.vocab_size" in keys or data.get("vocab_size") is None or kind in LEARNED:
        return config
    _log.warning("data.vocab_size=%s is dropped, since data.tokenizer=%s has its own", data["vocab_size"], kind)
    return {**config, "data": {**data, "vocab_size": None}}


def model_for(task: str) -> str:
    """Return the first of the architectures that the task names."""
    (target,) = (choice.target for choice in choices("task") if choice.name == task)
    return str(class_value(target, "families")[0])
