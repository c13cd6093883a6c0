"""`h2h plan [OVERRIDE ...] --on DEVICES`: what fits on some devices, how fast and for how much; nothing is trained."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtohead.cli.options import (
    Parser,
    add_configuration,
    add_from_run,
    command_parser,
    composed,
    configuration_text,
    parse,
    refuse_unread,
    within,
)
from headtohead.cli.terminal import out, show_table
from headtohead.config.rules.data_paths import check_data_paths
from headtohead.estimates.named_devices import parsed_devices, speeds
from headtohead.ranges import Positive, Tokens

if TYPE_CHECKING:
    from headtohead.studies.planning.study_plan import StudyPlan

_EXAMPLES = """\
examples:
  h2h plan model/size=gpt2_small --on h100x8 --price 2.5
  h2h plan model/size=gpt2_small --on a100-40gb --tokens 1e10
  h2h plan --from-run outputs/default/RUN --on h100   the same run on another device
  h2h plan --on cpu                                   this machine's processor, measured
  h2h plan --on cpux2                                 two processes on it
  h2h plan --study norms_small --on l40sx4 --price 1  every arm of a study, and what all its runs take
  h2h plan --devices                                  the devices that a plan may name

Memory, time and cost are those of a step under each layout: copies, shards, divided layers, recomputed blocks.
The rates of this machine's processor are measured, those of other devices come from data sheets: docs/planning.md.

exit code: 0 a layout fits, 1 no layout fits, 2 refused
"""


def run(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parse(parser, arguments)
    if options.devices:
        out("\n".join(f"{name:<16}{title}" for name, title in speeds().items()))
        return 0
    if options.study is not None:
        refuse_unread(parser, options, ["from_run", "tokens"], "a study has the configurations of its own arms")
        return _study(options)
    config = composed(options)
    if options.cfg:
        out(configuration_text(options, config))
        return 0
    check_data_paths(config)
    parsed_devices(options.on)
    from headtohead.api.planning import plan as plan_run
    from headtohead.estimates.plan import show_plan

    plan = plan_run(config, options.on, price=options.price, tokens=options.tokens)
    if options.json:
        out(json.dumps(plan.to_dict(), indent=2))
    else:
        show_table(show_plan(plan))
    return 0 if plan.best is not None else 1


def _parser() -> Parser:
    parser = command_parser("plan", "Plan a run on devices: memory, time and cost under every layout.", _EXAMPLES)
    add_configuration(parser)
    add_from_run(parser, "plan")
    add_devices(parser)
    parser.add_argument("--tokens", type=within(Tokens), metavar="N", help="length of the run; else its max_steps")
    parser.add_argument("--study", metavar="NAME", help="plan every arm of a study; overrides are those of the study")
    parser.add_argument("--devices", action="store_true", help="list the devices that a plan may name, and stop")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _study(options: argparse.Namespace) -> int:
    from headtohead.cli.terminal import note
    from headtohead.studies.definition.read_study_file import read_study
    from headtohead.studies.planning.study_plan import StudyPlanner

    parsed_devices(options.on)
    study = read_study(options.study, options.overrides, options.config_dir)
    for sentence in study.departures:
        note(sentence)
    planner = StudyPlanner(study, options.config_dir, report=note)
    for config in planner.written.values():
        check_data_paths(config)
    return show_study(planner.plan(), options)


def show_study(study: StudyPlan, options: argparse.Namespace) -> int:
    """Show what the runs of a study take on the devices of --on, and return the exit code."""
    from headtohead.api.estimated_study import planned_study
    from headtohead.cli.terminal import note
    from headtohead.estimates.plan import show_arms

    planned = planned_study(study, options.on, options.price)
    plans = planned.arms
    for sentence in planned.sentences:
        note(sentence)
    if options.json:
        listed = {
            arm: {
                "runs": each.runs,
                "whole_runs": each.whole_runs,
                "device_hours": each.device_hours,
                "price": each.price,
                **each.plan.to_dict(),
            }
            for arm, each in plans.items()
        }
        out(json.dumps({"study": study.study.name, "arms": listed}, indent=2))
    else:
        _, count = parsed_devices(options.on)
        show_table(show_arms({arm: (each.plan, each.runs, each.whole_runs) for arm, each in plans.items()}, count))
    return 0 if all(each.plan.best is not None for each in plans.values()) else 1


def add_devices(parser: Parser) -> None:
    """Add the options that name devices and their price."""
    parser.add_argument("--on", metavar="DEVICES", help="plan on a device and how many: h100x8, a100-40gb, cpux2")
    parser.add_argument(
        "--price",
        type=within(Positive),
        metavar="P",
        help="price of one device for an hour, for the cost of each layout",
    )
