"""SST-2, IMDB, AG News and GLUE's classification tasks, as their cards tell them.

https://huggingface.co/datasets/stanfordnlp/sst2 https://huggingface.co/datasets/stanfordnlp/imdb
https://huggingface.co/datasets/fancyzhx/ag_news https://huggingface.co/datasets/nyu-mll/glue
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from published_sets.writing import write_card, write_parquet

Row = dict[str, Any]
HIDDEN = -1
WORDS = (("bad", "dull", "weak", "poor"), ("good", "bright", "strong", "rich"))
"""The words that a sentence of each class is about, so that something can be learned."""
SIZES = {"train": 120, "validation": 24, "test": 20}


def features_in_card(
    texts: Sequence[str], names: Sequence[str], first: Sequence[str], last: Sequence[str]
) -> list[Row]:
    """Return the features as a card writes them: class names below the digits of their numbers."""
    numbers = {str(number): name for number, name in enumerate(names)}
    return [
        *({"name": name, "dtype": "int32"} for name in first),
        *({"name": name, "dtype": "string"} for name in texts),
        {"name": "label", "dtype": {"class_label": {"names": numbers}}},
        *({"name": name, "dtype": "int32"} for name in last),
    ]


def features_in_files(texts: Sequence[str], names: Sequence[str], first: Sequence[str], last: Sequence[str]) -> Any:
    from datasets import ClassLabel, Features, Value

    return Features(
        {name: Value("int32") for name in first}
        | {name: Value("string") for name in texts}
        | {"label": ClassLabel(names=list(names))}
        | {name: Value("int32") for name in last}
    )


def text_of(label: int, row: int, part: int) -> str:
    return f"number {row} is {WORDS[label % 2][row % 4]} , {'and' if label > 1 else 'so'} it goes {part}"


def rows_of(texts: Sequence[str], num_classes: int, size: int, start: int, *, hidden: bool) -> list[Row]:
    rows: list[Row] = []
    for row in range(start, start + size):
        label = row % num_classes
        message = {name: text_of(label, row, part) for part, name in enumerate(texts)}
        rows.append({**message, "label": HIDDEN if hidden else label, "idx": row - start})
    return rows


def write_subset(
    folder: Path,
    *,
    above: str,
    texts: Sequence[str],
    names: Sequence[str],
    splits: Mapping[str, bool],
    first: Sequence[str] = (),
    last: Sequence[str] = (),
) -> None:
    """`splits` by name, and whether their labels are kept back; numbers of rows go on from split to split."""
    features, start = features_in_files(texts, names, first, last), 0
    for split, hidden in splits.items():
        size = SIZES[split.partition("_")[0]] if split != "unsupervised" else 10
        rows = rows_of(texts, len(names), size, start, hidden=hidden)
        saved = [{name: row[name] for name in features} for row in rows]
        write_parquet(folder / above / f"{split}-00000-of-00001.parquet", saved, features)
        start += size


def data_files(above: str, splits: Sequence[str]) -> list[Row]:
    return [{"split": split, "path": f"{above}/{split}-*"} for split in splits]


def write_sst2(folder: Path) -> None:
    texts, names, splits = ["sentence"], ["negative", "positive"], {"train": False, "validation": False, "test": True}
    write_subset(folder, above="data", texts=texts, names=names, splits=splits, first=["idx"])
    card = {
        "license": ["unknown"],
        "dataset_info": {"features": features_in_card(texts, names, ["idx"], [])},
        "configs": [{"config_name": "default", "data_files": data_files("data", list(splits))}],
    }
    write_card(folder, card)


def write_imdb(folder: Path) -> None:
    texts, names, splits = ["text"], ["neg", "pos"], {"train": False, "test": False, "unsupervised": True}
    write_subset(folder, above="plain_text", texts=texts, names=names, splits=splits)
    files = data_files("plain_text", list(splits))
    card = {
        "license": ["other"],
        "dataset_info": {"config_name": "plain_text", "features": features_in_card(texts, names, [], [])},
        "configs": [{"config_name": "plain_text", "data_files": files, "default": True}],
    }
    write_card(folder, card)


def write_ag_news(folder: Path) -> None:
    texts, names = ["text"], ["World", "Sports", "Business", "Sci/Tech"]
    splits = {"train": False, "test": False}
    write_subset(folder, above="data", texts=texts, names=names, splits=splits)
    card = {
        "license": ["unknown"],
        "dataset_info": {"features": features_in_card(texts, names, [], [])},
        "configs": [{"config_name": "default", "data_files": data_files("data", list(splits))}],
    }
    write_card(folder, card)


PLAIN = {"train": False, "validation": False, "test": True}
MATCHED = {
    "train": False,
    "validation_matched": False,
    "validation_mismatched": False,
    "test_matched": True,
    "test_mismatched": True,
}
GLUE: dict[str, tuple[list[str], list[str], Mapping[str, bool]]] = {
    "cola": (["sentence"], ["unacceptable", "acceptable"], PLAIN),
    "mnli": (["premise", "hypothesis"], ["entailment", "neutral", "contradiction"], MATCHED),
    "mrpc": (["sentence1", "sentence2"], ["not_equivalent", "equivalent"], PLAIN),
    "qnli": (["question", "sentence"], ["entailment", "not_entailment"], PLAIN),
    "qqp": (["question1", "question2"], ["not_duplicate", "duplicate"], PLAIN),
    "rte": (["sentence1", "sentence2"], ["entailment", "not_entailment"], PLAIN),
    "wnli": (["sentence1", "sentence2"], ["not_entailment", "entailment"], PLAIN),
}


def write_glue(folder: Path, *, subsets: Sequence[str] = tuple(GLUE)) -> None:
    """The card tells of all tasks; files are written of `subsets`."""
    infos, configs = [], []
    for subset, (texts, names, splits) in GLUE.items():
        infos.append({"config_name": subset, "features": features_in_card(texts, names, [], ["idx"])})
        configs.append({"config_name": subset, "data_files": data_files(subset, list(splits))})
        if subset in subsets:
            write_subset(folder, above=subset, texts=texts, names=names, splits=splits, last=["idx"])
    write_card(folder, {"license": ["other"], "dataset_info": infos, "configs": configs})


SETS: dict[str, Callable[[Path], None]] = {
    "sst2": write_sst2,
    "imdb": write_imdb,
    "ag_news": write_ag_news,
    **{subset: partial(write_glue, subsets=[subset]) for subset in GLUE},
    "mnli_mismatched": partial(write_glue, subsets=["mnli"]),
}
