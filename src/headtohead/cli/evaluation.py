"""`h2h evaluate RUN ... [OVERRIDE ...]`: a finished run's selected weights, measured again."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.building.errors import ConfigurationError
from headtohead.cli.arguments import Parser, add_trust, parse, parser, several, within
from headtohead.cli.terminal import note, out, show_table
from headtohead.ranges import Amount, Length

if TYPE_CHECKING:
    from headtohead.examining.evaluation.findings import Evaluation
    from headtohead.examining.finished import FinishedRun

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
  h2h evaluate RUN data=sst2 --shots 0,1,4                          a language model asked for classes, by prompts
  h2h evaluate RUN data=sst2 --shots 4 task.label_words=[bad,good]  with words, a template, calibration of yours
  h2h evaluate RUN precision=bf16-mixed                             in other number formats than 32 bits
  h2h evaluate RUN --lm-eval lambada_openai --shots 0               by lm-evaluation-harness, an extra: lm-eval
  h2h evaluate RUN --lm-eval mine --lm-eval-tasks DIR               with task files of yours
  h2h evaluate outputs/extrapolation/* --lengths 64,128,256         several runs, one table, one plot

The weights are those that validation selected. With --stride, windows of --length tokens start that far apart and
every token is scored once, with at least length - stride tokens in sight; a document's first ones have what there is.
A rotary scaling takes its factor from the length, unless model.position.factor is given.
Results go to RUN/evaluations.

exit code: 0 measured, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    given = parse(_parser(), arguments)
    paths = [text for text in given.given if "=" not in text]
    overrides = tuple(text for text in given.given if "=" in text)
    if not paths:
        raise ConfigurationError("no run is named: give the folder of one, h2h evaluate outputs/GROUP/RUN")
    is_curve = given.places or len(given.lengths or ()) > 1
    if given.lm_eval_tasks and not given.lm_eval:
        raise ConfigurationError(
            f"--lm-eval-tasks {given.lm_eval_tasks} has task files: name some, --lm-eval TASK,TASK"
        )
    if given.plot and not is_curve:
        raise ConfigurationError(f"--plot {given.plot}: one number is no curve; give --lengths or --places")
    from headtohead.examining.evaluation.evaluate import evaluate
    from headtohead.examining.evaluation.question import Question
    from headtohead.examining.finished import open_run

    runs = [open_run(path) for path in paths]
    if given.lm_eval:
        _check_harness(given, overrides)
        return _with_harness(runs, given)
    question = Question(
        split=given.split,
        lengths=given.lengths or (),
        stride=given.stride,
        overrides=overrides,
        config_dir=given.config_dir,
        by_place=given.places,
        shots=given.shots,
    )
    found = [evaluate(one, question) for one in runs]
    if given.json:
        out(json.dumps([one.to_dict() for one in found], indent=2, ensure_ascii=False))
    else:
        from headtohead.examining.evaluation.view import show

        same = question == Question(split=given.split)
        show_table(show(found, [one.record.metrics.get(given.split, {}) if same else {} for one in runs]))
    pictures = [_drawn(found, given.plot)] if is_curve else []
    for path in [*(one.path for one in found), *pictures]:
        note(os.path.relpath(path))
    return 0


def _parser() -> Parser:
    taken = parser("evaluate", "Measure finished runs again: other splits, other data, other lengths.", _EXAMPLES)
    taken.add_argument("given", nargs="*", metavar="RUN | OVERRIDE", help="folders of runs; field=value, group=choice")
    add_trust(taken)
    taken.add_argument("--split", choices=["train", "validation", "test"], default=_SPLIT, help="default: test")
    length = taken.add_mutually_exclusive_group()
    length.add_argument(
        "--length", dest="lengths", type=several(Length, "64,128,256"), metavar="N", help="tokens that are read at once"
    )
    length.add_argument(
        "--lengths", dest="lengths", type=several(Length, "64,128,256"), metavar="N,N", help="one after the other"
    )
    taken.add_argument("--stride", type=within(Length), metavar="S", help="windows overlap, and start S tokens apart")
    taken.add_argument(
        "--shots",
        type=several(Amount, "0,1,5"),
        metavar="N,N",
        help="ask a language model for classes, with so many examples",
    )
    taken.add_argument("--lm-eval", metavar="TASK,TASK", help="tasks of lm-evaluation-harness instead")
    taken.add_argument("--lm-eval-tasks", metavar="DIR", help="a folder with task files of your own for it")
    taken.add_argument("--places", action="store_true", help="also the loss by how many tokens were in sight")
    taken.add_argument("--plot", metavar="FILE", help="where the picture goes; default: beside the first result")
    taken.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    taken.add_argument("--json", action="store_true", help="as JSON")
    taken.set_defaults(multirun=False)
    return taken


def _check_harness(given: argparse.Namespace, overrides: Sequence[str]) -> None:
    """The harness has data, splits and lengths of its own."""
    others = {"--lengths": given.lengths, "--stride": given.stride, "--places": given.places, "--plot": given.plot}
    refused = [name for name, value in others.items() if value] + list(overrides)
    refused += [] if given.split == _SPLIT else ["--split"]
    if refused:
        raise ConfigurationError(f"--lm-eval brings its own data and splits: leave out {', '.join(refused)}")
    if len(given.shots or ()) > 1:
        raise ConfigurationError("--lm-eval shows as many examples in all prompts: give --shots one number")


def _with_harness(runs: Sequence[FinishedRun], given: argparse.Namespace) -> int:
    from headtohead.examining.harness.evaluating import with_harness
    from headtohead.examining.harness.view import as_data, show

    shots = given.shots[0] if given.shots else None
    tasks = given.lm_eval.split(",")
    found = [with_harness(run, tasks, folder=given.lm_eval_tasks, shots=shots) for run in runs]
    if given.json:
        out(json.dumps(as_data(found), indent=2, ensure_ascii=False))
    else:
        show_table(show(found))
    for one in found:
        note(os.path.relpath(one.path))
    return 0


def _drawn(found: Sequence[Evaluation], wanted: str | None) -> str:
    """Where the picture of all these curves is."""
    from headtohead.examining.evaluation.picture import draw

    first = Path(found[0].path).with_suffix(".png")
    beside = first if len(found) == 1 else first.parents[2] / first.parent.name / first.name
    path = beside if wanted is None else Path(wanted)
    draw(found, path)
    return str(path)
