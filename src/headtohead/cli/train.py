"""`h2h train [OVERRIDE ...]`: one run, from its configuration to its record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headtohead.cli.options import (
    add_configuration,
    add_from_run,
    add_processes,
    command_parser,
    composed,
    configuration_text,
    has_launcher,
    parse,
)
from headtohead.cli.terminal import out
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.data_paths import check_data_paths
from headtohead.sweeps.agent_overrides import as_written, name_by_wandb
from headtohead.wandb_client.registered_sweeps import sweep_id, sweep_values

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
    from headtohead.cli.run_summary import train_and_summarise

    train = partial(api.train, resumable=options.resumable, take_over=options.take_over)
    return train_and_summarise(config, train)


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
