"""`h2h doctor [OVERRIDE ...]`: sixteen checks for "it does not learn", each with a verdict and a fix."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headtohead.cli.options import add_configuration, add_from_run, command_parser, composed, configuration_text, parse
from headtohead.cli.terminal import out, show_table
from headtohead.config.rules.data_paths import check_data_paths

_EXAMPLES = """\
examples:
  h2h doctor                                                  the run that h2h train would start
  h2h doctor model=encoder_only task=masked_lm optimizer.lr=3e-3
  h2h doctor model.mixer._target_=mine.MyMixer                a class of your own, found from this folder
  h2h doctor --from-run outputs/default/RUN                   a run that did not learn, as it was configured
  h2h doctor --check causality --check padding                only some checks
  h2h doctor --json                                           verdicts and numbers, for programs

checks: data, leaks, forward, modes, rows, causality, memory, packing, padding, order, attention, initial_loss,
parameters, gradients, learning_rate, overfitting

exit code: 0 no fault, 1 a fault, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    parser = command_parser("doctor", "Find what keeps a model from learning; nothing is recorded.", _EXAMPLES)
    add_configuration(parser)
    add_from_run(parser, "examine")
    parser.add_argument("--check", action="append", default=[], metavar="NAME", help="run this check; may be repeated")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parse(parser, arguments)
    config = composed(options)
    if options.cfg:
        out(configuration_text(options, config))
        return 0
    check_data_paths(config)
    from headtohead import api
    from headtohead.diagnostics.doctor import show_diagnoses

    result = api.doctor(config, checks=options.check)
    if options.json:
        out(json.dumps({"faults": len(result.faults), "checks": result.as_rows()}, indent=2))
    else:
        show_table(show_diagnoses(result.diagnoses))
    return 1 if result.faults else 0
