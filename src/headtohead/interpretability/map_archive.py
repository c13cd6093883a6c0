"""Attention maps on disk: one .npz per mixer, which holds all that is needed to draw it again; a table of the heads."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headtohead.errors import UsageError
from headtohead.files.atomic_write import replace_archive, replace_text
from headtohead.files.safe_read import open_archive
from headtohead.interpretability.head_statistics import Statistics
from headtohead.interpretability.picture_text import Labels
from headtohead.interpretability.recorded_attention import AttentionMaps

_MASKS = ("query_valid", "key_valid", "segments")


@dataclass(frozen=True)
class Archive:
    """The content of one archive file."""

    maps: AttentionMaps
    queries: Labels | None = None
    """A label per position for each sample; None where the file has none."""
    keys: Labels | None = None


def write_maps(
    path: Path, maps: AttentionMaps, *, queries: Labels | None = None, keys: Labels | None = None, half: bool = True
) -> None:
    """Write attention maps as .npz; `half` stores the weights as float16 (to 0.05 % of each) instead of float32."""
    content: dict[str, Any] = {
        "name": maps.name,
        "kind": maps.kind,
        "causal": maps.causal,
        "inputs": [maps.queries, maps.keys],
        "measure": maps.measure,
        "channels": maps.channels,
        "weights": maps.weights.numpy().astype(np.float16 if half else np.float32),
    }
    content |= {name: mask.numpy() for name in _MASKS if (mask := getattr(maps, name)) is not None}
    if maps.grid is not None:
        content["grid"] = maps.grid
    if queries is not None and keys is not None:
        content |= {"query_labels": queries, "key_labels": keys}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_archive(path, content)


def read_maps(path: Path | str) -> Archive:
    """Read the maps of a file that `write_maps` wrote; weights come back as float32."""
    with open_archive(Path(path)) as file:
        if missing := {"name", "kind", "causal", "inputs", "weights"} - set(file.files):
            raise UsageError(f"{path} holds no attention maps: {', '.join(sorted(missing))} is missing")
        content = {name: file[name] for name in file.files}
        queries, keys = content["inputs"].tolist()
        maps = AttentionMaps(
            name=str(content["name"]),
            kind="cross" if content["kind"] == "cross" else "self",
            weights=torch.from_numpy(content["weights"].astype(np.float32)),
            causal=bool(content["causal"]),
            measure=content["measure"].item() if "measure" in content else "attention",
            channels=int(content["channels"]) if "channels" in content else 1,
            queries=queries,
            keys=keys,
            grid=tuple(content["grid"].tolist()) if "grid" in content else None,
            **{name: torch.from_numpy(content[name]) if name in content else None for name in _MASKS},
        )
        labels = [content[name].tolist() if name in content else None for name in ("query_labels", "key_labels")]
        return Archive(maps, *labels)


def write_statistics(path: Path, statistics: Mapping[str, Statistics]) -> None:
    """Write a CSV table with one line per head."""
    columns = list(dict.fromkeys(name for own in statistics.values() for name in own))
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["map", "head", *columns])
    for name, own in statistics.items():
        for head in range(len(own["entropy"])):
            table.writerow([name, head, *(f"{own[c][head]:.6g}" if c in own else "" for c in columns)])
    replace_text(path, text.getvalue())
