"""`h2h evaluate RUN ... [OVERRIDE ...]`: a finished run's selected weights, measured again."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.cli.options import Parser, add_trust, check_runs, command_parser, parse, picture, several, within
from headtohead.cli.terminal import note, out, show_table
from headtohead.config.errors import ConfigurationError
from headtohead.ranges import Amount, Length

if TYPE_CHECKING:
    from headtohead.finished_runs.evaluation.evaluation_results import Evaluation
    from headtohead.finished_runs.finished_run import FinishedRun

_SPLIT = "test"
_EXAMPLES = """\
examples:
  h2h evaluate outputs/default/RUN                                  its test split, as at the end of training
  h2h evaluate RUN --split validation                               another split
  h2h evaluate RUN data.path=other.txt --split train                other text, read with the run's own tokenizer
  h2h evaluate RUN --length 512                                     rows of another length
  h2h evaluate RUN --length 512 model/position=rotary_yarn          with a rotary scaling, stretched to that length
  h2h evaluate RUN --stride 32                                      long text in windows as long as in training
  h2h evaluate RUN --lengths 64,128,256,512 data.packing=stream     a table and a plot over lengths
  h2h evaluate RUN data=sst2 --shots 0,1,4                          classify with a language model, by prompts
  h2h evaluate RUN data=sst2 --shots 4 task.label_words=[bad,good]  with your own label words, template or calibration
  h2h evaluate RUN precision=bf16-mixed                             in a number format other than 32 bits
  h2h evaluate RUN --lm-eval lambada_openai --shots 0               by lm-evaluation-harness, an extra: lm-eval
  h2h evaluate RUN --lm-eval mine --lm-eval-tasks DIR               with your own task files
  h2h evaluate outputs/extrapolation/* --lengths 64,128,256         several runs, one table, one plot

The weights are those that validation selected. With --stride, windows of --length tokens start that far apart and
every token is scored once, with at least length - stride tokens in sight; the first ones of a document have fewer.
A rotary scaling takes its factor from the length, unless model.position.factor is given.
Results go to RUN/evaluations.

exit code: 0 measured, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    options = parse(_parser(), arguments)
    paths = [text for text in options.words if "=" not in text]
    overrides = tuple(text for text in options.words if "=" in text)
    if not paths:
        raise ConfigurationError("no run is named: give the folder of one, h2h evaluate outputs/GROUP/RUN")
    is_curve = options.places or len(options.lengths or ()) > 1
    if options.lm_eval_tasks and not options.lm_eval:
        raise ConfigurationError(
            f"--lm-eval-tasks {options.lm_eval_tasks} has task files: name some, --lm-eval TASK,TASK"
        )
    if options.plot and not is_curve:
        raise ConfigurationError(f"--plot {options.plot}: one number is not a curve; give --lengths or --places")
    check_runs(paths)
    from headtohead import api
    from headtohead.finished_runs.finished_run import open_run

    runs = [open_run(path) for path in paths]
    if options.lm_eval:
        _check_harness(options, overrides)
        return _with_harness(runs, options)
    evaluations = [
        api.evaluate(
            one,
            overrides,
            split=options.split,
            lengths=options.lengths or (),
            stride=options.stride,
            shots=options.shots or (),
            by_position=options.places,
            config_dir=options.config_dir,
        )
        for one in runs
    ]
    if options.json:
        out(json.dumps([one.to_dict() for one in evaluations], indent=2, ensure_ascii=False))
    else:
        from headtohead.finished_runs.evaluation.evaluation_results import show_evaluations

        is_as_trained = not (overrides or options.lengths or options.stride or options.shots or options.places)
        recorded = [one.record.metrics.get(options.split, {}) if is_as_trained else {} for one in runs]
        show_table(show_evaluations(evaluations, recorded))
    pictures = [_drawn(evaluations, options.plot)] if is_curve else []
    for path in [*(one.path for one in evaluations), *pictures]:
        note(os.path.relpath(path))
    return 0


def _parser() -> Parser:
    parser = command_parser(
        "evaluate", "Measure finished runs again: other splits, other data, other lengths.", _EXAMPLES
    )
    parser.add_argument(
        "words", nargs="*", default=[], metavar="RUN | OVERRIDE", help="folders of runs; field=value, group=choice"
    )
    add_trust(parser)
    parser.add_argument("--split", choices=["train", "validation", "test"], default=_SPLIT, help="default: test")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--length", dest="lengths", type=several(Length, "64,128,256"), metavar="N", help="tokens that are read at once"
    )
    length.add_argument(
        "--lengths", dest="lengths", type=several(Length, "64,128,256"), metavar="N,N", help="one after the other"
    )
    parser.add_argument("--stride", type=within(Length), metavar="S", help="windows overlap, and start S tokens apart")
    parser.add_argument(
        "--shots",
        type=several(Amount, "0,1,5"),
        metavar="N,N",
        help="classify with a language model, with N examples in the prompt",
    )
    parser.add_argument("--lm-eval", metavar="TASK,TASK", help="tasks of lm-evaluation-harness instead")
    parser.add_argument("--lm-eval-tasks", metavar="DIR", help="a folder with task files of your own for it")
    parser.add_argument("--places", action="store_true", help="also report the loss by length of context")
    parser.add_argument(
        "--plot", type=picture, metavar="FILE", help="where the picture goes; default: beside the first result"
    )
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(multirun=False)
    return parser


def _check_harness(options: argparse.Namespace, overrides: Sequence[str]) -> None:
    """The harness has data, splits and lengths of its own."""
    others = {
        "--lengths": options.lengths,
        "--stride": options.stride,
        "--places": options.places,
        "--plot": options.plot,
        "--config-dir": options.config_dir,
    }
    refused = [name for name, value in others.items() if value] + list(overrides)
    refused += [] if options.split == _SPLIT else ["--split"]
    if refused:
        raise ConfigurationError(f"--lm-eval brings its own data and splits: leave out {', '.join(refused)}")
    if len(options.shots or ()) > 1:
        raise ConfigurationError("--lm-eval shows as many examples in all prompts: give --shots one number")


def _with_harness(runs: Sequence[FinishedRun], options: argparse.Namespace) -> int:
    from headtohead import api
    from headtohead.finished_runs.evaluation.lm_eval_results import lm_eval_data, show_lm_eval

    shots = options.shots[0] if options.shots else None
    tasks = options.lm_eval.split(",")
    evaluations = [api.lm_eval(run, tasks, folder=options.lm_eval_tasks, shots=shots).measured for run in runs]
    if options.json:
        out(json.dumps(lm_eval_data(evaluations), indent=2, ensure_ascii=False))
    else:
        show_table(show_lm_eval(evaluations))
    for one in evaluations:
        note(os.path.relpath(one.path))
    return 0


def _drawn(evaluations: Sequence[Evaluation], file: str | None) -> str:
    """Say where the plot of all these curves is."""
    from headtohead.finished_runs.evaluation.loss_plot import plot_losses

    first = Path(evaluations[0].path).with_suffix(".png")
    beside = first if len(evaluations) == 1 else first.parents[2] / first.parent.name / first.name
    path = beside if file is None else Path(file)
    plot_losses(evaluations, path)
    return str(path)
