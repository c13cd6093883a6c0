"""`h2h export RUN --to onnx`: a finished run in a form that other programs read."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtohead.cli.options import add_trust, check_runs, command_parser, parse
from headtohead.cli.terminal import note, out, show_table

if TYPE_CHECKING:
    from rich.table import Table

    from headtohead.finished_runs.export_run import Exported

_EXAMPLES = """\
examples:
  h2h export outputs/default/RUN --to safetensors      weights and config.yaml, nothing to unpickle
  h2h export RUN --to hub                              as transformers reads it, with its tokenizer
  h2h export RUN --to torch                            a torch.export program, batch and length left open
  h2h export RUN --to onnx --out served                for onnxruntime (pip install 'headtohead[export]')
  h2h export RUN --to onnx --json                      the results of the check as JSON

The export is read back, compared with the run's own logits at several batch sizes and lengths, and timed; the results
go to export.json next to it. An exported graph takes whole rows, without padding.

exit code: 0 written and checked, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    parser = command_parser("export", "Write a finished run in a form that other programs read.", _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="a run's folder, outputs/GROUP/ID")
    add_trust(parser)
    parser.add_argument("--to", required=True, choices=["safetensors", "hub", "torch", "onnx"], help="the form")
    parser.add_argument("--out", metavar="FOLDER", help="default: RUN/export/FORM")
    parser.add_argument("--json", action="store_true", help="what the check found, as JSON")
    parser.set_defaults(multirun=False)
    options = parse(parser, arguments)
    check_runs([options.run])
    from headtohead import api

    result = api.export(options.run, options.to, out=options.out)
    if options.json:
        out(json.dumps(result.to_dict(), indent=2))
    else:
        show_table(_table(result))
    for file in result.files:
        note(os.path.relpath(file))
    return 0


def _table(export: Exported) -> Table:
    from rich.table import Table

    has_target = "decoder_tokens" in export.inputs
    table = Table("rows", "length", *(["target"] if has_target else []), "difference", "eager ms", f"{export.form} ms")
    for row in export.rows:
        target = [str(row.target)] if has_target else []
        times = (f"{row.eager_ms:.2f}", f"{row.artefact_ms:.2f}")
        table.add_row(str(row.batch), str(row.length), *target, f"{row.difference:.1e}", *times)
    return table
