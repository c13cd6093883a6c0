"""Whether an output that must not see later tokens sees them: one token is changed at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from headtohead.examining.doctor.calls import SAME, blamed, looking_ahead, tiny
from headtohead.examining.doctor.contracts import Finding, not_applicable
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.laws.subject import difference

MODES = ("evaluation", "training")


def causality(patient: Patient) -> Finding:
    """In training and in evaluation, since a mask may be forgotten in one of them."""
    field = patient.causal_field
    if field is None:
        return _both_ways(patient) if "tokens" in patient.example else not_applicable("images are seen all at once")
    places = _places(patient.example[field].shape[1])
    leaks = {mode: max(_change(patient, field, t, training=mode == "training") for t in places) for mode in MODES}
    measured = {f"largest_change_in_{mode}": leak for mode, leak in leaks.items()}
    worst = max(leaks, key=lambda mode: leaks[mode])
    if not leaks[worst] > SAME:
        return Finding(
            "ok", f"no output before a changed token moves (largest change {tiny(leaks[worst])})", "", measured
        )
    patient.exact.train(worst == "training")
    below = "decoder." if field == "decoder_tokens" else ""
    names = list(looking_ahead(patient.exact, patient.example, places[0], below))
    says = f"in {worst} a changed token moves outputs before it by {leaks[worst]:.0%}: {blamed(names)} looks ahead"
    if worst == "training" and not leaks["evaluation"] > SAME and patient.has_batch_statistics:
        advice = "batch_norm mixes tokens in training, later ones too: take model/norm=layer_norm or rms_norm"
        return Finding("warning", says, advice, measured)
    advice = "mask what comes later with minus infinity before the softmax, or use model/mixer=softmax_attention"
    return Finding("fault", says, advice, measured)


def _places(length: int) -> list[int]:
    """Early, in the middle and last."""
    return sorted({t for t in (1, length // 4, length // 2, length - 1) if 0 < t < length})


def _changed(patient: Patient, field: str, place: int) -> dict[str, Tensor]:
    """The example with other tokens at one place."""
    tokens = patient.example[field].clone()
    vocab_size = int(patient.config["model"]["vocab_size"])
    tokens[:, place] = (tokens[:, place] + 1 + torch.arange(len(tokens), device=tokens.device)) % vocab_size
    return {**patient.example, field: tokens}


def _change(patient: Patient, field: str, place: int, *, training: bool) -> float:
    """Of the outputs before a changed token, relative to the largest of them."""
    before, after = (
        patient.features(patient.exact, inputs, training=training)[:, :place]
        for inputs in (patient.example, _changed(patient, field, place))
    )
    return difference(after, before)


def _both_ways(patient: Patient) -> Finding:
    """An encoder should look ahead."""
    if patient.features(patient.exact, patient.example).shape[:2] != patient.example["tokens"].shape:
        return not_applicable("one output for the whole text, which is seen all at once")
    places = _places(patient.example["tokens"].shape[1])
    change = max(_change(patient, "tokens", t, training=False) for t in places)
    measured = {"largest_change_in_evaluation": change}
    if change > SAME:
        return Finding("ok", f"reads both ways: a changed token moves outputs before it by {change:.0%}", "", measured)
    says = f"an encoder that never looks ahead: a changed token moves no output before it ({tiny(change)})"
    return Finding("warning", says, "build its mixer with causal=false, as the stack asks for", measured)
