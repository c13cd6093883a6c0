"""`h2h study NAME [OVERRIDE ...]`: runs what is missing of a study, and says what its runs say."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtohead.cli.forked_workers import fork_workers, set_threads
from headtohead.cli.options import (
    INTERRUPTED,
    Parser,
    add_workers,
    command_parser,
    parse,
    progress,
    refuse_unread,
    take_workers,
    within,
)
from headtohead.cli.plan import add_devices, show_study
from headtohead.cli.terminal import error_line, note, out, show_table
from headtohead.config.errors import ConfigurationError
from headtohead.ranges import Positive

if TYPE_CHECKING:
    from headtohead.api.studies import StudyRequest

_EXAMPLES = """\
examples:
  h2h list study                                   the questions that ship
  h2h study norms_small --plan                     what would be run, and what it would cost
  h2h study norms_small --plan --on h100x8 --price 2.5
                                                   what its runs would take on other devices, arm by arm
  h2h study norms_small --disk 20                  only if it takes up to 20 GB of disk, all its runs together
  h2h study norms_small                            run or resume it, and report the results
  h2h study norms_small --watch                    how far it is, arm by seed, from another terminal
  h2h study norms_small --workers 2                two runs at once; more workers may join from other machines that
                                                   share the folder, by the same command
  h2h study norms_small --workers 8 launcher=slurm launcher.partition=gpu
                                                   workers as jobs of SLURM; h2h list launcher shows the others
  h2h study norms_small seeds=5 margin=0.02        fields of the study
  h2h study norms_small model.num_layers=4         anything else is an override for every arm
  h2h study norms_small --shard 1/2                half of the runs, without a shared folder: afterwards merge
                                                   the folders outputs/studies/norms_small and repeat the command
  h2h study norms_small tracking.workspace=true    also a page and a report in W&B at the end
  h2h study new mine reviews.csv                   write a study of your own data: mine.yaml
  h2h study mine.yaml                              a study of yours, by its file; or from my_conf/study/mine.yaml,
                                                   h2h study mine --config-dir my_conf

Stop it at any time: the next call resumes it. report.html, verdict.json and the runs are in
outputs/studies/NAME.

exit code: 0 every run is done, 1 a run failed or is not done, or no verdict may be given, 2 refused,
130 interrupted
"""

_OF_RUNS = ("plan", "on", "price", "workers", "threads", "worker", "shard", "disk", "retry", "json")


def run(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["new"]:
        from headtohead.cli.study_new import run as write_new

        return write_new(arguments[1:])
    parser = _parser()
    options = parse(parser, arguments)
    if "=" in options.name:
        raise ConfigurationError(f"h2h study needs a study before {options.name}: h2h list study shows them")
    if options.watch:
        from headtohead.cli.study_board import watch

        refuse_unread(parser, options, _OF_RUNS, "--watch shows runs and starts none")
        return watch(options.name, options.overrides, options.config_dir)
    if (options.on or options.price) and not (options.plan and options.on):
        raise ConfigurationError("--on and --price belong to a plan: h2h study NAME --plan --on h100x8 --price 2.5")
    options.shard = None if options.shard is None else _shard(options.shard)
    workers = take_workers(options)
    set_threads(workers)
    from headtohead.studies.definition.read_study_file import read_study

    study = read_study(options.name, options.overrides, options.config_dir)
    for sentence in study.departures:
        note(sentence)
    from headtohead.api.studies import StudyRequest
    from headtohead.execution.launchers.worker_forks import threads_here

    request = StudyRequest(study, workers, ("study", options.name, *options.overrides), options.shard, tell=note)
    if options.worker:
        return _work(options, request)
    threads = threads_here()
    if options.on:
        return show_study(request.planned()[0], options)
    if not options.plan:
        request.check_start()
        _fork_workers(request, threads)
    if not _planned(options, request):
        return 0
    return _conducted(options, request)


def _parser() -> Parser:
    parser = command_parser("study", "Run or resume a study, and give its verdicts.", _EXAMPLES)
    parser.add_argument("name", metavar="NAME", help="a study: h2h list study")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="OVERRIDE", help="a field of the study, or of every run"
    )
    parser.add_argument("--plan", action="store_true", help="show the plan and stop")
    parser.add_argument("--watch", action="store_true", help="show how far its runs are, arm by seed, and run nothing")
    add_devices(parser)
    add_workers(parser)
    parser.add_argument("--shard", metavar="I/N", help="only the I-th of N shares of the runs")
    parser.add_argument("--disk", type=within(Positive), metavar="GB", help="refuse a study that would take more disk")
    parser.add_argument("--retry", action="store_true", help="restart what failed or ran out of memory")
    parser.add_argument("--json", action="store_true", help="plan or report as JSON on standard output")
    parser.set_defaults(multirun=False)
    return parser


def _shard(text: str) -> tuple[int, int]:
    from headtohead.studies.planning.shards import no_share

    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match:
        raise ConfigurationError(no_share(text))
    return int(match[1]), int(match[2])


def _work(options: argparse.Namespace, request: StudyRequest) -> int:
    from headtohead.execution.worker import Worker, import_all
    from headtohead.studies.planning.registration import register

    register(request.planned()[0])
    plan, runs = request.work()
    import_all(runs)
    ended = Worker(plan, runs, threads=options.threads, parent=options.parent, again=request.work).work()
    return 0 if ended else INTERRUPTED


def _fork_workers(request: StudyRequest, threads: int | None) -> None:
    """A matching has started threads by now, and timings come later."""
    from headtohead.execution.worker import Worker
    from headtohead.studies.planning.registration import register

    def work(threads: int | None, parent: int, command: int) -> int:
        register(request.planned()[0])
        known, own = request.work()
        worker = Worker(known, own, threads=threads, parent=parent, command=command, again=request.work)
        return 0 if worker.work() else INTERRUPTED

    plan, runs = request.planned()
    fork_workers(request.workers, plan, runs, work, threads)


def _planned(options: argparse.Namespace, request: StudyRequest) -> bool:
    """Show the plan on request, and return whether there is more to do."""
    plan, _ = request.planned()  # refuses what it can before torch is imported
    from headtohead.studies.planning.cost_estimate import estimate
    from headtohead.studies.results.study_tables import show_plan
    from headtohead.studies.results.study_verdicts import requested_family

    estimated = estimate(plan, threads=options.threads)
    if options.disk:
        request.refuse_over_disk(options.disk, estimated)
    if options.plan and options.json:
        matching = None if plan.matching is None else plan.matching.to_dict()
        family = requested_family(plan.study).to_dict()
        plan_data = {"matching": matching, "left_out": dict(plan.left_out), "family": family}
        out(json.dumps({"study": plan.study.name, **estimated.to_dict(), **plan_data}, indent=2))
    elif options.plan or (estimated.missing and not options.json):
        show_table(show_plan(plan, estimated, options.workers))
    return not options.plan


def _conducted(options: argparse.Namespace, request: StudyRequest) -> int:
    from headtohead.execution.launchers.launcher import errors_of

    try:
        with progress(request.num_runs) as show_progress:
            ended = request.conduct(show_progress, retry=options.retry)
    except KeyboardInterrupt:
        note(f"interrupted; h2h study {options.name} resumes it")
        return INTERRUPTED
    for sentence in errors_of(ended):
        error_line(sentence)
    return _report(options, request)


def _report(options: argparse.Namespace, request: StudyRequest) -> int:
    from headtohead.studies.results.analyses_tables import show_analysed, show_tuning
    from headtohead.studies.results.study_tables import show_report
    from headtohead.studies.results.wandb_pages import make_pages, wants_page

    plan, runs = request.planned()
    outcome = request.results()
    report, results = outcome.study_report, outcome.results
    data, files = outcome.write()
    if options.json:
        out(json.dumps(data, indent=2))
    elif not options.shard or report.complete:
        show_table(show_report(report))
        if results.tuning is not None:
            show_table(show_tuning(results.tuning))
        for table in show_analysed(results):
            show_table(table)
    ours = {run.id for run in runs}
    troubled = [run for run in (*report.undone, *report.failures) if run.id in ours and run.status != "diverged"]
    if options.shard and not report.complete:
        note(f"shard {options.shard[0]} of {options.shard[1]}: {len(runs) - len(troubled)} of {len(runs)} runs done")
        then = (
            "every shard then resumes by the same command"
            if plan.stops
            else f"h2h study {plan.study.name} reports then"
        )
        note(f"put the folders {os.path.relpath(plan.folder)} together; {then}")
    for file in files:
        note(os.path.relpath(file))
    if wants_page(plan):
        for line in make_pages(plan, data):
            note(line)
    return 1 if troubled or report.withheld or (plan.is_open and not options.shard) else 0
