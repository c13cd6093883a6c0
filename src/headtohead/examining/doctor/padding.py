"""Whether padding is seen: what stands in it is changed, and then it is taken away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.heads import Classifier
from headtohead.components.contracts import Context
from headtohead.examining.doctor.calls import SAME, blamed, calls, tiny
from headtohead.examining.doctor.contracts import Finding, not_applicable
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.laws.subject import difference

_MASKS = {"tokens": "valid", "decoder_tokens": "decoder_valid"}


@dataclass(frozen=True)
class Padded:
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
        """One row, cut to its own length."""
        own = {name: tensor[row : row + 1] for name, tensor in self.inputs.items() if name != _MASKS[self.field]}
        return {**own, self.field: own[self.field][:, : self.lengths[row]]}


def padding(patient: Patient) -> Finding:
    """In every input that can be padded."""
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
            says = f"{what} outputs at real tokens by {max(seen, shifted):.0%}: {_to_blame(patient, padded)} reads it"
            mask = "context.memory_valid in a cross mixer, " if field == "tokens" and len(fields) > 1 else ""
            advice = f"mask keys where context.valid is false ({mask}minus infinity, not 0), and pool over real tokens"
            return Finding("fault", says, advice, measured)
    largest = max(measured.values())
    return Finding(
        "ok", f"neither its content nor its amount moves an output (largest change {tiny(largest)})", "", measured
    )


def _padded(patient: Patient, field: str) -> Padded:
    tokens = patient.example[field]
    length = tokens.shape[1]
    lengths = [max(1, length - cut) for cut in (1, 3, length // 2, length - 2)][: len(tokens)]
    valid = torch.arange(length)[None] < torch.tensor(lengths)[:, None]
    return Padded(field, {**patient.example, _MASKS[field]: valid.to(tokens.device)}, lengths)


def _seen(patient: Patient, padded: Padded) -> float:
    """How far other padding moves the outputs, in training too."""
    other = padded.with_other_padding(int(patient.config["model"]["vocab_size"]))
    found = 0.0
    for training in (False, True):
        one, two = (patient.features(patient.exact, inputs, training=training) for inputs in (padded.inputs, other))
        keep = _kept(padded, one)
        found = max(found, difference(two[keep], one[keep]))
    if isinstance(patient.exact.head, Classifier):
        one, two = (patient.logits(patient.exact, inputs) for inputs in (padded.inputs, other))
        found = max(found, difference(two, one))
    return found


def _shifted(patient: Patient, padded: Padded) -> float:
    """How far each row's outputs are from those that it has without padding."""
    model = patient.exact
    together = patient.features(model, padded.inputs)
    scale = float(together[_kept(padded, together)].abs().max())
    found = 0.0
    for row in range(len(together)):
        alone = patient.features(model, padded.row_alone(row))[0]
        found = max(found, difference(together[row, : len(alone)], alone, scale))
    if isinstance(model.head, Classifier):
        logits = patient.logits(model, padded.inputs)
        alone = torch.cat([patient.logits(model, padded.row_alone(row)) for row in range(len(logits))])
        found = max(found, difference(logits, alone))
    return found


def _kept(padded: Padded, outputs: Tensor) -> Tensor:
    """Outputs stand at the padded tokens, unless these are the source of another sequence, or have one output."""
    own = padded.field == "decoder_tokens" or "decoder_tokens" not in padded.inputs
    if own and outputs.shape[:2] == padded.valid.shape:
        return padded.valid
    return torch.ones(outputs.shape[:2], dtype=torch.bool, device=outputs.device)


def _to_blame(patient: Patient, padded: Padded) -> str:
    patient.exact.eval()
    names = list(_reading_padding(patient.exact, padded.inputs, padded.valid))
    if not names and isinstance(patient.exact.head, Classifier):
        return "head (Classifier)"
    return blamed(names)


def _reading_padding(model: Architecture, inputs: Mapping[str, Tensor], valid: Tensor) -> Iterator[str]:
    """Names of the parts whose outputs at real tokens change with what they are given elsewhere."""
    for call in calls(model, inputs):
        context = call.context or Context()
        if call.x.shape[:2] == valid.shape and context.memory is None:
            other = call.x + torch.randn_like(call.x) * ~valid[..., None]
            if difference(call.again(other)[valid], call.again()[valid]) > SAME:
                yield call.name
        elif context.memory is not None and context.memory_valid is not None:
            noise = torch.randn_like(context.memory) * ~context.memory_valid[..., None]
            if difference(call.again(context=replace(context, memory=context.memory + noise)), call.again()) > SAME:
                yield call.name
