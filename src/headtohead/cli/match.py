"""`h2h match`: what each arm must be to cost what the baseline costs; nothing is trained."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence

from headtohead.cli.options import Parser, add_trust, command_parser, parse
from headtohead.cli.terminal import note, out, show_table
from headtohead.config.errors import ConfigurationError

_EXAMPLES = """\
examples:
  h2h match --arm gelu= --arm swiglu=model/feedforward=swiglu
  h2h match --arm attention= --arm mamba2="model/mixer=mamba2 model/position=none" model/size=small
  h2h match --arm long="data.context_length=256" --arm short= --budget equal_tokens
  h2h match --arm attention= --arm lstm="model/mixer=lstm model/position=none" --budget equal_flops --move width
  h2h match --arm wide= --arm deep="model.num_layers=8" --move deep=head_size budget.counted=non_embedding
  h2h match norms_small --budget equal_parameters       the arms of conf/study/norms_small.yaml

Overrides without --arm apply to every arm; those that begin with budget. are options of the budget. Under a
budget other than the study's, its arms keep those of their moves that change what is to be equal.
What may change: width (heads keep their size), head_size (the width; heads keep their number), depth, feedforward,
steps.

exit code: 0 matched, 1 an arm cannot be matched, 2 refused
"""


def run(arguments: Sequence[str]) -> int:
    options = parse(_parser(), arguments)
    arms, overrides = _arms_and_overrides(options)
    from headtohead import api

    matching = api.match(
        arms,
        overrides,
        baseline=options.baseline,
        budget=options.budget,
        movable=_moves(options.move),
        config_dir=options.config_dir,
        tell=note,
    )
    if options.json:
        out(json.dumps(matching.to_dict(), indent=2))
    else:
        from headtohead.studies.matching.solver import show_matching

        show_table(show_matching(matching))
    return 0 if matching.met else 1


def _parser() -> Parser:
    parser = command_parser(
        "match", "Find the sizes, or the steps, at which arms cost what the baseline costs.", _EXAMPLES
    )
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="[STUDY] OVERRIDE", help="a study, and overrides of every arm"
    )
    add_trust(parser)
    parser.add_argument(
        "--arm", action="append", default=[], metavar='NAME="OVERRIDES"', help="an arm; give two or more"
    )
    parser.add_argument(
        "--baseline", metavar="NAME", help="the arm that stays as it is; default: the study's, the first"
    )
    parser.add_argument("--budget", metavar="NAME", help="what is held equal: h2h list budget; default: the study's, "
                       "equal_parameters")  # fmt: skip
    parser.add_argument("--move", action="append", default=[], metavar="[NAME=]MOVE,...", help="what may move, of all "
                       "arms or of one; default: what suits the budget")  # fmt: skip
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(multirun=False)
    return parser


def _arms_and_overrides(options: argparse.Namespace) -> tuple[Mapping[str, Sequence[str]] | str, list[str]]:
    """Return the arms, or the study that has them, which is named first; and the overrides of all."""
    first = options.overrides[0] if options.overrides else ""
    if first and "=" not in first:
        if options.arm:
            raise ConfigurationError(f"study {first} has its arms, and --arm gives others: leave out one of them")
        return first, options.overrides[1:]
    if not options.arm:
        raise ConfigurationError(
            'there is nothing to match: name a study, or give arms, --arm a= --arm b="model/mixer=mamba2"'
        )
    arms = dict(_arm(text) for text in options.arm)
    if len(options.arm) > len(arms):
        raise ConfigurationError("two arms have the same name: give each its own")
    return arms, options.overrides


def _arm(text: str) -> tuple[str, tuple[str, ...]]:
    name, sign, overrides = text.partition("=")
    if not sign or not name or "/" in name or "." in name:
        raise ConfigurationError(f'--arm {text} has no name: write --arm NAME="OVERRIDES", --arm NAME= for none')
    return name, tuple(shlex.split(overrides))


def _moves(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the moves by arm; those of all arms are under "*"."""
    parts = [text.rpartition("=") for text in texts]
    return {name or "*": tuple(listed.split(",")) for name, _, listed in parts}
