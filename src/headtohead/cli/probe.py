"""`h2h probe RUN`: what a finished run attends to, what data it sees, how its positions look."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.building.errors import ConfigurationError
from headtohead.cli.arguments import add_trust, composed, parse, parser
from headtohead.cli.terminal import note, out, show_table

if TYPE_CHECKING:
    from torch import nn

    from headtohead.data.contracts import SplitName
    from headtohead.examining.finished import FinishedRun
    from headtohead.examining.probe.subject import Subject

_EXAMPLES = """\
examples:
  h2h probe RUN --text "the old teacher sees the dogs"        attention maps: PNG, .npz and a page to explore
  h2h probe RUN --text "1205" --target "one thousand"         an encoder-decoder, its target given (else greedy)
  h2h probe RUN --text "who sleeps ?" --second "the cat ..."  a pair, or a question and its context
  h2h probe RUN --image digit.png                             a vision transformer
  h2h probe RUN                                               rows 0, 1, 2 of the test split
  h2h probe RUN --rows 4,17 --split validation                others
  h2h probe RUN --fields                                      what each output of the model depends on, by gradients
  h2h probe RUN --data                                        the rows that training read, masks and targets visible
  h2h probe --data task=masked_lm model=encoder_only          the same before any training
  h2h probe --data model=cnn task=image_classification data=digits augmentation=[random_crop,mixup]
                                                              what augmentation makes of them
  h2h probe RUN --positions                                   its positional encoding, as it was learned
  h2h probe --positions model/position=alibi                  one that was never trained

RUN is a run's folder, outputs/GROUP/ID. Files go to RUN/probe (without a run to outputs/probe), or below --out.

exit code: 0 done, 2 refused, 130 interrupted
"""
_FIRST_ROWS = 3
"""Of the split, where nothing else is asked for."""


def run(arguments: Sequence[str]) -> int:
    taken = parser("probe", "Look inside: attention maps, data as the model sees it, positional encodings.", _EXAMPLES)
    taken.add_argument(
        "given", nargs="*", metavar="RUN|OVERRIDE", help="a run's folder; or, for --data and --positions"
    )
    add_trust(taken)
    taken.add_argument("--text", help="a text for the run's own tokenizer")
    taken.add_argument("--second", metavar="TEXT", help="the second text of a pair, or the context of a question")
    taken.add_argument(
        "--target", metavar="TEXT", help="what an encoder-decoder's decoder reads; default: its own output"
    )
    taken.add_argument("--image", metavar="FILE", help="an image, resized to the run's own")
    taken.add_argument("--rows", metavar="N,N", help="rows of a split; default 0,1,2, with --data the first batch")
    taken.add_argument("--split", choices=["train", "validation", "test"], help="default test, with --data train")
    what = taken.add_mutually_exclusive_group()
    what.add_argument("--data", action="store_true", help="what the model really sees")
    what.add_argument("--positions", action="store_true", help="its positional encoding")
    taken.add_argument("--fields", action="store_true", help="the receptive field of the whole model too, by gradients")
    taken.add_argument("--out", metavar="DIR", help="where the folder of files goes")
    taken.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    taken.add_argument("--json", action="store_true", help="figures and files as JSON")
    taken.set_defaults(multirun=False)
    given = parse(taken, arguments)
    given.rows = None if given.rows is None else _rows(given.rows)
    _check(given)
    if given.data:
        return _data(given)
    return _positions(given) if given.positions else _attention(given)


def _check(given: argparse.Namespace) -> None:
    """Refuses what cannot go together before anything is loaded."""
    runs = [name for name in given.given if "=" not in name]
    overrides = [name for name in given.given if "=" in name]
    if len(runs) > 1:
        raise ConfigurationError(f"h2h probe looks into one run, and {' and '.join(runs)} are given")
    if runs and overrides:
        raise ConfigurationError(
            f"{runs[0]} keeps its own configuration: leave {overrides[0]} out, or leave the run out"
        )
    given.run, given.overrides = (runs[0] if runs else None), overrides
    if given.run is None and not (given.data or given.positions):
        raise ConfigurationError("h2h probe needs a run's folder, outputs/GROUP/ID (with --data or --positions, none)")
    for name in ("text", "image"):
        if getattr(given, name) is not None and (given.data or given.positions):
            shown = "--data" if given.data else "--positions"
            raise ConfigurationError(f"--{name} is for attention maps, and {shown} shows none: leave one of them out")
    sources = [name for name in ("text", "image", "rows") if getattr(given, name) is not None]
    if len(sources) > 1:
        raise ConfigurationError(f"give one of --{' and --'.join(sources)}, not both")
    for name in ("second", "target"):
        if getattr(given, name) is not None and given.text is None:
            raise ConfigurationError(f"--{name} goes with --text, and there is none")


def _rows(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--rows {text}: give row numbers, for example 0,1,2") from None


def _attention(given: argparse.Namespace) -> int:
    from headtohead.examining.probe.attention import attend
    from headtohead.examining.probe.attention_view import as_data, show
    from headtohead.examining.probe.files import write_attention

    opened = _opened(given)
    subject = _subject(given, opened)
    for remark in subject.remarks:
        note(remark)
    attention = attend(opened, subject, fields="always" if given.fields else "where_needed")
    folder = _folder(given)
    with _progress(len(list(attention.files()))) as done:
        files = write_attention(opened, attention, folder, done=done)
    if given.json:
        told = {"run": opened.record.id, **as_data(attention), "files": [str(file) for file in files]}
        out(json.dumps(told, indent=2))
        return 0
    show_table(show(attention))
    _tell(files)
    return 0


def _data(given: argparse.Namespace) -> int:
    from headtohead.building.build import build_augmentation, build_data, build_task
    from headtohead.examining.probe.files import write_data
    from headtohead.examining.probe.seeing import see
    from headtohead.examining.probe.seeing_page import as_data, show

    if given.run is not None:
        opened = _opened(given)
        data, task, config, name = opened.data, opened.task, opened.config, opened.record.id
    else:
        config, name = _composed(given), None
        data = build_data(config)
        task = build_task(config, data.spec())
    augmentation = build_augmentation(config, data)
    split: SplitName = given.split or "train"
    seen = see(
        data,
        task,
        config["seed"],
        split=split,
        rows=given.rows,
        augmentation=augmentation,
        train_rows=config["trainer"].get("train_rows"),
    )
    files = write_data(seen, config, _below(given) / "data", name=name)
    if given.json:
        out(json.dumps({**as_data(seen), "files": [str(file) for file in files]}, indent=2))
        return 0
    show_table(show(seen))
    _tell(files)
    return 0


def _positions(given: argparse.Namespace) -> int:
    from headtohead.examining.probe.files import write_positions
    from headtohead.examining.probe.placing import fresh_model, placings
    from headtohead.examining.probe.placing_page import as_data, show

    if given.run is not None:
        opened = _opened(given)
        model: nn.Module = opened.model
        config, name = opened.config, opened.record.id
    else:
        config, name = _composed(given), None
        model = fresh_model(config)
    found = placings(model, config["model"].get("max_length"))
    files = write_positions(found, config, _below(given) / "positions", name=name)
    if given.json:
        out(json.dumps({"positions": as_data(found), "files": [str(file) for file in files]}, indent=2))
        return 0
    show_table(show(found))
    _tell(files)
    return 0


def _subject(given: argparse.Namespace, opened: FinishedRun) -> Subject:
    from headtohead.examining.probe.subject import of_image, of_rows, of_text

    if given.text is not None:
        return of_text(opened, given.text, given.second, given.target)
    if given.image is not None:
        return of_image(opened, Path(given.image))
    split: SplitName = given.split or "test"
    given.rows = given.rows or range(min(_FIRST_ROWS, len(opened.data.split(split))))
    return of_rows(opened, split, given.rows)


def _folder(given: argparse.Namespace) -> Path:
    """Named after what is looked at."""
    from headtohead.examining.probe.files import folder_for

    below = _below(given)
    if given.text is not None:
        return folder_for([text for text in (given.text, given.second, given.target) if text is not None], below)
    if given.image is not None:
        return folder_for([Path(given.image).name], below)
    return below / "-".join([given.split or "test", *map(str, given.rows)])


def _below(given: argparse.Namespace) -> Path:
    """In the run's folder, or where its configuration would put runs."""
    if given.out:
        return Path(given.out)
    return _opened(given).folder / "probe" if given.run is not None else Path(_composed(given)["output_dir"]) / "probe"


def _opened(given: argparse.Namespace) -> FinishedRun:
    from headtohead.examining.finished import open_run

    return open_run(given.run)


def _composed(given: argparse.Namespace) -> dict[str, Any]:
    return composed(given)


def _tell(files: list[Path]) -> None:
    """The page first: it is what one opens, and comes last."""
    *others, page = (os.path.relpath(file) for file in files)
    note(f"page: {page}")
    if others:
        kinds = ", ".join(sorted({Path(file).suffix for file in others}))
        note(f"beside it: {len(others)} file{'' if len(others) == 1 else 's'}, {kinds}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("drawing"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        bar = progress.add_task("", total=total)
        yield lambda: progress.advance(bar)
