"""`h2h match`: what each arm must be to cost what the baseline costs; nothing is trained."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtohead.building.errors import ConfigurationError
from headtohead.building.overrides import key_of
from headtohead.cli.arguments import Parser, add_trust, parse, parser
from headtohead.cli.terminal import note, out, show_table

if TYPE_CHECKING:
    from headtohead.studying.matching.matching import Matching
    from headtohead.studying.study import Study

_EXAMPLES = """\
examples:
  h2h match --arm gelu= --arm swiglu=model/feedforward=swiglu
  h2h match --arm attention= --arm mamba2="model/mixer=mamba2 model/position=none" model/size=small
  h2h match --arm long="data.context_length=256" --arm short= --budget equal_tokens
  h2h match --arm attention= --arm lstm="model/mixer=lstm model/position=none" --budget equal_flops --move width
  h2h match --arm wide= --arm deep="model.num_layers=8" --move deep=head_size budget.counted=non_embedding
  h2h match norms_small --budget equal_parameters       the arms of conf/study/norms_small.yaml

Overrides that stand alone are those of every arm; those that begin with budget. are the budget's own.
What may move: width (heads keep their size), head_size (the width; heads keep their number), depth, feedforward, steps.
Ends with 1 where an arm cannot be matched.
"""


def run(arguments: Sequence[str]) -> int:
    given = parse(_parser(), arguments)
    matching = _matching(given)
    if given.json:
        out(json.dumps(matching.to_dict(), indent=2))
    else:
        from headtohead.studying.matching.view import show

        show_table(show(matching))
    return 0 if matching.met else 1


def _parser() -> Parser:
    taken = parser("match", "Find the shapes, or the steps, by which arms cost what the baseline costs.", _EXAMPLES)
    taken.add_argument("overrides", nargs="*", metavar="[STUDY] OVERRIDE", help="a study, and overrides of every arm")
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


def _matching(given: argparse.Namespace) -> Matching:
    study = _study(given)
    arms = dict(_arm(text) for text in given.arm) if study is None else _shapes(study)
    if len(given.arm) > len(arms):
        raise ConfigurationError("two arms have the same name: give each its own")
    baseline = given.baseline or (study.baseline if study else next(iter(arms)))
    base, own = _apart(given.overrides if study is None else study.base)
    from headtohead.studying.study import WantedBudget

    written = study.budget if study and not given.budget else None
    wanted = written or WantedBudget(given.budget or "equal_parameters")
    movable = {**(study.movable if study else {}), **_moves(given.move, [name for name in arms if name != baseline])}
    from headtohead.building.configuration import compose_checked

    config = compose_checked("match", [*wanted.overrides, *own], given.config_dir)
    from headtohead.studying.matching.budgets import budget_of
    from headtohead.studying.matching.solver import match

    return match(base, arms, baseline, budget_of(config), movable, config_dir=given.config_dir, tell=note)


def _shapes(study: Study) -> dict[str, tuple[str, ...]]:
    """Its arms, as they are before anything is trained: what they start from does not change what they cost."""
    from headtohead.studying.foundations import without_foundation

    return {arm: without_foundation(overrides) for arm, overrides in study.arms.items()}


def _study(given: argparse.Namespace) -> Study | None:
    """Named first, before any override."""
    first = given.overrides[0] if given.overrides else ""
    if not first or "=" in first:
        if not given.arm:
            raise ConfigurationError(
                'there is nothing to match: name a study, or give arms, --arm a= --arm b="model/mixer=mamba2"'
            )
        return None
    if given.arm:
        raise ConfigurationError(f"study {first} has its arms, and --arm gives others: leave out one of them")
    from headtohead.studying.planning import Planner
    from headtohead.studying.reading import read_study

    study = read_study(first, given.overrides[1:], given.config_dir)
    return study if study.ablation is None else Planner(study, given.config_dir).study


def _arm(text: str) -> tuple[str, tuple[str, ...]]:
    name, sign, overrides = text.partition("=")
    if not sign or not name or "/" in name or "." in name:
        raise ConfigurationError(f'--arm {text} has no name: write --arm NAME="OVERRIDES", --arm NAME= for none')
    return name, tuple(shlex.split(overrides))


def _moves(texts: Sequence[str], arms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Of all arms but the baseline, then of those that are named."""
    moves: dict[str, tuple[str, ...]] = {}
    for text in sorted(texts, key=lambda text: "=" in text):
        name, _, listed = text.rpartition("=")
        moves |= dict.fromkeys([name] if name else arms, tuple(listed.split(",")))
    return moves


def _apart(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of the runs, and those of the budget."""
    own = [override for override in overrides if key_of(override).partition(".")[0] == "budget"]
    return [override for override in overrides if override not in own], own
