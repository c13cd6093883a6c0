"""Columns of pictures and of their labels in Parquet files, as `datasets` writes them.

A picture is a struct of the `bytes` of its file and their `path` (https://huggingface.co/docs/datasets/image_load), a
label a number whose names the file's metadata or the card of the set has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.data.data_source import DataError
from headtohead.data.row_formats.class_names import Classes
from headtohead.data.sources.hub.column_types import class_names_of
from headtohead.data.sources.parquet_files import opened_file, schema_of
from headtohead.field_group import FieldGroup

_AT_ONCE = 256
"""Rows that are read together."""


@dataclass(frozen=True)
class PictureColumns(FieldGroup):
    """The columns by name; None where their types decide."""

    image_column: str | None = None
    """The column of images; None: the only one."""
    label_column: str | None = None
    """The column of classes; None: the only one."""


@dataclass(frozen=True)
class ChosenImageColumns:
    """The two columns of a set, and the names of its classes, if it publishes them."""

    image: str
    label: str
    class_names: tuple[str, ...] | None


def choose_image_columns(
    requested: PictureColumns, file: Path, features: Mapping[str, object], origin: str
) -> ChosenImageColumns:
    """Return the requested columns, else the only ones of their kind; `features` are those of the card."""
    _check_form(file)
    return chosen_of(requested, schema_of(file), features, f"{origin}: {file.name}")


def chosen_of(requested: PictureColumns, schema: Any, features: Mapping[str, object], where: str) -> ChosenImageColumns:
    """Return the same for an Arrow schema."""
    from datasets import Features

    known = {**Features.from_arrow_schema(schema), **features}
    images = [name for name in schema.names if _holds_pictures(schema.field(name).type)]
    labels = [name for name in schema.names if class_names_of(known, name) is not None]
    label = _one(requested.label_column, "label", labels, schema.names, where)
    image = _one(requested.image_column, "image", images, schema.names, where)
    if image not in images:
        raise DataError(
            f"data.image_column={image} of {where} holds {schema.field(image).type}, not pictures: choose "
            f"{' or '.join(images) or 'a set with a column of images'}."
        )
    return ChosenImageColumns(image, label, class_names_of(known, label))


def num_rows_of(file: Path) -> int:
    _check_form(file)
    return int(opened_file(file).metadata.num_rows)


def rows_of(file: Path, chosen: ChosenImageColumns) -> Iterator[tuple[int, bytes, Any]]:
    """Yield the number of each row from 1, its picture's bytes, and its label as it is written."""
    import pyarrow as pa

    check_schema(str(file), schema_of(file), (chosen.image, chosen.label))
    number = 0
    try:
        for batch in opened_file(file).iter_batches(batch_size=_AT_ONCE, columns=[chosen.image, chosen.label]):
            pictures = batch.column(chosen.image).to_pylist()
            for picture, label in zip(pictures, batch.column(chosen.label).to_pylist(), strict=True):
                number += 1
                yield number, picture_bytes(picture, f"{file}, row {number}"), label
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{file} is not a whole Parquet file ({reason}): write it again, or fetch it again.") from error


def picture_bytes(picture: Mapping[str, Any] | None, where: str) -> bytes:
    content = (picture or {}).get("bytes")
    if content is None:
        raise DataError(
            f"{where} has no picture in it: only sets whose files hold the pictures themselves can be read."
        )
    return bytes(content)


def classes_of(chosen: ChosenImageColumns, train_labels: Sequence[Any]) -> Classes:
    """Return the classes that the set names, else those of the train rows."""
    return Classes.from_labels(train_labels) if chosen.class_names is None else Classes(chosen.class_names)


def _holds_pictures(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_struct(kind) and {"bytes", "path"} <= {
        kind.field(index).name for index in range(kind.num_fields)
    }


def _one(requested: str | None, what: str, candidates: Sequence[str], names: Sequence[str], where: str) -> str:
    if requested is not None:
        if requested not in names:
            raise DataError(
                f"data.{what}_column={requested} is not a column of {where}, which has {', '.join(names)}: choose one "
                f"of "
                f"them."
            )
        return requested
    if len(candidates) == 1:
        return candidates[0]
    problem = f"has the columns {', '.join(candidates or names)}"
    raise DataError(f"{where} {problem}, and which is the {what} is not plain: give data.{what}_column=NAME.")


def check_schema(where: str, schema: Any, names: Sequence[str]) -> None:
    for name in names:
        if name not in schema.names:
            raise DataError(
                f"{where} has no column {name!r}, which other files of the set have; it has {', '.join(schema.names)}: "
                f"fetch it again, or correct data.revision."
            )


def _check_form(file: Path) -> None:
    if file.suffix.lower() != ".parquet":
        raise DataError(
            f"{file} is not a Parquet file, and sets of images are read only from Parquet: choose another set."
        )
