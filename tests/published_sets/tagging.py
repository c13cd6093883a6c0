"""CoNLL-2003 and WNUT-17, as their cards tell them; of WNUT-17 the Parquet branch, which has no card of its own.

https://huggingface.co/datasets/lukasgarbas/conll-03 https://huggingface.co/datasets/leondz/wnut_17
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from published_sets.writing import write_card, write_parquet

SIZES = {"train": 80, "validation": 20, "test": 25}
WNUT = (
    *("O", "B-corporation", "I-corporation", "B-creative-work", "I-creative-work", "B-group", "I-group"),
    *("B-location", "I-location", "B-person", "I-person", "B-product", "I-product"),
)
CONLL = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")
NAMES = ("Zoë", "MacAllister-Jones", "@user42", "New", "Überwald")


def sentence(row: int, tags: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Entities of one to three words, of a type after another; every fifth sentence is long."""
    types = sorted({tag[2:] for tag in tags if tag != "O"})
    words, message = ["so", ","], ["O", "O"]
    for position in range(1 + 8 * (row % 5 == 4)):
        kind, length = types[(row + position) % len(types)], 1 + (row + position) % 3
        words += [f"{kind}ish", *(NAMES[(row + position + step) % 5] for step in range(length)), "!"]
        message += ["O", f"B-{kind}", *[f"I-{kind}"] * (length - 1), "O"]
    return words, message


def write_conll2003(folder: Path) -> None:
    """Tags by their names."""
    for split, size in SIZES.items():
        rows = []
        for row in range(size):
            words, tags = sentence(row, CONLL)
            others = {"pos_tags": ["NN"] * len(words), "chunk_tags": ["B-NP"] * len(words)}
            rows.append({"tokens": words, "ner_tags": tags, **others})
        write_parquet(folder / "data" / f"{split}.parquet", rows)
    (folder / "data" / "metadata.json").write_text('{"num_rows": {}}', encoding="utf-8")
    files = {split: f"data/{split}.parquet" for split in SIZES}
    write_card(folder, {"pretty_name": "CoNLL-03", "configs": [{"config_name": "default", "data_files": files}]})


def write_wnut17(folder: Path) -> None:
    """Tags by their numbers, whose names are in the metadata of the files."""
    from datasets import ClassLabel, Features, Sequence, Value

    features: Any = Features(
        {
            "id": Value("string"),
            "tokens": Sequence(Value("string")),
            "ner_tags": Sequence(ClassLabel(names=list(WNUT))),
        }
    )
    for split, size in SIZES.items():
        rows = []
        for row in range(size):
            words, tags = sentence(row, WNUT)
            rows.append({"id": str(row), "tokens": words, "ner_tags": [WNUT.index(tag) for tag in tags]})
        write_parquet(folder / "wnut_17" / split / "0000.parquet", rows, features)


SETS: dict[str, Callable[[Path], None]] = {"conll2003": write_conll2003, "wnut17": write_wnut17}
