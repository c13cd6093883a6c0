"""Whether documents packed into one row see each other: they must give what each gives in a row of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from headtohead.examining.doctor.calls import SAME, tiny
from headtohead.examining.doctor.contracts import Finding, not_applicable
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.laws.subject import difference


def packing(patient: Patient) -> Finding:
    """Two documents of unequal length, in evaluation."""
    if patient.few.segments is None:
        return not_applicable("no row of this data holds several documents kept apart")
    tokens = patient.example["tokens"]
    first = max(1, tokens.shape[1] // 3)
    packed = patient.features(patient.exact, _packed(tokens, first))
    pieces = [patient.features(patient.exact, {"tokens": piece}) for piece in (tokens[:, :first], tokens[:, first:])]
    change = difference(packed, torch.cat(pieces, dim=1))
    measured = {"largest_change": change}
    if change > SAME:
        says = f"a document's outputs change by {change:.0%} when another one stands before it in its row"
        advice = "mask by context.segments and count from context.positions, or pack with data.packing=none"
        return Finding("fault", says, advice, measured)
    return Finding("ok", f"documents in a row give what they give apart (largest change {tiny(change)})", "", measured)


def _packed(tokens: Tensor, first: int) -> dict[str, Tensor]:
    second = tokens.shape[1] - first
    segments = torch.tensor([0] * first + [1] * second, device=tokens.device)
    positions = torch.cat((torch.arange(first), torch.arange(second))).to(tokens.device)
    return {
        "tokens": tokens,
        "segments": segments.expand(len(tokens), -1),
        "positions": positions.expand(len(tokens), -1),
    }
