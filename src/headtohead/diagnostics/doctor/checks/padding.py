"""Check whether the model sees padding: its content is changed, and then it is removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.heads import Classifier
from headtohead.components.component import Context
from headtohead.config.run_config import RunConfig
from headtohead.diagnostics.doctor.part_calls import SAME, culprits, part_calls, tiny
from headtohead.diagnostics.doctor.patient import Finding, Patient, not_applicable
from headtohead.diagnostics.laws.law_subject import difference

_MASKS = {"tokens": "valid", "decoder_tokens": "decoder_valid"}


@dataclass(frozen=True)
class PaddedInputs:
    """The example with some of one input's tokens declared to be padding."""

    field: str
    inputs: dict[str, Tensor]
    lengths: list[int]

    @property
    def valid(self) -> Tensor:
        return self.inputs[_MASKS[self.field]]

    def with_other_padding(self, vocab_size: int) -> dict[str, Tensor]:
        tokens = self.inputs[self.field]
        return {**self.inputs, self.field: torch.where(self.valid, tokens, (tokens + 1) % vocab_size)}

    def row_alone(self, row: int) -> dict[str, Tensor]:
        """Return one row, cut to its own length."""
        own = {name: tensor[row : row + 1] for name, tensor in self.inputs.items() if name != _MASKS[self.field]}
        return {**own, self.field: own[self.field][:, : self.lengths[row]]}


def padding(patient: Patient) -> Finding:
    """Check every input that can be padded."""
    fields = [field for field in _MASKS if field in patient.example]
    if not fields:
        return not_applicable("images have no padding")
    measured: dict[str, float] = {}
    for field in fields:
        padded = _padded(patient, field)
        seen, shifted = _seen(patient, padded), _shifted(patient, padded)
        measured |= {f"{field}_content": seen, f"{field}_amount": shifted}
        if max(seen, shifted) > SAME:
            what = "other ids in the padding move" if seen > SAME else "padding moves"
            message = (
                f"{what} outputs at real tokens by {max(seen, shifted):.0%}: {_to_blame(patient, padded)} reads it"
            )
            mask = "context.memory_valid in a cross mixer, " if field == "tokens" and len(fields) > 1 else ""
            advice = f"mask keys where context.valid is false ({mask}minus infinity, not 0), and pool over real tokens"
            return Finding("fault", message, advice, measured)
    largest = max(measured.values())
    return Finding(
        "ok", f"neither its content nor its amount moves an output (largest change {tiny(largest)})", "", measured
    )


def _padded(patient: Patient, field: str) -> PaddedInputs:
    tokens = patient.example[field]
    length = tokens.shape[1]
    lengths = [max(1, length - cut) for cut in (1, 3, length // 2, length - 2)][: len(tokens)]
    valid = torch.arange(length)[None] < torch.tensor(lengths)[:, None]
    return PaddedInputs(field, {**patient.example, _MASKS[field]: valid.to(tokens.device)}, lengths)


def _seen(patient: Patient, padded: PaddedInputs) -> float:
    """Return how far other padding moves the outputs, also in training."""
    other = padded.with_other_padding(RunConfig(patient.config).vocab_size)
    result = 0.0
    for training in (False, True):
        one, two = (patient.features(patient.exact, inputs, training=training) for inputs in (padded.inputs, other))
        keep = _real_outputs(padded, one)
        result = max(result, difference(two[keep], one[keep]))
    if isinstance(patient.exact.head, Classifier):
        one, two = (patient.logits(patient.exact, inputs) for inputs in (padded.inputs, other))
        result = max(result, difference(two, one))
    return result


def _shifted(patient: Patient, padded: PaddedInputs) -> float:
    """Return how far each row's outputs are from those that it has without padding."""
    model = patient.exact
    together = patient.features(model, padded.inputs)
    scale = float(together[_real_outputs(padded, together)].abs().max())
    result = 0.0
    for row in range(len(together)):
        alone = patient.features(model, padded.row_alone(row))[0]
        result = max(result, difference(together[row, : len(alone)], alone, scale))
    if isinstance(model.head, Classifier):
        logits = patient.logits(model, padded.inputs)
        alone = torch.cat([patient.logits(model, padded.row_alone(row)) for row in range(len(logits))])
        result = max(result, difference(logits, alone))
    return result


def _real_outputs(padded: PaddedInputs, outputs: Tensor) -> Tensor:
    """Outputs stand at the padded tokens, unless these are the source of another sequence, or have one output."""
    own = padded.field == "decoder_tokens" or "decoder_tokens" not in padded.inputs
    if own and outputs.shape[:2] == padded.valid.shape:
        return padded.valid
    return torch.ones(outputs.shape[:2], dtype=torch.bool, device=outputs.device)


def _to_blame(patient: Patient, padded: PaddedInputs) -> str:
    patient.exact.eval()
    names = list(_reading_padding(patient.exact, padded.inputs, padded.valid))
    if not names and isinstance(patient.exact.head, Classifier):
        return "head (Classifier)"
    return culprits(names)


def _reading_padding(model: Architecture, inputs: Mapping[str, Tensor], valid: Tensor) -> Iterator[str]:
    """Names of the parts whose outputs at real tokens change with what they are given elsewhere."""
    for call in part_calls(model, inputs):
        context = call.context or Context()
        if call.x.shape[:2] == valid.shape and context.memory is None:
            other = call.x + torch.randn_like(call.x) * ~valid[..., None]
            if difference(call.again(other)[valid], call.again()[valid]) > SAME:
                yield call.name
        elif context.memory is not None and context.memory_valid is not None:
            noise = torch.randn_like(context.memory) * ~context.memory_valid[..., None]
            if difference(call.again(context=replace(context, memory=context.memory + noise)), call.again()) > SAME:
                yield call.name


def packing(patient: Patient) -> Finding:
    """Check two documents of unequal length, in evaluation."""
    if patient.few.segments is None:
        return not_applicable("no row of this data holds several separate documents")
    tokens = patient.example["tokens"]
    first = max(1, tokens.shape[1] // 3)
    packed = patient.features(patient.exact, _packed(tokens, first))
    pieces = [patient.features(patient.exact, {"tokens": piece}) for piece in (tokens[:, :first], tokens[:, first:])]
    change = difference(packed, torch.cat(pieces, dim=1))
    measured = {"largest_change": change}
    if change > SAME:
        message = f"a document's outputs change by {change:.0%} when another one stands before it in its row"
        advice = "mask by context.segments and count from context.positions, or pack with data.packing=none"
        return Finding("fault", message, advice, measured)
    return Finding(
        "ok", f"documents in a row have the outputs that they have alone (largest change {tiny(change)})", "", measured
    )


def _packed(tokens: Tensor, first: int) -> dict[str, Tensor]:
    second = tokens.shape[1] - first
    segments = torch.tensor([0] * first + [1] * second, device=tokens.device)
    positions = torch.cat((torch.arange(first), torch.arange(second))).to(tokens.device)
    return {
        "tokens": tokens,
        "segments": segments.expand(len(tokens), -1),
        "positions": positions.expand(len(tokens), -1),
    }
