"""Runs that read the same texts with different tokenizers: what of theirs can be compared all the same."""

from __future__ import annotations

from collections.abc import Sequence

from headtohead.metrics.language_modelling import BITS_PER_BYTE
from headtohead.records.record import VALIDATION_TEXTS, RunRecord

PER_BYTE = BITS_PER_BYTE.name


def read_the_same(records: Sequence[RunRecord], metric: str | None) -> bool:
    """Return whether these runs were measured on the same texts, and on the same rows if their tokenizers are equal."""
    texts = {_measured_on(record, metric) for record in records}
    rows = {(record.comparability.tokenizer, record.comparability.evaluation) for record in records}
    tokenizers = {record.comparability.tokenizer for record in records}
    return len(texts) == 1 and None not in texts and len(tokenizers) > 1 and len(rows) == len(tokenizers)


def _measured_on(record: RunRecord, metric: str | None) -> str | None:
    texts = record.comparability.texts
    return record.data.get(VALIDATION_TEXTS, texts) if _is_of_validation(record, metric) else texts


def _is_of_validation(record: RunRecord, metric: str | None) -> bool:
    """Return whether the metric is one of validation; without a stage it is the test's if the test has it."""
    stage, _, name = (metric or "").rpartition("/")
    return stage == "validation" if stage else name not in record.metrics.get("test", {})


def selected_differently(records: Sequence[RunRecord]) -> str:
    """Empty where the validations that chose the weights of each read the same texts."""
    if not any(VALIDATION_TEXTS in record.data for record in records):
        return ""
    return (
        "the weights of each were selected on other texts: trainer.validation_batches samples rows, and their "
        "tokenizers cut the same texts to other rows; whole validations (null) would be the same for all"
    )


def is_of_texts(metric: str | None, records: Sequence[RunRecord]) -> bool:
    """Return whether no tokenizer changes the metric, which may be named with its stage."""
    measured = [record.metric((metric or "").rpartition("/")[2]) for record in records]
    return bool(measured) and all(one is not None and one.any_tokenizer for one in measured)


def is_per_byte(metric: str | None) -> bool:
    """Such are measured on texts in rows one after another, of which nothing is cut away."""
    return metric is not None and metric.rpartition("/")[2] == PER_BYTE


def selected_by(records: Sequence[RunRecord]) -> str | None:
    """The metric that runs report where none is requested; None where they differ."""
    names = {record.selection.metric for record in records}
    return names.pop() if len(names) == 1 else None


def instead(records: Sequence[RunRecord]) -> str:
    """Return the way out of a comparison that tokenizers forbid, where there is one."""
    measured = all(PER_BYTE in record.metrics.get("test", {}) for record in records)
    if not (measured and read_the_same(records, f"test/{PER_BYTE}")):
        return ""
    return f"compare them by {PER_BYTE}, which no tokenizer changes (--metric test/{PER_BYTE}), or "


def tokenizers_sentence(records: Sequence[RunRecord]) -> str:
    """Describe how each tokenizer reads the test texts."""
    by_tokenizer = {record.comparability.tokenizer: record for record in records}
    readings = sorted(map(_reading, by_tokenizer.values()))
    if len(set(readings)) == 1:
        return f"read by different tokenizers, each {readings[0]}"
    return f"read by different tokenizers: {'; '.join(readings)}"


def read_in_part(records: Sequence[RunRecord]) -> str:
    """Return a remark about measured texts that were cut to a number of tokens, which differ in length between
    tokenizers; empty if none was cut."""
    by_tokenizer = {record.comparability.tokenizer: record for record in records}
    sentences = [(record, how) for record in by_tokenizer.values() if (how := _cutting(record))]
    if not sentences:
        return ""
    sides = "; ".join(sorted(f"{record.arm} {how}" for record, how in sentences))
    whole = sorted(record.arm for record in by_tokenizer.values() if not _cutting(record))
    others = f"; {', '.join(whole)} had each whole" if whole else ""
    return (
        f"these runs read different parts of the texts: {sides}{others}. What is compared is a tokenizer together "
        "with what data.max_length leaves of a text in its tokens"
    )


def _cutting(record: RunRecord) -> str:
    """Describe which of the measured texts were cut; empty if none was."""
    shares = record.data.get("cut_share")
    if shares is None:
        length = (record.config.get("data") or {}).get("max_length")
        return f"may have had texts cut at {length} tokens, which its record does not say" if length else ""
    cut = [f"{shares[name]:.1%} of {name}" for name in ("validation", "test") if shares.get(name)]
    return f"had texts cut at {record.data['max_length']} tokens ({', '.join(cut)})" if cut else ""


def _reading(record: RunRecord) -> str:
    """Records of other programs tell nothing of it."""
    data = record.data
    if "vocab_size" not in data:
        return str(record.comparability.tokenizer)
    text = f"{data['tokenizer']} of {data['vocab_size']} tokens"
    per_token = data.get("bytes_per_token", {}).get("test")
    unknown = data.get("unknown_share", {}).get("test")
    more = [f"{per_token:.2f} bytes per token"] if per_token is not None else []
    more += [f"{unknown:.2%} unknown"] if unknown is not None else []
    more += ["capitals, accents and blanks are not predicted"] if data["tokenizer"] == "wordpiece" else []
    return f"{text} ({', '.join(more)})" if more else text
