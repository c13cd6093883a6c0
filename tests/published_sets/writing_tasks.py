"""Translations and summaries, as their cards tell them: Multi30k, OPUS Books, WMT14, XSum, CNN / Daily Mail.

https://huggingface.co/datasets/bentrevett/multi30k https://huggingface.co/datasets/Helsinki-NLP/opus_books
https://huggingface.co/datasets/wmt/wmt14 https://huggingface.co/datasets/EdinburghNLP/xsum
https://huggingface.co/datasets/abisee/cnn_dailymail
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from published_sets.writing import write_card, write_jsonl, write_parquet

Row = dict[str, Any]
SIZES = {"train": 120, "validation": 16, "test": 20}
GERMAN = ["ein", "zwei", "rote", "blaue", "hunde", "katzen", "laufen", "schlafen"]
ENGLISH = ["a", "two", "red", "blue", "dogs", "cats", "run", "sleep"]
"""Word for word."""


def pair_of(row: int) -> tuple[str, str]:
    positions = [row % 2, 2 + row // 2 % 2, 4 + row // 4 % 2, 6 + row // 8 % 2]
    number = f"{row} ,"
    return tuple(f"{number} {' '.join(words[at] for at in positions)} ." for words in (GERMAN, ENGLISH))  # type: ignore[return-value]


def starts() -> dict[str, int]:
    return {"train": 0, "validation": 1000, "test": 2000}


def write_multi30k(folder: Path) -> None:
    """Lines of {"en", "de"} in train.jsonl, val.jsonl and test.jsonl."""
    write_card(
        folder,
        {"task_categories": ["translation"], "language": ["en", "de"], "size_categories": ["10K<n<100K"]},
    )
    for split, file in {"train": "train", "validation": "val", "test": "test"}.items():
        rows = [pair_of(starts()[split] + row) for row in range(SIZES[split])]
        write_jsonl(folder / f"{file}.jsonl", [{"en": english, "de": german} for german, english in rows])


def write_nested(folder: Path, *, subsets: Mapping[str, tuple[str, ...]], with_id: bool, card: Row) -> None:
    """A column `translation` with a text for each language; a folder for each pair of languages."""
    from datasets import Features, Translation, Value

    infos, configs = [], []
    for subset, splits in subsets.items():
        languages = subset.split("-")
        own = [{"name": "id", "dtype": "string"}] if with_id else []
        message = {"name": "translation", "dtype": {"translation": {"languages": languages}}}
        infos.append({"config_name": subset, "features": [*own, message]})
        files = [{"split": split, "path": f"{subset}/{split}-*"} for split in splits]
        configs.append({"config_name": subset, "data_files": files})
        features = Features(
            ({"id": Value("string")} if with_id else {}) | {"translation": Translation(languages=languages)}
        )
        for split in splits:
            rows = [_nested(starts()[split] + row, languages, with_id) for row in range(SIZES[split])]
            write_parquet(folder / subset / f"{split}-00000-of-00001.parquet", rows, features)
    write_card(folder, {**card, "dataset_info": infos, "configs": configs})


def _nested(row: int, languages: list[str], with_id: bool) -> Row:
    german, english = pair_of(row)
    texts = {language: english if language == "en" else german for language in languages}
    return ({"id": str(row)} if with_id else {}) | {"translation": texts}


def write_summaries(
    folder: Path, *, columns: tuple[str, str, str], position: str, subset: str | None, licence: str
) -> None:
    """Three columns of text; the summary of an article is its first and its last sentence."""
    from datasets import Features, Value

    source, target, number = columns
    config = {"config_name": subset or "default"}
    features = [{"name": name, "dtype": "string"} for name in columns]
    files = [{"split": split, "path": f"{position}/{split}-*"} for split in SIZES]
    write_card(
        folder,
        {
            "license": [licence],
            "dataset_info": {**({"config_name": subset} if subset else {}), "features": features},
            "configs": [{**config, "data_files": files}],
        },
    )
    for split, size in SIZES.items():
        rows = []
        for row in range(size):
            message = [pair_of(starts()[split] + row + step)[1] for step in range(4)]
            rows.append({source: "\n".join(message), target: f"{message[0]}\n{message[-1]}", number: f"{row:040x}"})
        path = folder / position / f"{split}-00000-of-00001.parquet"
        write_parquet(path, rows, Features({name: Value("string") for name in columns}))


WMT = ("train", "validation", "test")
SETS: dict[str, Callable[[Path], None]] = {
    "multi30k": write_multi30k,
    "opus_books": partial(
        write_nested,
        subsets={"de-en": ("train",), "en-fr": ("train",)},
        with_id=True,
        card={"license": ["other"], "multilinguality": ["multilingual"], "pretty_name": "OpusBooks"},
    ),
    "wmt14": partial(
        write_nested,
        subsets={"cs-en": WMT, "de-en": WMT},
        with_id=False,
        card={"license": ["unknown"], "multilinguality": ["translation"], "pretty_name": "WMT14"},
    ),
    "xsum": partial(
        write_summaries, columns=("document", "summary", "id"), position="data", subset=None, licence="unknown"
    ),
    "cnn_dailymail": partial(
        write_summaries, columns=("article", "highlights", "id"), position="3.0.0", subset="3.0.0", licence="apache-2.0"
    ),
}
