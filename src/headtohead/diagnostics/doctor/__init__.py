"""`h2h doctor`: what keeps a model from learning, found by experiment, one check at a time."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.config.errors import ConfigurationError, unknown
from headtohead.diagnostics.doctor.checks.attention import attention
from headtohead.diagnostics.doctor.checks.data import data, leaks
from headtohead.diagnostics.doctor.checks.first_step import forward, gradients, initial_loss, modes, parameters
from headtohead.diagnostics.doctor.checks.learning import learning_rate, overfitting
from headtohead.diagnostics.doctor.checks.padding import packing, padding
from headtohead.diagnostics.doctor.checks.token_order_and_visibility import causality, memory, order, rows
from headtohead.diagnostics.doctor.patient import Check, Finding, Patient, Verdict, not_applicable
from headtohead.durations import duration
from headtohead.training.parallel.devices import threads

__all__ = ["CHECKS", "Check", "Diagnosis", "Finding", "Patient", "chosen", "examine"]

_APART = ("forward", "modes", "rows")
CHECKS: tuple[Check, ...] = (
    Check("data", "can a model learn from the batches?", data),
    Check("leaks", "are validation and test rows absent from train?", leaks),
    Check("forward", "does a forward pass give finite numbers?", forward, needs=("data",)),
    Check("modes", "is evaluation exact?", modes, needs=("forward",)),
    Check("rows", "are the rows of a batch independent?", rows, needs=("forward", "modes")),
    Check("causality", "are future tokens hidden where they must be?", causality, needs=_APART),
    Check("memory", "does the decoder read its source?", memory, needs=_APART),
    Check("packing", "are documents in one row independent?", packing, needs=(*_APART, "causality")),
    Check("padding", "is padding ignored?", padding, needs=(*_APART, "causality", "memory")),
    Check("order", "does the order of tokens matter?", order, needs=(*_APART, "memory")),
    Check("attention", "can attention choose?", attention, needs=(*_APART, "memory")),
    Check("initial_loss", "does the loss start at that of a uniform guess?", initial_loss, needs=("forward",)),
    Check("parameters", "can every parameter learn?", parameters, needs=("forward", "memory")),
    Check("gradients", "do gradients reach every layer?", gradients, needs=("forward", "memory", "parameters")),
    Check("learning_rate", "does the model tolerate the learning rate?", learning_rate, needs=("forward",)),
    Check("overfitting", "can it memorise one batch?", overfitting, needs=("forward",)),
)
"""The checks, in an order in which each comes after those whose faults would reach it too."""


@dataclass(frozen=True)
class Diagnosis:
    """A diagnosis is what one check found, and how long it took."""

    check: Check
    finding: Finding
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        finding = self.finding
        return {
            "name": self.check.name,
            "question": self.check.question,
            "verdict": finding.verdict,
            "says": finding.message,
            "advice": finding.advice,
            "measured": dict(finding.measured),
            "seconds": round(self.seconds, 3),
        }


_BY_NAME = {check.name: check for check in CHECKS}


def chosen(names: Sequence[str]) -> tuple[Check, ...]:
    """Return the checks of these names, in their usual order; all where none is named."""
    for name in names:
        if name not in _BY_NAME:
            raise ConfigurationError(unknown(f"--check {name} is not a check", name, list(_BY_NAME)))
    return tuple(check for check in CHECKS if not names or check.name in names)


def examine(
    patient: Patient, checks: Sequence[Check] = CHECKS, *, begin: Callable[[Check], object] = lambda _: None
) -> list[Diagnosis]:
    """One that breaks down is a fault, and the others continue; one whose needs are not met, examined or not, is left
    out.

    The generators of chance are as before afterwards.
    """
    known: dict[str, Finding] = {}
    diagnoses = []
    for check in checks:
        begin(check)
        started = time.perf_counter()
        finding = _finding(check, patient, known)
        diagnoses.append(Diagnosis(check, finding, time.perf_counter() - started))
    return diagnoses


def _finding(check: Check, patient: Patient, known: dict[str, Finding]) -> Finding:
    """Found once, after all that the check needs."""
    if check.name not in known:
        needed = {name: _finding(_BY_NAME[name], patient, known) for name in check.needs}
        broken = [name for name, finding in needed.items() if finding.verdict == "fault"]
        known[check.name] = (
            not_applicable(f"skipped: it needs `{broken[0]}` to pass") if broken else _answer(check, patient)
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
            message = f"the model breaks down: {type(error).__name__}: {' '.join(str(error).split())}"
            advice = f"HEADTOHEAD_DEBUG=1 h2h doctor --check {check.name} shows where"
            return Finding("fault", message, advice)


_COLOURS: dict[Verdict, str] = {"fault": "bold red", "warning": "yellow", "ok": "green", "not applicable": "dim"}
_PLURAL: dict[Verdict, str] = {"fault": "faults", "warning": "warnings"}


def show_diagnoses(diagnoses: Sequence[Diagnosis]) -> RenderableType:
    """Return a line for each check, its advice below where there is one, and a last line that counts."""
    table = Table(pad_edge=False)
    for name in ("check", "verdict"):
        table.add_column(name, no_wrap=True)
    table.add_column("finding and fix")
    for diagnosis in diagnoses:
        finding = diagnosis.finding
        is_left_out = finding.verdict == "not applicable"
        style = "dim" if is_left_out else ""
        text = Text(finding.message, style=style)
        if finding.advice:
            text.append(f"\n-> {finding.advice}", style="bold")
        verdict = "n/a" if is_left_out else finding.verdict
        table.add_row(Text(diagnosis.check.name, style=style), Text(verdict, style=_COLOURS[finding.verdict]), text)
    return Group(table, Text(summary(diagnoses)))


def summary(diagnoses: Sequence[Diagnosis]) -> str:
    """Count the diagnoses of each verdict, the gravest first."""
    counts = Counter(diagnosis.finding.verdict for diagnosis in diagnoses)
    parts = [
        f"{counts[verdict]} {_PLURAL.get(verdict, verdict) if counts[verdict] > 1 else verdict}"
        for verdict in _COLOURS
        if counts[verdict]
    ]
    if not counts["fault"]:
        parts.insert(0, "no fault")
    return f"{', '.join(parts)} ({duration(sum(diagnosis.seconds for diagnosis in diagnoses))})"
