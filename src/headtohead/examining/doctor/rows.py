"""Whether the rows of a batch are apart: another row must not move an output."""

from __future__ import annotations

from torch import Tensor

from headtohead.examining.doctor.calls import SAME, blamed, calls, tiny
from headtohead.examining.doctor.contracts import Finding
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.laws.subject import difference


def rows(patient: Patient) -> Finding:
    """All rows but the first are changed; batch norm is known to mix them in training."""
    inputs, other = patient.example, _with_others(patient)
    changes = {}
    for mode in ("evaluation", "training"):
        one, two = (patient.features(patient.exact, given, training=mode == "training") for given in (inputs, other))
        changes[mode] = difference(two[0], one[0])
    measured = {f"change_in_{mode}": change for mode, change in changes.items()}
    if changes["evaluation"] > SAME or (changes["training"] > SAME and not patient.has_batch_statistics):
        mode = "evaluation" if changes["evaluation"] > SAME else "training"
        patient.exact.train(mode == "training")
        names = [call.name for call in calls(patient.exact, inputs) if _mixes(call.x, call.again)]
        says = (
            f"in {mode} other rows of the batch move a row's outputs by {changes[mode]:.0%}: {blamed(names)} mixes rows"
        )
        advice = "look for a view or reshape that folds heads or tokens into the batch in another order than it unfolds"
        return Finding("fault", says, advice, measured)
    if changes["training"] > SAME:
        says = f"apart in evaluation; in training batch_norm mixes them by design ({changes['training']:.0%})"
        return Finding("ok", says, "", measured)
    return Finding("ok", f"no row moves another's outputs (largest change {tiny(max(changes.values()))})", "", measured)


def _with_others(patient: Patient) -> dict[str, Tensor]:
    """The example with every input of all rows but the first replaced by that of the row after it."""
    inputs = {}
    for name, tensor in patient.example.items():
        changed = tensor.clone()
        changed[1:] = tensor[1:].roll(1, dims=1)
        inputs[name] = changed
    return inputs


def _mixes(x: Tensor, again: object) -> bool:
    assert callable(again)
    other = x.clone()
    other[1:] += 1.0
    other[1:, ::2] -= 3.0
    return difference(again(other)[0], again(x)[0]) > SAME
