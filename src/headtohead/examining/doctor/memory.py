"""Whether a decoder reads its source: other source tokens must change what it says."""

from __future__ import annotations

from headtohead.examining.doctor.calls import SAME, tiny
from headtohead.examining.doctor.contracts import Finding, not_applicable
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.laws.subject import difference


def memory(patient: Patient) -> Finding:
    """Every row is given the source of another."""
    if "decoder_tokens" not in patient.example:
        return not_applicable("no second sequence is read")
    inputs = patient.example
    swapped = {**inputs, "tokens": inputs["tokens"].roll(1, dims=0)}
    change = difference(patient.features(patient.exact, swapped), patient.features(patient.exact, inputs))
    measured = {"change": change}
    if change > SAME:
        return Finding("ok", f"another source moves the decoder's outputs by {change:.0%}", "", measured)
    says = f"the decoder never reads its source: another one moves no output (largest change {tiny(change)})"
    return Finding("fault", says, "let the cross mixer take keys and values from context.memory", measured)
