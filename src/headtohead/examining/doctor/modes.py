"""Whether evaluation is exact and training differs from it by dropout alone."""

from __future__ import annotations

import torch

from headtohead.architectures.contracts import Architecture
from headtohead.examining.doctor.calls import SAME
from headtohead.examining.doctor.contracts import Finding
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.laws.subject import difference


def modes(patient: Patient) -> Finding:
    """With dropout as it is configured, and without."""
    chance = _difference(patient, patient.model_with_dropout, (False, 0), (False, 1))
    dropout = _difference(patient, patient.model_with_dropout, (True, 0), (True, 1))
    mode = difference(
        patient.features(patient.exact, patient.example, training=True),
        patient.features(patient.exact, patient.example),
    )
    measured = {"chance_in_evaluation": chance, "chance_in_training": dropout, "training_against_evaluation": mode}
    if chance > 0:
        says = f"two evaluations of the same input differ by {chance:.0%}: something random ignores evaluation mode"
        return Finding("fault", says, "give functional dropout training=self.training, or use nn.Dropout", measured)
    if mode > SAME and not patient.has_batch_statistics:
        says = f"without dropout, training still differs from evaluation, by {mode:.0%}"
        return Finding("warning", says, "look for a part that reads self.training, or draws random numbers", measured)
    kind = "evaluation is exact"
    if mode > SAME:
        return Finding("ok", f"{kind}; batch_norm makes training differ by {mode:.0%}, as it should", "", measured)
    says = f"{kind}; dropout moves training by {dropout:.0%}" if dropout > 0 else f"{kind}, and training equals it"
    return Finding("ok", says, "", measured)


def _difference(patient: Patient, model: Architecture, one: tuple[bool, int], two: tuple[bool, int]) -> float:
    """Between two passes of the example, each in a mode and with a seed."""
    inputs = {name: x.float() if x.is_floating_point() else x for name, x in patient.example.items()}
    outputs = []
    for training, seed in (one, two):
        model.train(training)
        torch.manual_seed(seed)
        with torch.no_grad():
            outputs.append(model.features(**inputs))
    return difference(outputs[1], outputs[0])
