"""`h2h doctor [OVERRIDE ...]`: sixteen checks for "it does not learn", each with a verdict and a fix."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headtohead.cli.options import add_configuration, composed, configuration_text, parse, parser
from headtohead.cli.terminal import out, show_table

if TYPE_CHECKING:
    from headtohead.diagnostics.doctor import Diagnosis

_EXAMPLES = """\
examples:
  h2h doctor                                                  the run that h2h train would start
  h2h doctor model=encoder_only task=masked_lm optimizer.lr=3e-3
  h2h doctor model.mixer._target_=mine.MyMixer                a class of your own, found from this folder
  h2h doctor --check causality --check padding                only some checks
  h2h doctor --json                                           verdicts and numbers, for programs

checks: data, leaks, forward, modes, rows, causality, memory, packing, padding, order, attention, initial_loss,
parameters, gradients, learning_rate, overfitting

exit code: 0 no fault, 1 a fault, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    taken = parser("doctor", "Find what keeps a model from learning; nothing is recorded.", _EXAMPLES)
    add_configuration(taken)
    taken.add_argument("--check", action="append", default=[], metavar="NAME", help="run this check; may be repeated")
    taken.add_argument("--json", action="store_true", help="as JSON")
    options = parse(taken, arguments)
    config = composed(options)
    if options.cfg:
        out(configuration_text(options, config))
        return 0
    result = _examined(config, options.check)
    faults = sum(diagnosis.finding.verdict == "fault" for diagnosis in result)
    if options.json:
        out(json.dumps({"faults": faults, "checks": [diagnosis.to_dict() for diagnosis in result]}, indent=2))
    else:
        from headtohead.diagnostics.doctor import show_diagnoses

        show_table(show_diagnoses(result))
    return 1 if faults else 0


def _examined(config: dict[str, Any], names: Sequence[str]) -> list[Diagnosis]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from headtohead.config.build import build_parts
    from headtohead.diagnostics.doctor import Check, Patient, chosen, examine

    checks = chosen(names)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        bar = progress.add_task("data", total=len(checks))
        current = ""

        def begin(check: Check) -> None:
            nonlocal current
            current = check.name
            progress.update(bar, completed=checks.index(check), description=current)

        patient = Patient(build_parts(config), note=lambda text: progress.update(bar, description=f"{current}: {text}"))
        return examine(patient, checks, begin=begin)
