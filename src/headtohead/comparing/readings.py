"""Runs that read the same texts with different tokenizers: what of theirs can be compared all the same."""

from __future__ import annotations

from collections.abc import Sequence

from headtohead.tracking.record import RunRecord

PER_BYTE = "bits_per_byte"
OF_TEXTS = (PER_BYTE, "accuracy", "precision_macro", "recall_macro", "f1_macro")
"""Metrics that no tokenizer changes: they are a mean over bytes or over whole texts, not over tokens."""


def read_the_same(records: Sequence[RunRecord]) -> bool:
    """Whether these runs were measured on the same texts, and on the same rows wherever tokenizers are the same."""
    texts = {record.comparability.texts for record in records}
    rows = {(record.comparability.tokenizer, record.comparability.evaluation) for record in records}
    tokenizers = {record.comparability.tokenizer for record in records}
    return len(texts) == 1 and None not in texts and len(tokenizers) > 1 and len(rows) == len(tokenizers)


def is_of_texts(metric: str | None) -> bool:
    """With or without its stage."""
    return metric is not None and metric.rpartition("/")[2] in OF_TEXTS


def selected_by(records: Sequence[RunRecord]) -> str | None:
    """The metric that runs report where none is asked for; None where they differ."""
    names = {record.selection.metric for record in records}
    return names.pop() if len(names) == 1 else None


def instead(records: Sequence[RunRecord]) -> str:
    """The way out of a comparison that tokenizers forbid, where there is one."""
    measured = all(PER_BYTE in record.metrics.get("test", {}) for record in records)
    if not (measured and read_the_same(records)):
        return ""
    return f"compare them by {PER_BYTE}, which no tokenizer changes (--metric test/{PER_BYTE}), or "


def told_apart(records: Sequence[RunRecord]) -> str:
    """How each tokenizer reads the test texts."""
    by_tokenizer = {record.comparability.tokenizer: record for record in records}
    return f"read by different tokenizers: {'; '.join(sorted(map(_reading, by_tokenizer.values())))}"


def _reading(record: RunRecord) -> str:
    """Records of other programs tell nothing of it."""
    data = record.data
    if "vocab_size" not in data:
        return str(record.comparability.tokenizer)
    told = f"{data['tokenizer']} of {data['vocab_size']} tokens"
    per_token = data.get("bytes_per_token", {}).get("test")
    unknown = data.get("unknown_share", {}).get("test")
    more = [f"{per_token:.2f} bytes per token"] if per_token is not None else []
    more += [f"{unknown:.2%} unknown"] if unknown is not None else []
    more += ["capitals, accents and blanks are not predicted"] if data["tokenizer"] == "wordpiece" else []
    return f"{told} ({', '.join(more)})" if more else told
