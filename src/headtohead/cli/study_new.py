"""`h2h study new NAME PATH`: looks at the data and writes a study of them that runs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from headtohead.cli.options import Parser, command_parser, parse, within
from headtohead.cli.terminal import note, out, say
from headtohead.config.errors import ConfigurationError
from headtohead.files.user_paths import check_path
from headtohead.ranges import Count

_EXAMPLES = """\
examples:
  h2h study new reviews reviews.csv                       look at the file and write reviews.yaml
  h2h study new mine data=csv data.path=reviews.csv       the same with columns, tokenizer and more as you like
  h2h study new long book.txt --from positions_extrapolation
                                                          a shipped question on your own text
  h2h study new norms book.txt --arm layer= --arm rms=model/norm=rms_norm --seeds 8
                                                          arms of your own, the first is the baseline

The file begins with a summary: task, chance, metric, minutes, and what so many seeds can show. Edit it as you like;
h2h study NAME.yaml --plan shows what would be run, and h2h study NAME.yaml runs it.
"""


def run(arguments: Sequence[str]) -> int:
    options = parse(_parser(), arguments)
    paths = [word for word in options.words if "=" not in word]
    if len(paths) > 1:
        raise ConfigurationError(f"h2h study new looks at one file or folder, and {' and '.join(paths)} are given")
    for path in paths:
        check_path(path, "")
    from headtohead import api

    written = api.new_study(
        options.name,
        paths[0] if paths else None,
        [word for word in options.words if "=" in word],
        start=options.start,
        arms=dict(map(_arm, options.arm)),
        seeds=options.seeds,
        config_dir=options.config_dir,
        replace_file=options.force,
    )
    for sentence in written.about:
        say(sentence)
    note(f"wrote {os.path.relpath(written.file)}; look at it, then")
    own = [] if options.config_dir is None else ["--config-dir", options.config_dir]
    out(shlex.join(["h2h", "study", str(written.file), *own]))
    return 0


def _parser() -> Parser:
    parser = command_parser("study new", "Write a study of your own data that runs.", _EXAMPLES)
    parser.add_argument("name", metavar="NAME", help="name of the study, whose file is written as NAME.yaml")
    parser.add_argument("words", nargs="*", default=[], metavar="PATH | OVERRIDE", help="the data, and overrides")
    parser.add_argument("--from", dest="start", metavar="STUDY", help="a shipped question: h2h list study --find WORDS")
    parser.add_argument(
        "--arm", action="append", default=[], metavar='NAME="OVERRIDES"', help="an arm; give two or more"
    )
    parser.add_argument("--seeds", type=within(Count), default=5, metavar="N", help="default 5")
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    parser.add_argument("--force", action="store_true", help="replace a file of that name")
    parser.set_defaults(multirun=False)
    return parser


def _arm(text: str) -> tuple[str, tuple[str, ...]]:
    name, sign, overrides = text.partition("=")
    if not sign or not name or "/" in name or "." in name:
        raise ConfigurationError(f'--arm {text} has no name: write --arm NAME="OVERRIDES", --arm NAME= for none')
    return name, tuple(shlex.split(overrides))
