"""Tables that hold no text as a whole: pictures, conversations, lists of words, numbers; and what to do with each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from headtohead.data.sources.columns import names_in_short
from headtohead.diagnostics.column_guess import ColumnFacts, holds_words, likely_label


def without_a_text(
    choice: str, path: Path, facts: Sequence[ColumnFacts], content: Mapping[str, Sequence[object]]
) -> str:
    """Return why a table has nothing to read, and the way out."""
    shown = names_in_short([f"{column.name} ({column.kind})" for column in facts])
    opening = f"{path} has the columns {shown}"
    for column in facts:
        values = [value for value in content[column.name] if value not in (None, "", [])]
        if values and all(isinstance(value, Mapping) and isinstance(value.get("bytes"), bytes) for value in values):
            return f"{column.name} of {path} holds pictures: {_command_for_pictures(path, column, facts, len(values))}"
        if (key := _key_of_turns(values)) is not None:
            joined = f"' '.join(turn['{key}'] for turn in row['{column.name}'])"
            return (
                f"{opening}; {column.name} holds conversations: write each as one text, {joined}, and name its column"
            )
        if holds_words(column) and all(isinstance(word, str) for value in values for word in _entries(value)):
            joined = f"' '.join(row['{column.name}'])"
            return (
                f"{opening}; {column.name} holds lists of words: write each as one text, {joined}, and name its column"
            )
    return (
        f"{opening}, and none of them is a text with more than one value: models read texts, and no columns of "
        "numbers, lists or records. Where one is a text after all, or a list of words with a list of tags, name it: "
        f"data={choice} data.path={path} data.text_column={facts[0].name}"
    )


def _command_for_pictures(path: Path, column: ColumnFacts, facts: Sequence[ColumnFacts], num_rows: int) -> str:
    others = [other for other in facts if other.name.partition(".")[0] != column.name]
    label = likely_label(others, num_rows)
    data = (
        f"data.folder={path if path.is_dir() else path.parent}", f"data.image_column={column.name}",
        f"data.label_column={'NAME' if label is None else label.name}",
    )  # fmt: skip
    words = ("data=hub_images", *data, "task=image_classification", "model=vision_transformer")
    return f"`{shlex.join(['h2h', 'train', *words])}` reads them"


def _key_of_turns(values: Sequence[object]) -> str | None:
    """Return what the text of a turn is called, where all values are lists of records that have one."""
    entries = [turn for value in values for turn in _entries(value)]
    turns = [turn for turn in entries if isinstance(turn, Mapping)]
    if not turns or len(turns) < len(entries):
        return None
    keys = ("content", "value", "text")
    return next((key for key in keys if all(isinstance(turn.get(key), str) for turn in turns)), None)


def _entries(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()
