"""Check whether a model can learn from the batches: finite, within range, with targets that are not all alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from headtohead.config.run_config import RunConfig
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.diagnostics.doctor.patient import Finding, Patient, Verdict, not_applicable
from headtohead.records.leaks import leak_sentence, leak_share, repeats_sentence

Complaint = tuple[Verdict, str, str]
_NUM_BATCHES = 4
_LARGE = 20.0
"""Pixels normalised to variance 1, or scaled to [0, 1], never reach it; 0 to 255 does."""
_MAJORITY = 0.95
_UNKNOWN = 0.5
_UNKNOWN_ID = 4


def data(patient: Patient) -> Finding:
    """Check the first batches of the train split, as the task shows them."""
    batches = [patient.batch(step) for step in range(_NUM_BATCHES)]
    measured = {"scored_share": _scored_share(batches)}
    for verdict, message, advice in _complaints(patient, batches, measured):
        return Finding(verdict, message, advice, measured)
    targets = torch.cat([_targets(batch) for batch in batches])
    message = (
        f"{len(targets)} targets in {len(batches)} batches, {len(targets.unique())} different ones; inputs are in range"
    )
    return Finding("ok", message, "", measured)


def _complaints(patient: Patient, batches: Sequence[Batch], measured: dict[str, float]) -> Iterator[Complaint]:
    """Yield the gravest first."""
    yield from _about_inputs(patient, batches, measured)
    targets = torch.cat([_targets(batch) for batch in batches])
    if not len(targets):
        yield "fault", f"no target is scored in {len(batches)} batches", "check how the data marks scored targets"
        return
    if targets.is_floating_point():
        yield from _about_numbers(targets, measured)
        return
    limit = _num_outputs(patient)
    if not 0 <= int(targets.min()) <= int(targets.max()) < limit:
        message = f"targets reach from {targets.min()} to {targets.max()}, and the head knows 0 to {limit - 1}"
        yield "fault", message, "number them from 0, and set model.num_classes=null, which takes the data's"
    copied = max((_copied(batch) for batch in batches), default=0.0)
    measured["targets_equal_to_their_input"] = copied
    if copied > _MAJORITY and patient.parts.task.head != "reconstruction":  # which asks the input back, from one vector
        yield (
            "fault",
            f"{copied:.0%} of the targets are their own input",
            "shift the targets by one, or hide the inputs",
        )
    share = float(torch.bincount(targets - targets.min()).max()) / len(targets)
    measured["largest_share_of_a_target"] = share
    if share > _MAJORITY:
        message = f"{share:.0%} of the targets are the same: naming it always gives accuracy {share:.2f}"
        yield "warning", message, "select by a metric that counts classes alike, or balance the data"


def _about_numbers(targets: Tensor, measured: dict[str, float]) -> Iterator[Complaint]:
    if not targets.isfinite().all():
        yield "fault", "some targets are not finite", "clean the scores"
        return
    measured["largest_share_of_a_target"] = share = float(targets.unique(return_counts=True)[1].max()) / len(targets)
    if share > _MAJORITY:
        yield "warning", f"{share:.0%} of the targets are the same number", "balance the data"


def _about_inputs(patient: Patient, batches: Sequence[Batch], measured: dict[str, float]) -> Iterator[Complaint]:
    for batch in batches:
        if batch.images is not None:
            yield from _about_images(batch.images, measured)
        for tokens in (batch.tokens, batch.decoder_tokens):
            vocab_size = RunConfig(patient.config).model.get("vocab_size")
            if tokens is not None and vocab_size and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
                message = (
                    f"token ids reach from {tokens.min()} to {tokens.max()}, and the model knows 0 to {vocab_size - 1}"
                )
                yield "fault", message, "set model.vocab_size=null, which takes the data's"
    if batches[0].tokens is not None and patient.parts.data.spec().tokenizer_hash:
        unknown = sum(int((b.tokens == _UNKNOWN_ID).sum()) for b in batches if b.tokens is not None)
        total = sum(b.tokens.numel() for b in batches if b.tokens is not None)
        measured["unknown_share"] = unknown / total
        if unknown > _UNKNOWN * total:
            yield "warning", f"{unknown / total:.0%} of the tokens are unknown", "take data.tokenizer=byte or bpe"


def _about_images(images: Tensor, measured: dict[str, float]) -> Iterator[Complaint]:
    if not images.isfinite().all():
        yield (
            "fault",
            f"{float((~images.isfinite()).float().mean()):.1%} of the pixels are not numbers",
            "clean the images",
        )
        return
    largest, spread = float(images.abs().max()), float(images.double().std())
    measured |= {"largest_pixel": largest, "pixel_deviation": spread}
    if largest > _LARGE:
        yield "warning", f"pixels reach {largest:.0f}", "scale images to [0, 1] or to variance 1"
    if not spread > 0:
        yield "fault", "all pixels are equal", "check how images are read"


def _targets(batch: Batch) -> Tensor:
    """Those that count."""
    assert batch.targets is not None, "a task's view has targets"
    flat = batch.targets.flatten()
    return flat[flat != IGNORED]


def _num_outputs(patient: Patient) -> int:
    """Return the number of choices for a target: classes, positions of a row, or tokens."""
    settings, head = RunConfig(patient.config).model, patient.parts.task.head
    name = {"classifier": "num_classes", "tagger": "num_classes", "span": "max_length"}.get(head, "vocab_size")
    return int(settings[name])


def _scored_share(batches: Sequence[Batch]) -> float:
    total = sum(batch.targets.numel() for batch in batches if batch.targets is not None)
    return sum(len(_targets(batch)) for batch in batches) / total if total else math.nan


def _copied(batch: Batch) -> float:
    """The share of targets that stand at their own place in the input."""
    own = batch.tokens if batch.decoder_tokens is None else batch.decoder_tokens
    if own is None or batch.targets is None or batch.targets.shape != own.shape:
        return 0.0
    counted = batch.targets != IGNORED
    return float((batch.targets == own)[counted].float().mean()) if counted.any() else 0.0


_GRAVE = 0.01
"""The share of a split from which on its results mean something else."""


def leaks(patient: Patient) -> Finding:
    """Report what was counted when the data were prepared."""
    counts = patient.parts.data.leaks()
    if not counts:
        return not_applicable("unknown: this data cannot compare its rows")
    measured = {f"{name}_in_train": float(counts[name]["in_train"]) for name in ("validation", "test")}
    if (sentence := leak_sentence(counts)) is None:
        compared = f"none of {counts['validation']['rows'] + counts['test']['rows']:,} held-out {counts['unit']}"
        return Finding("ok", repeats_sentence(counts) or f"{compared} occurs in train", "", measured)
    verdict: Verdict = "fault" if leak_share(counts) >= _GRAVE else "warning"
    field = counts.get("drop_field")
    advice = f"set {field}=true, or " if field else ""
    advice += "draw grouped splits (data.share_by)"
    return Finding(verdict, sentence, advice, measured)
