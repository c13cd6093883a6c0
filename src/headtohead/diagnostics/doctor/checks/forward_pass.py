"""Check whether a forward pass works and gives numbers, and whether the loss at the start is that of a uniform
guess."""

from __future__ import annotations

import math
from copy import deepcopy

import torch

from headtohead.architectures.architecture import Architecture
from headtohead.diagnostics.doctor.part_calls import SAME, blamed, spoiling
from headtohead.diagnostics.doctor.patient import Finding, Patient, not_applicable
from headtohead.diagnostics.doctor.training_steps import LossAndGradients, as_started
from headtohead.diagnostics.laws.law_subject import difference

_ADVICE = "look there for a logarithm, a root or a division near zero, or take precision=32-true"


def forward(patient: Patient) -> Finding:
    """Check a real batch in training and in evaluation, in the precision of the run, and random inputs in double."""
    trial = LossAndGradients(patient, patient.few, as_started(patient))
    losses = {"training": trial.differentiate(), "evaluation": trial.loss()}
    measured = {f"loss_in_{mode}": loss for mode, loss in losses.items()}
    for mode, loss in losses.items():
        if not math.isfinite(loss):
            trial.model.train(mode == "training")
            names = list(spoiling(trial.model, trial.batch.inputs()))
            return Finding("fault", f"in {mode} the loss is {loss}, because of {blamed(names)}", _ADVICE, measured)
    if not patient.features(patient.exact, patient.example).isfinite().all():
        names = list(spoiling(patient.exact, patient.example))
        message = f"with weights of usual size outputs are not finite, because of {blamed(names)}"
        return Finding("fault", message, _ADVICE, measured)
    return Finding("ok", "losses and outputs are finite, in training and in evaluation", measured=measured)


def modes(patient: Patient) -> Finding:
    """Check the passes with dropout as configured, and without."""
    chance = _difference(patient, patient.model_with_dropout, (False, 0), (False, 1))
    dropout = _difference(patient, patient.model_with_dropout, (True, 0), (True, 1))
    mode = difference(
        patient.features(patient.exact, patient.example, training=True),
        patient.features(patient.exact, patient.example),
    )
    measured = {"chance_in_evaluation": chance, "chance_in_training": dropout, "training_against_evaluation": mode}
    if chance > 0:
        message = f"two evaluations of the same input differ by {chance:.0%}: something random ignores evaluation mode"
        return Finding("fault", message, "give functional dropout training=self.training, or use nn.Dropout", measured)
    if mode > SAME and not patient.has_batch_statistics:
        message = f"without dropout, training still differs from evaluation, by {mode:.0%}"
        return Finding(
            "warning", message, "look for a part that reads self.training, or draws random numbers", measured
        )
    kind = "evaluation is exact"
    if mode > SAME:
        return Finding("ok", f"{kind}; batch_norm makes training differ by {mode:.0%}, as it should", "", measured)
    message = f"{kind}; dropout moves training by {dropout:.0%}" if dropout > 0 else f"{kind}, and training equals it"
    return Finding("ok", message, "", measured)


def _difference(patient: Patient, model: Architecture, one: tuple[bool, int], two: tuple[bool, int]) -> float:
    """Return the difference between two passes of the example, each in a mode and with a seed."""
    inputs = {name: x.float() if x.is_floating_point() else x for name, x in patient.example.items()}
    outputs = []
    for training, seed in (one, two):
        model.train(training)
        torch.manual_seed(seed)
        with torch.no_grad():
            outputs.append(model.features(**inputs))
    return difference(outputs[1], outputs[0])


_ABOVE = 2.5
"""Nats, or ln(classes) where that is less. Logits that deviate by s cost about s^2 / 2, so this is s = 2.2, won back
within some steps; a head tied to its embedding, which starts by guessing the token it reads, costs 1 to 2.4."""
_LOST = 3.0
"""So many times ln(V) above it are not won back soon."""
_SHARE_BELOW = 0.25


def initial_loss(patient: Patient) -> Finding:
    """Compare with logits that are all equal: ln(V), or ln(classes)."""
    if patient.parts.identity.init_from is not None:
        return not_applicable(f"it starts from trained weights: init_from={patient.parts.identity.init_from}")
    batch = patient.batch()
    trial = LossAndGradients(patient, batch, as_started(patient))
    # In training: batch norm has no statistics to evaluate with yet.
    loss, expected = trial.loss(training=True), _of_equal_logits(patient, trial)
    measured = {"loss": loss, "loss_of_equal_logits": expected}
    is_score = batch.targets is not None and batch.targets.is_floating_point()
    size = "the error of the mean score" if is_score else f"ln({math.exp(expected):.0f})"
    excess = loss - expected
    if excess > min(_ABOVE, expected):
        message = (
            f"the loss starts at {loss:.2f}, {excess:.2f} above {size} = {expected:.2f}, as if logits deviated by "
            f"{math.sqrt(2 * excess):.1f}"
        )
        advice = (
            "start the head smaller: model/initialisation=gpt2, or model.tie_weights=false; look for a lost final norm"
        )
        return Finding("warning" if excess < _LOST * expected else "fault", message, advice, measured)
    if -excess > _SHARE_BELOW * expected:
        message = (
            f"the loss starts at {loss:.2f}, {-excess:.2f} below {size} = {expected:.2f}: something reveals the answers"
        )
        return Finding(
            "warning", message, "check that no input contains its own target, and that targets are shifted", measured
        )
    return Finding("ok", f"the loss starts at {loss:.3f}, and {size} = {expected:.3f}", "", measured)


def _of_equal_logits(patient: Patient, trial: LossAndGradients) -> float:
    """Return the loss of the same batch under a model whose every parameter is zero."""
    blank = LossAndGradients(patient, trial.batch, deepcopy(trial.model))
    with torch.no_grad():
        for parameter in blank.model.parameters():
            parameter.zero_()
    return blank.loss()
