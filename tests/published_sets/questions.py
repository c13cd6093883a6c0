"""SQuAD 1.1 and 2.0, as their cards tell them.

https://huggingface.co/datasets/rajpurkar/squad https://huggingface.co/datasets/rajpurkar/squad_v2
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from published_sets.writing import write_card, write_parquet

SIZES = {"train": 60, "validation": 24}
PEOPLE = ("Anna Berg", "Boris", "Clara", "the old king")
TOWNS = ("Köln", "New York", "the red castle", "Oslo")


def features_in_card() -> list[dict[str, Any]]:
    texts = [{"name": name, "dtype": "string"} for name in ("id", "title", "context", "question")]
    answers = [{"name": "text", "dtype": "string"}, {"name": "answer_start", "dtype": "int32"}]
    return [*texts, {"name": "answers", "sequence": answers}]


def rows_of(split: str, size: int, *, some_unanswerable: bool) -> list[dict[str, Any]]:
    """Three questions a paragraph, the second after a long detour; held-out ones have several answers."""
    rows: list[dict[str, Any]] = []
    for row in range(size):
        paragraph, options = divmod(row, 3)
        who, where = PEOPLE[paragraph % 4], TOWNS[(paragraph // 4) % 4]
        detour = " ".join(
            f"Nothing happened on day {day} of year {paragraph}." for day in range(1 + 12 * (options == 1))
        )
        context = f"In {split} story {paragraph}, {who} lived in {where}. {detour} Then {who} went home, by “train”."
        question, answer = (
            ("  Who lived there?", who),
            ("Where did somebody live?", where),
            ("Who flew?", "by “train”"),
        )[options]
        answers = [answer] if split == "train" else [answer, answer, context[context.find(answer) :].split(".")[0]]
        if some_unanswerable and options == 2:
            answers = []
        rows.append(
            {
                "id": f"{split}{row:04d}",
                "title": f"Story_{paragraph}",
                "context": context,
                "question": question,
                "answers": {"text": answers, "answer_start": [context.find(one) for one in answers]},
            }
        )
    return rows


def write_squad(folder: Path, *, name: str, some_unanswerable: bool) -> None:
    from datasets import Features, Sequence, Value

    features = Features(
        {name: Value("string") for name in ("id", "title", "context", "question")}
        | {"answers": Sequence({"text": Value("string"), "answer_start": Value("int32")})}
    )
    for split, size in SIZES.items():
        rows = rows_of(split, size, some_unanswerable=some_unanswerable)
        write_parquet(folder / name / f"{split}-00000-of-00001.parquet", rows, features)
    files = [{"split": split, "path": f"{name}/{split}-*"} for split in SIZES]
    card = {
        "license": ["cc-by-sa-4.0"],
        "dataset_info": {"config_name": name, "features": features_in_card()},
        "configs": [{"config_name": name, "data_files": files, "default": True}],
    }
    write_card(folder, card)


SETS: dict[str, Callable[[Path], None]] = {
    "squad": partial(write_squad, name="plain_text", some_unanswerable=False),
    "squad_v2": partial(write_squad, name="squad_v2", some_unanswerable=True),
}
