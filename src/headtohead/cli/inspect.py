"""`h2h inspect [OVERRIDE ...]`: what a model costs and which shapes it has, without training it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headtohead.cli.options import add_configuration, add_from_run, command_parser, composed, configuration_text, parse
from headtohead.cli.terminal import out, say, show_table
from headtohead.config.rules.data_paths import check_data_paths

_EXAMPLES = """\
examples:
  h2h inspect model/size=gpt2_small model.vocab_size=50257
  h2h inspect init_from=hf:FOLDER
  h2h inspect --from-run outputs/default/RUN model.num_layers=12
  h2h inspect model=encoder_decoder task=seq2seq data=number_words --json
"""


def run(arguments: Sequence[str]) -> int:
    parser = command_parser(
        "inspect", "Show a model's ledger and the shapes at every stage; nothing is trained.", _EXAMPLES
    )
    add_configuration(parser)
    add_from_run(parser, "inspect")
    parser.add_argument("--json", action="store_true", help="configuration, ledger and shapes as JSON")
    options = parse(parser, arguments)
    config = composed(options)
    if options.cfg:
        out(configuration_text(options, config))
        return 0
    check_data_paths(config)
    from headtohead import api
    from headtohead.config.origins.from_published import read_of

    inspection, checkpoint = api.inspect(config), read_of(config)
    if options.json:
        read = {} if checkpoint is None else {"checkpoint": checkpoint.to_dict()}
        out(json.dumps({"config": config, **read, **inspection.to_dict()}, indent=2))
        return 0
    from headtohead.diagnostics.inspection import show_inspection

    show_table(show_inspection(inspection))
    if checkpoint is not None:
        say(f"{config['init_from']}: {checkpoint}")
    return 0
