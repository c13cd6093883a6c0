"""Whether a forward pass works and gives numbers: without, nothing else can be told."""

from __future__ import annotations

import math

from headtohead.examining.doctor.calls import blamed, spoiling
from headtohead.examining.doctor.contracts import Finding
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.doctor.steps import Trial, as_started

_ADVICE = "look there for a logarithm, a root or a division near zero, or take precision=32-true"


def forward(patient: Patient) -> Finding:
    """A real batch in training and in evaluation, in the precision of the run, and random inputs in double."""
    trial = Trial(patient, patient.few, as_started(patient))
    losses = {"training": trial.differentiate(), "evaluation": trial.loss()}
    measured = {f"loss_in_{mode}": loss for mode, loss in losses.items()}
    for mode, loss in losses.items():
        if not math.isfinite(loss):
            trial.model.train(mode == "training")
            names = list(spoiling(trial.model, trial.batch.inputs()))
            return Finding("fault", f"in {mode} the loss is {loss}: {blamed(names)} makes it so", _ADVICE, measured)
    if not patient.features(patient.exact, patient.example).isfinite().all():
        names = list(spoiling(patient.exact, patient.example))
        says = f"with weights of usual size outputs are no numbers: {blamed(names)} makes them so"
        return Finding("fault", says, _ADVICE, measured)
    return Finding("ok", "losses and outputs are finite, in training and in evaluation", measured=measured)
