"""Locate and read, without the package, the rows of a published set that runs train on and are tested on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet


@dataclass(frozen=True)
class RawRows:
    """Files by patterns, and the column of what is true of a row, or of its text."""

    train: str
    test: str
    column: str

    @property
    def is_shared(self) -> bool:
        """Return whether the test is a part of the rows that are published for training."""
        return self.train == self.test

    def read(self, folder: Path, pattern: str) -> list[dict[str, Any]]:
        """Read the rows of all files that match the pattern, in the order of their names."""
        rows: list[dict[str, Any]] = []
        for file in sorted(folder.glob(pattern)):
            if file.suffix == ".parquet":
                rows += parquet.read_table(file).to_pylist()
            else:
                rows += [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        assert rows, f"{folder} has no {pattern}"
        return rows

    def truths(self, folder: Path, pattern: str) -> list[Any]:
        """The column of each row; a dot goes into a nested one."""
        name, _, below = self.column.partition(".")
        return [row[name][below] if below else row[name] for row in self.read(folder, pattern)]


def below(folder: str, test: str, column: str) -> RawRows:
    """Files called after their splits."""
    return RawRows(f"{folder}/train-*", f"{folder}/{test}-*", column)


GLUE = ("cola", "mrpc", "qnli", "qqp", "rte", "stsb", "wnli")
RAW = {
    **{name: below(name, "validation", "label") for name in GLUE},
    "ag_news": below("data", "test", "label"),
    "cifar10": below("plain_text", "test", "label"),
    "cifar10_pixels": below("plain_text", "test", "label"),
    "cifar100": below("cifar100", "test", "fine_label"),
    "cnn_dailymail": below("3.0.0", "test", "highlights"),
    "conll2003": RawRows("data/train.parquet", "data/test.parquet", "ner_tags"),
    "enwik8": RawRows("enwik8-raw/train/*", "enwik8-raw/train/*", "text"),
    "fashion_mnist": below("fashion_mnist", "test", "label"),
    "fineweb_edu": RawRows("sample/10BT/*", "sample/10BT/*", "text"),
    "food101": below("data", "validation", "label"),
    "imagenet": below("data", "validation", "label"),
    "imdb": below("plain_text", "test", "label"),
    "mnist": below("mnist", "test", "label"),
    "mnli": below("mnli", "validation_matched", "label"),
    "mnli_mismatched": below("mnli", "validation_mismatched", "label"),
    "multi30k": RawRows("train.jsonl", "test.jsonl", "en"),
    "openwebtext": below("plain_text", "train", "text"),
    "opus_books": below("de-en", "train", "translation.en"),
    "squad": below("plain_text", "validation", "answers"),
    "squad_v2": below("squad_v2", "validation", "answers"),
    "sst2": below("data", "validation", "label"),
    "text8": below("data", "test", "text"),
    "the_stack": RawRows("data/python/data.json", "data/python/data.json", "content"),
    "tiny_shakespeare": below("data", "test", "text"),
    "wikipedia": below("20231101.en", "train", "text"),
    "tinystories": below("data", "validation", "text"),
    "wikitext103": below("wikitext-103-raw-v1", "test", "text"),
    "wikitext2": below("wikitext-2-raw-v1", "test", "text"),
    "wmt14": below("de-en", "test", "translation.de"),
    "wnut17": RawRows("wnut_17/train/*", "wnut_17/test/*", "ner_tags"),
    "xsum": below("data", "test", "summary"),
}
"""The raw rows by the name of the YAML; where train and test are the same files, the test is a part of their rows."""
