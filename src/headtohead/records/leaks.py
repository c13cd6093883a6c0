"""Sentences about rows of validation and test that also occur in train, from what a record knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headtohead.data.splits.leaks import LEAKS
from headtohead.records.record import RunRecord

_HELD_OUT = ("test", "validation")
_ALIKE = "but for case, white space or order"


def leak_share(leaks: Mapping[str, Any]) -> float:
    """Return the largest share of a held-out split that occurs in train; 0 for generated rows, of which some repeat."""
    if not leaks or "expected" in leaks:
        return 0.0
    return max(float(leaks[name]["in_train"] / max(leaks[name]["rows"], 1)) for name in _HELD_OUT)


def leak_sentence(leaks: Mapping[str, Any]) -> str | None:
    """Return what must be reported wherever results are shown; None where nothing leaks."""
    if not leak_share(leaks):
        return None
    parts = [_count(name, leaks) for name in _HELD_OUT if leaks[name]["in_train"]]
    looked_at = "" if leaks.get("of_all", True) else ", as far as train was looked at"
    field = leaks.get("drop_field")
    advice = f" ({field}=true removes them from train)" if field else ""
    return (
        f"{' and '.join(parts)} also occur in train{looked_at}: what is measured on them may have been memorised"
        f"{advice}"
    )


def repeats_sentence(leaks: Mapping[str, Any]) -> str | None:
    """Return how many generated rows repeat, beside how many are expected to; None for other data."""
    if "expected" not in leaks:
        return None
    parts = [
        f"{leaks[name]['in_train']} of {leaks[name]['rows']} {name} {leaks['unit']} repeat one of train, where "
        f"{leaks['expected'][name]:.3g} are expected"
        for name in _HELD_OUT
    ]
    return f"{' and '.join(parts)} of rows drawn from one space: no leak"


def leaks_in(records: Iterable[RunRecord]) -> list[str]:
    """Return a sentence for each way in which the data of these runs leak, with the arms where they differ in it."""
    return sentences_by_arm((record.arm, leak_sentence(record.data.get(LEAKS, {}))) for record in records)


def sentences_by_arm(sentences: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return each sentence about a run once, with the arms that it is about where it is not about all."""
    arms: dict[str | None, list[str]] = {}
    for arm, sentence in sentences:
        arms.setdefault(sentence, []).append(arm)
    return [
        sentence if len(arms) == 1 else f"{', '.join(dict.fromkeys(names))}: {sentence}"
        for sentence, names in arms.items()
        if sentence is not None
    ]


def _count(name: str, leaks: Mapping[str, Any]) -> str:
    """Return "12 of 300 test rows (10 exactly, the others but for case ...)"."""
    count, exactly = leaks[name]["in_train"], leaks[name]["exactly"]
    how = f"{exactly:,} exactly, the others {_ALIKE}" if exactly else _ALIKE
    return f"{count:,} of {leaks[name]['rows']:,} {name} {leaks['unit']}" + ("" if exactly == count else f" ({how})")
