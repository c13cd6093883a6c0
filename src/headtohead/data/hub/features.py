"""Types of columns, as cards and Parquet files tell them in the words of `datasets`; they hold the names of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.data.tables.parquet_files import schema_of


def features_of_card(card: Mapping[str, Any], subset: str | None) -> Mapping[str, Any]:
    """Of one subset; empty where the card tells none, or tells types that this version of `datasets` does not know."""
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


def features_of_parquet(file: Path) -> Mapping[str, Any]:
    """Of its schema, in whose metadata `datasets` writes what Arrow has no word for."""
    from datasets import Features

    found: Mapping[str, Any] = Features.from_arrow_schema(schema_of(file))
    return found


def features_of_arrow(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """As rows look."""
    import pyarrow as pa
    from datasets import Features

    found: Mapping[str, Any] = Features.from_arrow_schema(pa.Table.from_pylist([dict(row) for row in rows]).schema)
    return found


def class_names_of(features: Mapping[str, Any], column: str) -> tuple[str, ...] | None:
    """Of a column of labels, or of lists of labels; a dot goes into a nested column."""
    from datasets import ClassLabel

    feature = _inner(_at(features, column))
    names = feature.names if isinstance(feature, ClassLabel) else None
    return tuple(map(str, names)) if names else None


def type_of(features: Mapping[str, Any], column: str) -> str:
    """In words: string, int32, a list of strings, 3 classes."""
    return _told(_at(features, column))


def leaves(features: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Every column that can be named, nested ones with dots, and its type."""
    found: dict[str, Any] = {}
    for name, feature in features.items():
        inner = _fields(feature)
        if inner is None:
            found[f"{above}{name}"] = feature
        else:
            found |= leaves(inner, f"{above}{name}.")
    return found


def is_text(feature: Any) -> bool:
    return getattr(feature, "dtype", None) in ("string", "large_string") and _inner(feature) is feature


def is_fraction(feature: Any) -> bool:
    return str(getattr(feature, "dtype", "")).startswith("float") and _inner(feature) is feature


def is_label(feature: Any) -> bool:
    from datasets import ClassLabel

    return isinstance(feature, ClassLabel)


def _at(features: Mapping[str, Any], column: str) -> Any:
    if column in features:
        return features[column]
    feature: Any = features
    for part in column.split("."):
        fields = _fields(feature)
        if fields is None or part not in fields:
            return None
        feature = fields[part]
    return feature


def _fields(feature: Any) -> Mapping[str, Any] | None:
    """Of a struct, or of a list of structs; a translation's are its languages."""
    from datasets import Translation, Value

    if isinstance(feature, Mapping):
        return feature
    if isinstance(feature, Translation):
        return dict.fromkeys(feature.languages, Value("string"))
    inner = _inner(feature)
    return _fields(inner) if inner is not feature else None


def _inner(feature: Any) -> Any:
    """What a list holds; the feature itself where it is no list."""
    if isinstance(feature, list):
        return _inner(feature[0])
    inner = getattr(feature, "feature", None)
    return feature if inner is None else _inner(inner)


def _told(feature: Any) -> str:
    if feature is None:
        return "unknown"
    inner = _inner(feature)
    if inner is not feature:
        return f"lists of {_told(inner)}"
    if is_label(feature):
        return f"{feature.num_classes} classes" if feature.num_classes else "classes"
    dtype = getattr(feature, "dtype", None)
    return str(dtype) if dtype and dtype != "dict" else type(feature).__name__.lower()
