"""Whether rows that are measured were learned: those of validation and test that stand in train as well."""

from __future__ import annotations

from headtohead.examining.doctor.contracts import Finding, Verdict, not_applicable
from headtohead.examining.doctor.patient import Patient
from headtohead.tracking.leaks import leak_sentence, leak_share, repeats_sentence

_GRAVE = 0.01
"""The share of a split from which on its results mean something else."""


def leaks(patient: Patient) -> Finding:
    """Report what was counted when the data were prepared."""
    counts = patient.parts.data.leaks()
    if not counts:
        return not_applicable("unknown: this data does not say which of its rows are alike")
    measured = {f"{name}_in_train": float(counts[name]["in_train"]) for name in ("validation", "test")}
    if (sentence := leak_sentence(counts)) is None:
        compared = f"none of {counts['validation']['rows'] + counts['test']['rows']:,} held-out {counts['unit']}"
        return Finding("ok", repeats_sentence(counts) or f"{compared} stands in train", "", measured)
    verdict: Verdict = "fault" if leak_share(counts) >= _GRAVE else "warning"
    field = counts.get("drop_field")
    advice = f"set {field}=true, or " if field else ""
    advice += "draw the splits by what belongs together (data.share_by)"
    return Finding(verdict, sentence, advice, measured)
