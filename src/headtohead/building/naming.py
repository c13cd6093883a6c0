"""A name that explains the run: model, size, data, every other choice and value that is not the default, seed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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
    """For example "decoder_only-tiny-alibi-grammar_lm-lr0.001-s0"; `folder` is that of the configurations."""
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
    import yaml

    if not path.is_file():
        return {}
    listed = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("defaults", [])
    pairs = (pair for entry in listed if isinstance(entry, dict) for pair in entry.items())
    return {f"{prefix}{group}": choice for group, choice in pairs}
