"""`h2h doctor`: what keeps a model from learning, found by experiment, one check at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from headtohead.building.errors import ConfigurationError, unknown
from headtohead.examining.doctor.attention import attention
from headtohead.examining.doctor.causality import causality
from headtohead.examining.doctor.contracts import Check, Finding, not_applicable
from headtohead.examining.doctor.data import data
from headtohead.examining.doctor.forward import forward
from headtohead.examining.doctor.gradients import gradients
from headtohead.examining.doctor.initial_loss import initial_loss
from headtohead.examining.doctor.leaks import leaks
from headtohead.examining.doctor.learning_rate import learning_rate
from headtohead.examining.doctor.memory import memory
from headtohead.examining.doctor.modes import modes
from headtohead.examining.doctor.order import order
from headtohead.examining.doctor.overfitting import overfitting
from headtohead.examining.doctor.packing import packing
from headtohead.examining.doctor.padding import padding
from headtohead.examining.doctor.parameters import parameters
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.doctor.rows import rows
from headtohead.training.devices import threads

__all__ = ["CHECKS", "Check", "Diagnosis", "Finding", "Patient", "chosen", "examine"]

_APART = ("forward", "modes", "rows")
CHECKS: tuple[Check, ...] = (
    Check("data", "can the batches be learnt from?", data),
    Check("leaks", "is nothing of validation and test in train?", leaks),
    Check("forward", "does a forward pass give numbers?", forward, needs=("data",)),
    Check("modes", "is evaluation exact?", modes, needs=("forward",)),
    Check("rows", "are the rows of a batch apart?", rows, needs=("forward", "modes")),
    Check("causality", "is the future hidden where it must be?", causality, needs=_APART),
    Check("memory", "does the decoder read its source?", memory, needs=_APART),
    Check("packing", "are documents in one row apart?", packing, needs=(*_APART, "causality")),
    Check("padding", "is padding ignored?", padding, needs=(*_APART, "causality", "memory")),
    Check("order", "does the order of tokens matter?", order, needs=(*_APART, "memory")),
    Check("attention", "can attention choose?", attention, needs=(*_APART, "memory")),
    Check("initial_loss", "does the loss start at that of one who knows nothing?", initial_loss, needs=("forward",)),
    Check("parameters", "can every parameter learn?", parameters, needs=("forward", "memory")),
    Check("gradients", "do gradients reach every layer?", gradients, needs=("forward", "memory", "parameters")),
    Check("learning_rate", "does the model stand the learning rate?", learning_rate, needs=("forward",)),
    Check("overfitting", "can it learn one batch by heart?", overfitting, needs=("forward",)),
)
"""In the order of what can be told from what: a check comes after those whose faults would reach it too."""


@dataclass(frozen=True)
class Diagnosis:
    """What one check found, and how long it took."""

    check: Check
    finding: Finding
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        finding = self.finding
        return {
            "name": self.check.name,
            "question": self.check.question,
            "verdict": finding.verdict,
            "says": finding.says,
            "advice": finding.advice,
            "measured": dict(finding.measured),
            "seconds": round(self.seconds, 3),
        }


_BY_NAME = {check.name: check for check in CHECKS}


def chosen(names: Sequence[str]) -> tuple[Check, ...]:
    """The checks of these names, in their usual order; all where none is named."""
    for name in names:
        if name not in _BY_NAME:
            raise ConfigurationError(unknown(f"--check {name} is no check", name, list(_BY_NAME)))
    return tuple(check for check in CHECKS if not names or check.name in names)


def examine(
    patient: Patient, checks: Sequence[Check] = CHECKS, *, begin: Callable[[Check], object] = lambda _: None
) -> list[Diagnosis]:
    """One that breaks down is a fault, and the others go on; one whose needs are not met, examined or not, is left out.

    The generators of chance are as before afterwards.
    """
    known: dict[str, Finding] = {}
    found = []
    for check in checks:
        begin(check)
        started = time.perf_counter()
        finding = _finding(check, patient, known)
        found.append(Diagnosis(check, finding, time.perf_counter() - started))
    return found


def _finding(check: Check, patient: Patient, known: dict[str, Finding]) -> Finding:
    """Found once, after all that the check needs."""
    if check.name not in known:
        needed = {name: _finding(_BY_NAME[name], patient, known) for name in check.needs}
        broken = [name for name, finding in needed.items() if finding.verdict == "fault"]
        known[check.name] = (
            not_applicable(f"not told: it needs `{broken[0]}` to be well") if broken else _answer(check, patient)
        )
    return known[check.name]


def _answer(check: Check, patient: Patient) -> Finding:
    devices = [patient.device] if patient.device.type == "cuda" else []
    with threads(patient.parts.settings.threads), torch.random.fork_rng(devices=devices):
        torch.manual_seed(0)
        try:
            return check.answer(patient)
        except Exception as error:
            if os.environ.get("HEADTOHEAD_DEBUG"):
                raise
            says = f"the model breaks down: {type(error).__name__}: {' '.join(str(error).split())}"
            advice = f"HEADTOHEAD_DEBUG=1 h2h doctor --check {check.name} shows where"
            return Finding("fault", says, advice)
