"""The columns of a published file and their types: told by a Parquet file's end; of other files, which must be read for
that, remembered where they never change."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.data.hub import reading
from headtohead.data.hub.listing import RepositoryFile
from headtohead.data.hub.locating import Located
from headtohead.data.hub.refusals import told
from headtohead.data.hub.remembering import recall, remember


@dataclass(frozen=True)
class Schema:
    column_names: Sequence[str]
    """Nested ones with dots."""
    features: Mapping[str, Any]
    """In the words of `datasets`."""


def schema_of(found: Located, listed: RepositoryFile, file: Path) -> Schema:
    """`file` is where the listed one lies on this machine."""
    published = found.published
    if published.folder is not None or file.name.lower().endswith(".parquet"):
        return Schema(reading.column_names(file), reading.features_of(file))
    name, key = str(published.name), f"columns-{found.revision}-{_short(listed.path)}"
    known = _from_json(recall(name, key))
    if known is None:
        known = Schema(reading.column_names(file), reading.features_of(file))
        with told(published):
            remember(name, key, _as_json(known))
    return known


def _short(path: str) -> str:
    """A path may be longer than the name of a file, and have any sign in it."""
    return hashlib.sha256(path.encode()).hexdigest()[:24]


def _as_json(schema: Schema) -> dict[str, Any]:
    from datasets import Features

    return {"column_names": list(schema.column_names), "features": Features(schema.features).to_dict()}


def _from_json(known: Any) -> Schema | None:
    """None of what is not there, and of what is not whole."""
    from datasets import Features

    try:
        return Schema(known["column_names"], Features.from_dict(known["features"]))
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
