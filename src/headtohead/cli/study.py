"""`h2h study NAME [OVERRIDE ...]`: runs what is missing of a study, and says what its runs say."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtohead.building.errors import ConfigurationError
from headtohead.cli.arguments import Parser, parse, parser
from headtohead.cli.terminal import error_line, note, out, show_table
from headtohead.cli.working import INTERRUPTED, add_workers, progress, take_launcher, worker_commands

if TYPE_CHECKING:
    from headtohead.studying.cells import Cell
    from headtohead.studying.launcher import Launcher
    from headtohead.studying.planning import Again, Plan

_EXAMPLES = """\
examples:
  h2h list study                                   the questions that ship
  h2h study norms_small --plan                     what would be run, and what it would cost
  h2h study norms_small                            run it, or go on with it, and say what came out
  h2h study norms_small --workers 2                two runs at once; more workers may join from other machines that
                                                   share the folder, by the same command
  h2h study norms_small --workers 8 launcher=slurm launcher.partition=gpu
                                                   workers as jobs of SLURM; h2h list launcher shows what else there is
  h2h study norms_small seeds=5 margin=0.02        fields of the study
  h2h study norms_small model.num_layers=4         anything else is an override for every arm
  h2h study norms_small --shard 1/2                half of the runs, where no folder is shared: put the folders
                                                   outputs/studies/norms_small together, and ask again
  h2h study norms_small tracking.workspace=true    also a page and a report in W&B at the end
  h2h study mine --config-dir my_conf              a study of yours: my_conf/study/mine.yaml

Stop it at any time: the next call goes on where it was. report.html, verdict.json and the runs are in
outputs/studies/NAME.

exit code: 0 every run is done, 1 some run failed or is not done, or no verdict may be given, 2 refused,
130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    given = parse(_parser(), arguments)
    if "=" in given.name:
        raise ConfigurationError(f"h2h study needs a study before {given.name}: h2h list study shows them")
    from headtohead.studying.balancing import refuse_apart
    from headtohead.studying.planning import Planner, shard_of
    from headtohead.studying.reading import read_study

    launcher = take_launcher(given)
    study = read_study(given.name, given.overrides, given.config_dir)
    for sentence in study.departures:
        note(sentence)
    planner = Planner(study, given.config_dir, threads=given.threads, tell=note)
    if given.shard:
        refuse_apart(planner.study, planner.written, planner.folder)

    def planned() -> tuple[Plan, Sequence[Cell]]:
        plan = planner.plan()
        return plan, shard_of(plan, *given.shard) if given.shard else plan.cells

    if given.worker:
        return _work(given, planned)
    plan, _ = planned()
    if not _planned(given, plan):
        return 0
    return _conducted(given, planned, launcher)


def _parser() -> Parser:
    taken = parser("study", "Run or resume a study, and give its verdicts.", _EXAMPLES)
    taken.add_argument("name", metavar="NAME", help="a study: h2h list study")
    taken.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="a field of the study, or of every run")
    taken.add_argument("--plan", action="store_true", help="show the plan and stop")
    add_workers(taken)
    taken.add_argument("--shard", type=_shard, metavar="I/N", help="only the I-th of N shares of the runs")
    taken.add_argument("--retry", action="store_true", help="begin anew what failed or ran out of memory")
    taken.add_argument("--json", action="store_true", help="plan or report as JSON on standard output")
    taken.set_defaults(multirun=False)
    return taken


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text} is refused: give I/N, for example 1/2 and 2/2")
    return int(found[1]), int(found[2])


def _work(given: argparse.Namespace, planned: Again) -> int:
    from headtohead.studying.registering import register
    from headtohead.studying.worker import Worker, import_all

    plan, cells = planned()
    register(plan)
    import_all()
    ended = Worker(plan, cells, threads=given.threads, parent=given.parent, again=planned).work()
    return 0 if ended else INTERRUPTED


def _planned(given: argparse.Namespace, plan: Plan) -> bool:
    """Whether there is more to do than to show the plan."""
    from headtohead.studying.estimating import estimate
    from headtohead.studying.judging import family_asked
    from headtohead.studying.view import show_plan

    estimated = estimate(plan, threads=given.threads)
    if given.plan and given.json:
        matching = None if plan.matching is None else plan.matching.to_dict()
        family = family_asked(plan.study).to_dict()
        asked = {"matching": matching, "left_out": dict(plan.left_out), "family": family}
        out(json.dumps({"study": plan.study.name, **estimated.to_dict(), **asked}, indent=2))
    elif given.plan or (estimated.missing and not given.json):
        show_table(show_plan(plan, estimated, given.workers))
    return not given.plan


def _conducted(given: argparse.Namespace, planned: Again, launcher: Launcher) -> int:
    from headtohead.studying.conducting import Watch, conduct, prepare

    plan, _ = planned()
    prepare(plan, retry=given.retry)
    watch = Watch(*planned(), again=planned)
    missing = sum(not standing.is_done for standing in watch.look())
    most = None if plan.is_open else missing
    commands = worker_commands(given, launcher, _command(given), plan.folder, most)
    try:
        with progress(lambda found: len(found) if given.shard else plan.num_runs) as tell:
            ended = conduct(watch, launcher, commands, tell)
    except KeyboardInterrupt:
        note(f"interrupted; h2h study {plan.study.name} goes on where it was")
        return INTERRUPTED
    for worker in ended:
        if worker.code:
            error_line(f"a worker ended with code {worker.code} ({worker.command.log}): {worker.last_words}")
    return _told(given, *planned())


def _command(given: argparse.Namespace) -> tuple[str, ...]:
    shard = ("--shard", "/".join(map(str, given.shard))) if given.shard else ()
    return ("study", given.name, *given.overrides, *shard)


def _told(given: argparse.Namespace, plan: Plan, cells: Sequence[Cell]) -> int:
    from headtohead.comparing.report import FILE, write_report
    from headtohead.studying.analysed_view import show_analysed
    from headtohead.studying.finding import findings_from, told_of
    from headtohead.studying.on_wandb import make_pages, wants_page
    from headtohead.studying.reporting import report_of, write
    from headtohead.studying.tuning.view import show_tuning
    from headtohead.studying.view import show_report

    report = report_of(plan)
    where = ("--config-dir", given.config_dir) if given.config_dir else ()
    command = shlex.join(("h2h", "study", given.name, *given.overrides, *where))
    findings = findings_from(plan, report, command=command, config_dir=given.config_dir)
    told = told_of(report, findings)
    files = [write(told, plan.folder), plan.folder / FILE]
    write_report(findings, files[1])
    if given.json:
        out(json.dumps(told, indent=2))
    elif not given.shard or report.complete:
        show_table(show_report(report))
        if findings.tuning is not None:
            show_table(show_tuning(findings.tuning))
        for shown in show_analysed(findings):
            show_table(shown)
    ours = {cell.id for cell in cells}
    troubled = [run for run in (*report.undone, *report.failures) if run.id in ours and run.status != "diverged"]
    if given.shard and not report.complete:
        note(f"shard {given.shard[0]} of {given.shard[1]}: {len(cells) - len(troubled)} of {len(cells)} runs done")
        note(f"put the folders {os.path.relpath(plan.folder)} together; h2h study {plan.study.name} reports then")
    for file in files:
        note(os.path.relpath(file))
    if wants_page(plan):
        for line in make_pages(plan, told):
            note(line)
    return 1 if troubled or report.withheld or (plan.is_open and not given.shard) else 0
