"""Whether training starts at the loss of one who knows nothing: higher is misplaced confidence, lower is a leak."""

from __future__ import annotations

import math
from copy import deepcopy

import torch

from headtohead.examining.doctor.contracts import Finding, not_applicable
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.doctor.steps import Trial, as_started

_ABOVE = 2.5
"""Nats, or ln(classes) where that is less. Logits that deviate by s cost about s^2 / 2, so this is s = 2.2, won back
within some steps; a head tied to its embedding, which starts by guessing the token it reads, costs 1 to 2.4."""
_LOST = 3.0
"""So many times ln(V) above it are not won back soon."""
_SHARE_BELOW = 0.25


def initial_loss(patient: Patient) -> Finding:
    """Against logits that are all equal: ln(V), or ln(classes)."""
    if patient.parts.identity.init_from is not None:
        return not_applicable(f"it starts from trained weights: init_from={patient.parts.identity.init_from}")
    batch = patient.batch()
    trial = Trial(patient, batch, as_started(patient))
    # In training: batch norm has no statistics to evaluate with yet.
    found, expected = trial.loss(training=True), _of_equal_logits(patient, trial)
    measured = {"loss": found, "loss_of_equal_logits": expected}
    is_score = batch.targets is not None and batch.targets.is_floating_point()
    size = "the error of the mean score" if is_score else f"ln({math.exp(expected):.0f})"
    excess = found - expected
    if excess > min(_ABOVE, expected):
        says = (
            f"the loss starts at {found:.2f}, {excess:.2f} above {size} = {expected:.2f}, as if logits deviated by "
            f"{math.sqrt(2 * excess):.1f}"
        )
        advice = (
            "start the head smaller: model/initialisation=gpt2, or model.tie_weights=false; look for a lost final norm"
        )
        return Finding("warning" if excess < _LOST * expected else "fault", says, advice, measured)
    if -excess > _SHARE_BELOW * expected:
        says = (
            f"the loss starts at {found:.2f}, {-excess:.2f} below {size} = {expected:.2f}: something tells the answers"
        )
        return Finding(
            "warning", says, "see that no input holds its own target, and that targets are shifted", measured
        )
    return Finding("ok", f"the loss starts at {found:.3f}, and {size} = {expected:.3f}", "", measured)


def _of_equal_logits(patient: Patient, trial: Trial) -> float:
    """Of the same batch, by a model whose every parameter is zero."""
    blank = Trial(patient, trial.batch, deepcopy(trial.model))
    with torch.no_grad():
        for parameter in blank.model.parameters():
            parameter.zero_()
    return blank.loss()
