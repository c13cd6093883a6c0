"""Hold the results of an evaluation, which are written to RUN/evaluations/NAME.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.data.data_source import SplitName
from headtohead.files.atomic_write import replace_text, write_each
from headtohead.records.strict_json import encode

FOLDER = "evaluations"


@dataclass(frozen=True)
class LossByPosition:
    """Mean loss and number of scored tokens by how many tokens were in sight: the first entry is one token."""

    loss: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class EvaluationPoint:
    """One pass over the split."""

    length: int | None
    """Tokens that the model reads at once; None where the data decides."""
    metrics: dict[str, float]
    baseline: dict[str, float]
    """The score of a model that learned nothing."""
    samples: int
    """Rows, or windows."""
    scored: int
    """Targets that counted, each once."""
    mean_context: float | None
    """Tokens in sight of a scored one, itself left out, on average; None where order is none."""
    data_hash: str
    seconds: float
    position: dict[str, Any] = field(default_factory=dict)
    """The position encoding in force, with the factor that a scaling had."""
    places: LossByPosition | None = None
    shots: int | None = None
    """Examples in the prompts of a language model that is asked for classes."""
    intervals: dict[str, list[float]] = field(default_factory=dict)
    """The intervals of shares of rows: where they lie, with 95 % certainty, for rows like these (Clopper and Pearson
    1934)."""
    per_class: list[dict[str, Any]] = field(default_factory=list)
    """Precision, recall and F1 of each class, and of how many rows it is true."""
    files: Mapping[str, Any] = field(default_factory=dict, metadata={"stored": False})
    """The answers to each sample, by the name of a file of its own."""


@dataclass(frozen=True)
class Evaluation:
    """A run, how it was measured, and a point for each length."""

    run: str
    name: str
    split: SplitName
    stride: int | None
    """The number of tokens that windows are apart; None where rows do not overlap."""
    trained_length: int | None
    """Tokens that the model read at once in training."""
    overrides: tuple[str, ...]
    tokenizer: str
    precision: str
    device: str
    monitor: str
    points: tuple[EvaluationPoint, ...]
    path: str = field(default="", metadata={"stored": False})
    """The path on disk."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, as JSON can hold them."""
        plain: dict[str, Any] = encode(self, "evaluation")
        return plain

    def stem(self) -> str:
        """Return the name of its files: the same question writes over its old answer."""
        words: list[str] = [self.split]
        lengths = [point.length for point in self.points if point.length is not None]
        if lengths:
            words.append("length_" + "_".join(map(str, lengths)))
        if self.stride is not None:
            words.append(f"stride_{self.stride}")
        shots = [point.shots for point in self.points if point.shots is not None]
        if shots:
            words.append("shots_" + "_".join(map(str, shots)))
        if self.overrides:
            words.append(hashlib.sha256(" ".join(self.overrides).encode()).hexdigest()[:8])
        return "-".join(words)

    def write(self, run: Path) -> Path:
        folder = run / FOLDER
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.stem()}.json"
        for point in self.points[:1]:
            write_each(point.files, path.with_suffix(""))
        replace_text(path, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n")
        return path
