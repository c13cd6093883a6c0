"""Small repositories as hubs publish them: a card whose first lines tell the features, and files of rows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

Rows = Sequence[Mapping[str, Any]]


def write_card(folder: Path, front_matter: Mapping[str, Any]) -> None:
    """README.md with what the card of the set says between its lines of ---."""
    folder.mkdir(parents=True, exist_ok=True)
    message = yaml.safe_dump(dict(front_matter), sort_keys=False, allow_unicode=True)
    (folder / "README.md").write_text(f"---\n{message}---\n\n# A small set of the same form\n", encoding="utf-8")


def write_parquet(path: Path, rows: Rows, features: Any = None) -> Path:
    """Write a file with `datasets.Features` in the metadata, as the files of the hub have them."""
    from datasets import Dataset

    path.parent.mkdir(parents=True, exist_ok=True)
    Dataset.from_list([dict(row) for row in rows], features=features).to_parquet(str(path))
    return path


def write_jsonl(path: Path, rows: Rows) -> Path:
    """One object a line; packed where the name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
