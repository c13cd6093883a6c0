"""`h2h train [OVERRIDE ...]`: one run, from its configuration to its record."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.cli.options import (
    INTERRUPTED,
    add_configuration,
    add_from_run,
    add_processes,
    command_parser,
    composed,
    configuration_text,
    has_launcher,
    parse,
)
from headtohead.cli.terminal import folded, note, out, show_table, visible
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.data_paths import check_data_paths
from headtohead.sweeps.agent_overrides import as_written, name_by_wandb
from headtohead.wandb_client.registered_sweeps import sweep_id, sweep_values

if TYPE_CHECKING:
    from headtohead.records.record import RunRecord

_EXAMPLES = """\
examples:
  h2h train                                              a small decoder on a generated language
  h2h train model/size=small optimizer.lr=1e-3           another size, another learning rate
  h2h train model=encoder_only task=masked_lm            another family and its objective
  h2h train model/position=alibi model/norm=rms_norm     other parts
  h2h train trainer=ddp trainer.devices=2                two processes
  h2h train trainer=fsdp                                 two processes that shard the weights
  h2h train task=classification data=sentence_grammar init_from=run:outputs/default/RUN finetuning=head_only
                                                         another task, from the weights of a run
  h2h train resume_from=outputs/default/RUN              resume an interrupted run
  h2h train --from-run outputs/default/RUN               the same run again, from its config.yaml
  h2h train --from-run outputs/default/RUN seed=1 model/norm=rms_norm
                                                         the same with these changes
  h2h train -m model/norm=layer_norm,rms_norm seed=range(3) --workers 2
                                                         every combination, two at a time; the same command
                                                         resumes, and lists what failed
  h2h train launcher=slurm launcher.partition=gpu        one run, or with -m many, as jobs of SLURM; h2h list launcher
  torchrun --nproc_per_node=2 -m headtohead train trainer=ddp --resumable
                                                         under torchrun, which may restart it
  h2h train --cfg job --resolve                          show the configuration, train nothing
  h2h train --config-dir my_conf experiment=mine         with YAML files of your own

exit code: 0 finished, 1 the run failed, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    parser = command_parser("train", "Train one model on one task and write its record.", "")
    add_configuration(parser, several=True)
    add_from_run(parser, "repeat")
    if {"-h", "--help"} & set(arguments):
        parser.epilog = _groups_and_fields() + _EXAMPLES
    add_processes(parser)
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="resume a run that another process may still be writing; that process then exits",
    )
    parser.add_argument("--resumable", action="store_true", help="the same command resumes the same run")
    parser.add_argument("--retry", action="store_true", help="with -m: restart what failed or ran out of memory")
    options = parse(parser, arguments, several=True)
    if sweep := sweep_id():
        options.overrides = as_written(options.overrides, sweep_values(), sweep)
    if options.multirun or has_launcher(options.overrides):
        from headtohead.cli.multirun import run_all

        return run_all(options)
    if options.workers > 1 or options.threads or options.worker or options.retry:
        raise ConfigurationError("--workers, --threads, --worker and --retry are for many runs: give --multirun too")
    options.overrides = [*options.overrides, *name_by_wandb(options.overrides)]
    config = composed(options)
    if options.resumable or options.take_over:
        from headtohead.execution.single_run import check_resuming

        check_resuming(config, is_resumable=options.resumable, is_taken_over=options.take_over)
    if options.cfg:
        out(configuration_text(options, config))
        return 0
    if not options.resumable:  # a run that has finished needs its data no longer
        check_data_paths(config)
    from headtohead import api

    train = partial(api.train, resumable=options.resumable, take_over=options.take_over)
    return train_and_summarise(config, train)


def train_and_summarise(config: dict[str, Any], train: Callable[[dict[str, Any]], RunRecord]) -> int:
    """Train, and say at the end how it went, where the record is and how to look at it: in the first process of several
    alone."""
    from headtohead.comparison.tables.results_table import results_table
    from headtohead.comparison.tables.run_table import as_table, line_of
    from headtohead.training.parallel.process_group import is_main_process

    _enable_package_log()
    record = train(config)
    code = {"finished": 0, "interrupted": INTERRUPTED}.get(record.status, 1)
    if not is_main_process():
        return 0  # Lightning kills all processes of a run when a helper ends with another code
    if sweep_id() and record.status in ("interrupted", "diverged"):
        code = 0  # an agent gives its sweep up after a few runs with another code, and these are results
    show_table(as_table([line_of(record)]))
    table = results_table(record)
    if table is not None:
        show_table(table)
    if record.path is not None:
        for line in _source_location(record, record.path):
            note(line)
    return code


def _enable_package_log() -> None:
    """Its log goes to standard error, a plain line each, once; other packages keep their own ways."""
    from headtohead.training.parallel.process_group import is_main_process

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Folding("%(message)s"))
    logger = logging.getLogger("headtohead")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO if is_main_process() else logging.WARNING)
    logger.propagate = False


class _Folding(logging.Formatter):
    """Lines that fit the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return folded(visible(super().format(record), sys.stderr), sys.stderr)


def _source_location(record: RunRecord, folder: Path) -> list[str]:
    from headtohead.wandb_client.wandb_tracker import sync_command

    here = os.path.relpath(folder)
    lines = [f"record: {here}/record.json", f"see it beside others: h2h compare {os.path.relpath(folder.parent)}"]
    if record.status in ("interrupted", "out_of_disk"):
        lines.append(f"resume it: h2h train resume_from={here}")
    if record.wandb.url:
        lines.append(f"W&B: {record.wandb.url}")
    elif record.wandb.directory:
        lines.append(f"W&B, offline: upload it with {sync_command(folder)}")
    return lines


def _groups_and_fields() -> str:
    """List what can be set: groups with their choices, and the run's own fields with their comments."""
    from headtohead.config.compose.choices import choice_names, config_folder, groups

    lines = ["groups (group=choice; h2h list GROUP explains each):"]
    lines += [f"  {group:<22}{', '.join(choice_names(group))}" for group in groups()]
    lines += ["", "fields (field=value; --cfg job shows all, those of the choices included):"]
    for line in (config_folder() / "train.yaml").read_text(encoding="utf-8").splitlines():
        field, colon, rest = line.partition(":")
        if colon and field.isidentifier() and field != "defaults":
            value, _, comment = rest.partition("#")
            lines.append(f"  {field + '=' + value.strip():<22}{comment.strip()}".rstrip())
    return "\n".join([*lines, "", ""])
