"""`h2h match`: what each arm must be to cost what the baseline costs; nothing is trained."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtohead.cli.options import Parser, add_trust, parse, parser
from headtohead.cli.terminal import note, out, show_table
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError

if TYPE_CHECKING:
    from headtohead.studies.definition.study import Study
    from headtohead.studies.matching.matching import Matching

_EXAMPLES = """\
examples:
  h2h match --arm gelu= --arm swiglu=model/feedforward=swiglu
  h2h match --arm attention= --arm mamba2="model/mixer=mamba2 model/position=none" model/size=small
  h2h match --arm long="data.context_length=256" --arm short= --budget equal_tokens
  h2h match --arm attention= --arm lstm="model/mixer=lstm model/position=none" --budget equal_flops --move width
  h2h match --arm wide= --arm deep="model.num_layers=8" --move deep=head_size budget.counted=non_embedding
  h2h match norms_small --budget equal_parameters       the arms of conf/study/norms_small.yaml

Overrides without --arm apply to every arm; those that begin with budget. are options of the budget.
What may change: width (heads keep their size), head_size (the width; heads keep their number), depth, feedforward,
steps.

exit code: 0 matched, 1 an arm cannot be matched, 2 refused
"""


def run(arguments: Sequence[str]) -> int:
    options = parse(_parser(), arguments)
    matching = _matching(options)
    if options.json:
        out(json.dumps(matching.to_dict(), indent=2))
    else:
        from headtohead.studies.matching.matching_table import show_matching

        show_table(show_matching(matching))
    return 0 if matching.met else 1


def _parser() -> Parser:
    taken = parser("match", "Find the sizes, or the steps, at which arms cost what the baseline costs.", _EXAMPLES)
    taken.add_argument(
        "overrides", nargs="*", default=[], metavar="[STUDY] OVERRIDE", help="a study, and overrides of every arm"
    )
    add_trust(taken)
    taken.add_argument(
        "--arm", action="append", default=[], metavar='NAME="OVERRIDES"', help="an arm; give two or more"
    )
    taken.add_argument(
        "--baseline", metavar="NAME", help="the arm that stays as it is; default: the study's, the first"
    )
    taken.add_argument("--budget", metavar="NAME", help="what is held equal: h2h list budget; default: the study's, "
                       "equal_parameters")  # fmt: skip
    taken.add_argument("--move", action="append", default=[], metavar="[NAME=]MOVE,...", help="what may move, of all "
                       "arms or of one; default: what suits the budget")  # fmt: skip
    taken.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    taken.add_argument("--json", action="store_true", help="as JSON")
    taken.set_defaults(multirun=False)
    return taken


def _matching(options: argparse.Namespace) -> Matching:
    study = _study(options)
    arms = dict(_arm(text) for text in options.arm) if study is None else _shapes(study)
    if len(options.arm) > len(arms):
        raise ConfigurationError("two arms have the same name: give each its own")
    baseline = options.baseline or (study.baseline if study else next(iter(arms)))
    base, own = _split_overrides(options.overrides if study is None else study.base)
    from headtohead.studies.definition.study import RequestedBudget

    written = study.budget if study and not options.budget else None
    budget = written or RequestedBudget(options.budget or "equal_parameters")
    movable = {**(study.movable if study else {}), **_moves(options.move, [name for name in arms if name != baseline])}
    from headtohead.config.compose.composition import compose_checked

    config = compose_checked("match", [*budget.overrides, *own], options.config_dir)
    from headtohead.studies.matching.budgets import budget_of
    from headtohead.studies.matching.solver import match

    return match(base, arms, baseline, budget_of(config), movable, config_dir=options.config_dir, report=note)


def _shapes(study: Study) -> dict[str, tuple[str, ...]]:
    """Return its arms, as they are before anything is trained: what they start from does not change what they cost."""
    from headtohead.studies.definition.foundation_runs import without_foundation

    return {arm: without_foundation(overrides) for arm, overrides in study.arms.items()}


def _study(options: argparse.Namespace) -> Study | None:
    """Named first, before any override."""
    first = options.overrides[0] if options.overrides else ""
    if not first or "=" in first:
        if not options.arm:
            raise ConfigurationError(
                'there is nothing to match: name a study, or give arms, --arm a= --arm b="model/mixer=mamba2"'
            )
        return None
    if options.arm:
        raise ConfigurationError(f"study {first} has its arms, and --arm gives others: leave out one of them")
    from headtohead.studies.definition.read_study_file import read_study
    from headtohead.studies.planning.study_plan import StudyPlanner

    study = read_study(first, options.overrides[1:], options.config_dir)
    return study if study.ablation is None else StudyPlanner(study, options.config_dir).study


def _arm(text: str) -> tuple[str, tuple[str, ...]]:
    name, sign, overrides = text.partition("=")
    if not sign or not name or "/" in name or "." in name:
        raise ConfigurationError(f'--arm {text} has no name: write --arm NAME="OVERRIDES", --arm NAME= for none')
    return name, tuple(shlex.split(overrides))


def _moves(texts: Sequence[str], arms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the moves: those for all arms but the baseline, then those of named arms."""
    moves: dict[str, tuple[str, ...]] = {}
    for text in sorted(texts, key=lambda text: "=" in text):
        name, _, listed = text.rpartition("=")
        moves |= dict.fromkeys([name] if name else arms, tuple(listed.split(",")))
    return moves


def _split_overrides(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of the runs, and those of the budget."""
    own = [override for override in overrides if key_of(override).partition(".")[0] == "budget"]
    return [override for override in overrides if override not in own], own
