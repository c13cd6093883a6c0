"""Say what the fields of a class mean, for the documentation and for editors.

A meaning is written once, in one of three forms: a comment on the field's line in the YAML file of a choice that starts
from no other; a string below the field of a dataclass; a comment on the line of a field or parameter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from headtohead.config.compose.choices import Choice, choices, config_folders, groups
from headtohead.config.compose.replacements import file_of
from headtohead.config.schema.source_code import Argument, arguments, module_path
from headtohead.files.safe_read import read_text, read_yaml

_YAML_WORDS = {"None": "null", "True": "true", "False": "false"}
_PYTHON_WORD = re.compile(rf"\b({'|'.join(_YAML_WORDS)})\b")
_NAMES_FIELDS = re.compile(r"  - size: .*# (\w+(?:, \w+)*): (.+)")
_ORDER_TO_A_TOOL = re.compile(r"noqa|type:|fmt:|pragma")
_ANOTHER_PARAMETER = re.compile(r"[,*]\s*\w+\s*:")


def meanings_of(group: str, target: str) -> dict[str, str]:
    """Return the meaning of each field of a class that choices of a group name, by field; YAML comments come first."""
    own = [choice for choice in choices(group) if choice.target == target] if group in groups() else []
    written: dict[str, str] = {}
    for root in sorted(
        {lineage(choice)[0] for choice in own}, key=lambda choice: (choice.target != target, choice.name)
    ):
        written = {**comments_of(root.path), **written}
    return {**record_meanings(target), **written}


def record_meanings(target: str) -> dict[str, str]:
    """Return the meanings that the source of a class gives its fields, by field."""
    read = {item.name: _written_at(item) for item in arguments(target) or ()}
    return {name: meaning for name, meaning in read.items() if meaning}


def lineage(choice: Choice) -> list[Choice]:
    """Return the choices of the same group that a choice starts from, the first one first, and itself at the end."""
    content = read_yaml(choice.path)
    entries = content.get("defaults") if isinstance(content, dict) else None
    start = next((entry for entry in entries or () if isinstance(entry, str) and entry != "_self_"), None)
    path = file_of(choice.group, start, config_folders()) if start else None
    return [*lineage(Choice(choice.group, str(start), path)), choice] if path else [choice]


def comments_of(file: Path) -> dict[str, str]:
    """Return what the lines of a choice's file say of its fields, `state: 16  # states of each channel`; a line of its
    `defaults` may name the fields that it means, `- size: tiny  # d_model: channels of the last stage`."""
    comments: dict[str, str] = {}
    for line in read_text(file).splitlines():
        before, _, comment = line.partition("#")
        if comment and line[:1].isalpha():
            comments[before.partition(":")[0]] = comment.strip()
        elif named := _NAMES_FIELDS.match(line):
            comments |= dict.fromkeys(named[1].split(", "), named[2])
    return comments


def _written_at(item: Argument) -> str:
    text = item.documentation or _comment_on(item.module, item.line, item.name)
    return _PYTHON_WORD.sub(lambda word: _YAML_WORDS[word[0]], " ".join(text.split()))


def _comment_on(module: str, number: int, name: str) -> str:
    """Return the comment at the end of a line that holds one field or parameter and nothing else."""
    code, _, comment = _lines(module)[number - 1].partition("  # ")
    is_alone = code.lstrip().startswith(f"{name}:") and not _ANOTHER_PARAMETER.search(code)
    return comment.strip() if is_alone and not _ORDER_TO_A_TOOL.match(comment) else ""


@lru_cache(maxsize=512)
def _lines(module: str) -> list[str]:
    path = module_path(module)
    return read_text(path).splitlines() if path is not None else []
