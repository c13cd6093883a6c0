"""Describe what a run measures, as far as that decides whether others may be compared with it: known before it runs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from headtohead.data.data_source import DataSource
from headtohead.records.record import VALIDATION_TEXTS, Comparability
from headtohead.tasks.task import Task


@dataclass(frozen=True)
class Measurement:
    """A task measured on the validation and test rows of its data."""

    data: DataSource
    task: Task
    validation_batches: int | None
    """The batches that a validation takes; None means all rows."""

    def comparability(self, precision: str = "") -> Comparability:
        """Return what comparable runs have alike."""
        spec, task, sampled = self.data.spec(), self.task.measured_how(), self._sampled()
        return Comparability(
            data=spec.data_hash or None,
            tokenizer=spec.tokenizer_hash or None,
            evaluation=_hash([spec.data_hash, spec.tokenizer_hash, task, sampled]),
            texts=_hash([spec.texts_hash, task, *(sampled or ())]) if spec.texts_hash else None,
            loss_normalisation=f"{task}: mean over everything scored in a batch",
            precision=precision,
        )

    def validation_texts(self) -> dict[str, str]:
        """Only where a validation reads some rows, and which texts are in them follows from the tokenizer."""
        spec, sampled = self.data.spec(), self._sampled()
        if not spec.texts_hash or sampled is None or not spec.rows_follow_tokens:
            return {}
        return {VALIDATION_TEXTS: _hash([spec.texts_hash, spec.data_hash, spec.tokenizer_hash, *sampled])}

    def _sampled(self) -> list[object] | None:
        """Return how many rows a validation reads, or None if it reads all."""
        if self.validation_batches is None:
            return None
        count = self.validation_batches * self.data.batch_size
        return ["sampled rows", count] if count < len(self.data.split("validation")) else None


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
