"""`h2h schema > headtohead.schema.json`: what an editor needs to complete and check YAML files while they are typed."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headtohead.cli.options import command_parser, parse
from headtohead.cli.terminal import note, out

_EPILOG = """\
  h2h schema > headtohead.schema.json

Then this line, as the first of a YAML file of yours (before any package header), makes editors with a YAML language
server, such as VS Code with its YAML extension, complete and check the file:

  # yaml-language-server: $schema=headtohead.schema.json
"""


def run(arguments: Sequence[str]) -> int:
    """Print the schema."""
    parser = command_parser("schema", "Print a JSON schema of the YAML files in conf/ and of your own.", _EPILOG)
    parser.set_defaults(multirun=False)
    parse(parser, arguments)
    from headtohead import api

    out(json.dumps(api.schema(), indent=1, ensure_ascii=False))
    note("in the first line of a YAML file: # yaml-language-server: $schema=headtohead.schema.json")
    return 0
