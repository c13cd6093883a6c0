"""Types of columns, in terms of `datasets`, are read from cards and Parquet files; they contain the names of
classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.data.data_source import DataError, DataKind
from headtohead.data.sources.columns import kind_of, translation_direction
from headtohead.data.sources.parquet_files import schema_of


def features_of_card(card: Mapping[str, object], subset: str | None) -> Mapping[str, object]:
    """Return the features of one subset; empty where the card has none, or has types that this version of `datasets`
    does not know."""
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCardData

    if "dataset_info" not in card:
        return {}
    try:
        infos = DatasetInfosDict.from_dataset_card_data(DatasetCardData(dataset_info=card["dataset_info"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    info = infos.get(subset or "default") or (next(iter(infos.values())) if len(infos) == 1 else None)
    return (info.features or {}) if info is not None else {}


def features_of_parquet(file: Path) -> Mapping[str, object]:
    """Return the features of a file's schema, in whose metadata `datasets` writes what Arrow cannot express."""
    from datasets import Features

    result: Mapping[str, object] = Features.from_arrow_schema(schema_of(file))
    return result


def features_of_arrow(rows: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Infer the features from rows."""
    import pyarrow as pa
    from datasets import Features

    result: Mapping[str, object] = Features.from_arrow_schema(pa.Table.from_pylist([dict(row) for row in rows]).schema)
    return result


def class_names_of(features: Mapping[str, object], column: str) -> tuple[str, ...] | None:
    """Return the class names of a column of labels, or of lists of labels; a dot leads into a nested column."""
    from datasets import ClassLabel

    feature = _inner(_at(features, column))
    names = feature.names if isinstance(feature, ClassLabel) else None
    return tuple(map(str, names)) if names else None


def type_of(features: Mapping[str, object], column: str) -> str:
    """Return the type of a column in words: string, int32, a list of strings, 3 classes."""
    return _in_words(_at(features, column))


def leaves(features: Mapping[str, object], above: str = "") -> dict[str, Any]:
    """Return every column that can be named, nested ones with dots, and its type."""
    result: dict[str, Any] = {}
    for name, feature in features.items():
        inner = _fields(feature)
        if inner is None:
            result[f"{above}{name}"] = feature
        else:
            result |= leaves(inner, f"{above}{name}.")
    return result


def is_text(feature: Any) -> bool:
    return getattr(feature, "dtype", None) in ("string", "large_string") and _inner(feature) is feature


def is_fraction(feature: Any) -> bool:
    return str(getattr(feature, "dtype", "")).startswith("float") and _inner(feature) is feature


def is_label(feature: Any) -> bool:
    from datasets import ClassLabel

    return isinstance(feature, ClassLabel)


def _at(features: Mapping[str, object], column: str) -> Any:
    if column in features:
        return features[column]
    feature: Any = features
    for part in column.split("."):
        fields = _fields(feature)
        if fields is None or part not in fields:
            return None
        feature = fields[part]
    return feature


def _fields(feature: Any) -> Mapping[str, object] | None:
    """Return the fields of a struct, or of a list of structs; those of a translation are its languages."""
    from datasets import Translation, Value

    if isinstance(feature, Mapping):
        return feature
    if isinstance(feature, Translation):
        return dict.fromkeys(feature.languages, Value("string"))
    inner = _inner(feature)
    return _fields(inner) if inner is not feature else None


def _inner(feature: Any) -> Any:
    """Return the type of a list's entries; the feature itself where it is not a list."""
    if isinstance(feature, list):
        return _inner(feature[0])
    inner = getattr(feature, "feature", None)
    return feature if inner is None else _inner(inner)


def _in_words(feature: Any) -> str:
    if feature is None:
        return "unknown"
    inner = _inner(feature)
    if inner is not feature:
        return f"lists of {_in_words(inner)}"
    if is_label(feature):
        return f"{feature.num_classes} classes" if feature.num_classes else "classes"
    dtype = getattr(feature, "dtype", None)
    return str(dtype) if dtype and dtype != "dict" else type(feature).__name__.lower()


ChosenColumns = tuple[DataKind, dict[str, str]]


def chosen_columns(
    columns: Mapping[str, str], names: Sequence[str], features: Mapping[str, object], what: str
) -> ChosenColumns:
    """Return the kind of data, and the column of each role; `names` are those of the first file."""
    for part, column in columns.items():
        if column not in names:
            raise DataError(f"{what} has no column {column!r}, it has {_listed(features)}: correct data.{part}_column.")
    if columns:
        return kind_of(columns, names, file=what)
    result = _by_names(names, what)
    if result is not None and result[0] == "labelled_text" and is_fraction(features.get(result[1]["label"])):
        return "scored_text", {("score" if part == "label" else part): name for part, name in result[1].items()}
    if result is not None and result[0] != "language":
        return result
    texts = [name for name, feature in features.items() if is_text(feature)]
    labels = [name for name, feature in features.items() if is_label(feature)]
    text = result[1]["text"] if result is not None else texts[0] if len(texts) == 1 else None
    if text is not None and len(labels) == 1:
        return "labelled_text", {"text": text, "label": labels[0]}
    if result is not None:
        return result
    if text is not None and not labels:
        return "language", {"text": text}
    example = f"; for instance data.text_column={texts[0]} data.label_column={labels[0]}" if texts and labels else ""
    raise DataError(
        f"{what} has the columns {_listed(features)}, which do not say what they are: "
        f"{translation_direction()}{example}."
    )


def _by_names(names: Sequence[str], what: str) -> ChosenColumns | None:
    try:
        return kind_of({}, names, file=what)
    except DataError:
        return None


def _listed(features: Mapping[str, object]) -> str:
    return ", ".join(f"{name} ({type_of(features, name)})" for name in leaves(features))
