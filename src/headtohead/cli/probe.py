"""`h2h probe RUN`: what a finished run attends to, what data it sees, how its positions look."""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.cli.options import Parser, add_trust, check_runs, command_parser, composed, parse, refuse_unread
from headtohead.cli.terminal import note, out, show_table
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.data_paths import check_data_paths
from headtohead.files.user_paths import check_path

if TYPE_CHECKING:
    from headtohead.data.data_source import SplitName
    from headtohead.finished_runs.finished_run import FinishedRun

_EXAMPLES = """\
examples:
  h2h probe RUN --text "the old teacher sees the dogs"        attention maps: PNG, .npz and a page to explore
  h2h probe RUN --text "1205" --target "one thousand"         an encoder-decoder, its target given (else greedy)
  h2h probe RUN --text "who sleeps ?" --second "the cat ..."  a pair, or a question and its context
  h2h probe RUN --image digit.png                             a vision transformer
  h2h probe RUN                                               rows 0, 1, 2 of the test split
  h2h probe RUN --rows 4,17 --split validation                other rows
  h2h probe RUN --against before                              its maps before and after training, and the difference
  h2h probe RUN --against OTHER                               the difference of two runs on the same input
  h2h probe RUN --fields                                      what each output of the model depends on, by gradients
  h2h probe RUN --data                                        the rows that training read, masks and targets visible
  h2h probe --data task=masked_lm model=encoder_only          the same before any training
  h2h probe --data model=cnn task=image_classification data=digits augmentation=[random_crop,mixup]
                                                              what augmentation does to them
  h2h probe RUN --positions                                   its positional encoding, as it was learned
  h2h probe --positions model/position=alibi                  an encoding before any training

RUN is a run's folder, outputs/GROUP/ID. Files go to RUN/probe (without a run to outputs/probe), or below --out.

exit code: 0 done, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    parser = command_parser(
        "probe", "Look inside: attention maps, data as the model sees it, positional encodings.", _EXAMPLES
    )
    parser.add_argument(
        "words", nargs="*", default=[], metavar="RUN|OVERRIDE", help="a run's folder; or, for --data and --positions"
    )
    add_trust(parser)
    parser.add_argument("--text", help="a text for the run's own tokenizer")
    parser.add_argument("--second", metavar="TEXT", help="the second text of a pair, or the context of a question")
    parser.add_argument(
        "--target", metavar="TEXT", help="what an encoder-decoder's decoder reads; default: its own output"
    )
    parser.add_argument("--image", metavar="FILE", help="an image, resized to the run's own")
    parser.add_argument("--rows", metavar="N,N", help="rows of a split; default 0,1,2, with --data the first batch")
    parser.add_argument("--split", choices=["train", "validation", "test"], help="default test, with --data train")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--data", action="store_true", help="what the model really sees")
    what.add_argument("--positions", action="store_true", help="its positional encoding")
    parser.add_argument(
        "--fields", action="store_true", help="the receptive field of the whole model too, by gradients"
    )
    parser.add_argument(
        "--against", metavar="RUN", help="compare its maps with those of another run, or with `before` training"
    )
    parser.add_argument("--out", metavar="DIR", help="where the folder of files goes")
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    parser.add_argument("--json", action="store_true", help="figures and files as JSON")
    parser.set_defaults(multirun=False)
    options = parse(parser, arguments)
    options.rows = None if options.rows is None else _rows(options.rows)
    _check(options)
    _check_read(parser, options)
    check_runs([path for path in (options.run, options.against) if path not in (None, "before")])
    if options.image is not None:
        check_path(options.image, "--image")
    if options.data:
        return _data(options)
    return _positions(options) if options.positions else _attention(options)


def _check(options: argparse.Namespace) -> None:
    """Refuses what cannot go together before anything is loaded."""
    runs = [name for name in options.words if "=" not in name]
    overrides = [name for name in options.words if "=" in name]
    if len(runs) > 1:
        raise ConfigurationError(f"h2h probe looks into one run, and {' and '.join(runs)} are given")
    if runs and overrides:
        raise ConfigurationError(
            f"{runs[0]} keeps its own configuration: leave {overrides[0]} out, or leave the run out"
        )
    options.run, options.overrides = (runs[0] if runs else None), overrides
    if options.run is None and not (options.data or options.positions):
        raise ConfigurationError("h2h probe needs a run's folder, outputs/GROUP/ID (with --data or --positions, none)")
    for name in ("text", "image"):
        if getattr(options, name) is not None and (options.data or options.positions):
            mode = "--data" if options.data else "--positions"
            raise ConfigurationError(f"--{name} is for attention maps, and {mode} shows none: leave one of them out")
    sources = [name for name in ("text", "image", "rows") if getattr(options, name) is not None]
    if len(sources) > 1:
        raise ConfigurationError(f"give one of --{' and --'.join(sources)}, not both")
    if options.against is not None and (options.data or options.positions):
        raise ConfigurationError("--against compares attention maps: leave --data and --positions out")
    for name in ("second", "target"):
        if getattr(options, name) is not None and options.text is None:
            raise ConfigurationError(f"--{name} goes with --text, and there is none")


def _check_read(parser: Parser, options: argparse.Namespace) -> None:
    """Refuse what the requested pictures do not depend on."""
    if options.run is not None:
        refuse_unread(parser, options, ["config_dir"], f"{options.run} keeps its own configuration")
    if options.data or options.positions:
        refuse_unread(parser, options, ["fields"], "they go with attention maps: leave --data and --positions out")
    if options.positions:
        refuse_unread(parser, options, ["rows", "split"], "positional encodings are of no row")
    if options.text is not None or options.image is not None:
        refuse_unread(parser, options, ["split"], "it is of rows, and a text or an image is given")


def _rows(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--rows {text}: give row numbers, for example 0,1,2") from None


def _attention(options: argparse.Namespace) -> int:
    from headtohead import api
    from headtohead.api.probing import first_rows
    from headtohead.api.progress import progress_of_steps
    from headtohead.finished_runs.probe.attention_probe import attention_data, show_attention
    from headtohead.finished_runs.probe.probe_files import write_attention

    opened = _opened(options)
    split: SplitName = options.split or "test"
    if options.text is None and options.image is None:
        options.rows = options.rows or first_rows(opened, split)
    attention = api.probe(
        opened,
        options.text,
        second=options.second,
        target=options.target,
        image=options.image,
        rows=options.rows or (),
        split=split,
        fields=options.fields,
        against=options.against,
    )
    for remark in attention.remarks:
        note(remark)
    folder = _folder(options)
    drawn = itertools.count(1)
    with progress_of_steps(len(list(attention.files()))) as show:
        files = write_attention(opened, attention, folder, done=lambda: show(next(drawn), "drawing"))
    if options.json:
        data = {"run": opened.record.id, **attention_data(attention), "files": [str(file) for file in files]}
        out(json.dumps(data, indent=2))
        return 0
    show_table(show_attention(attention))
    _report_files(files)
    return 0


def _data(options: argparse.Namespace) -> int:
    opened, config, name = _looked_at(options)
    from headtohead import api
    from headtohead.finished_runs.probe.data_page import data_as_dict, show_data
    from headtohead.finished_runs.probe.probe_files import write_data

    seen = api.probe_data(
        opened, () if opened is not None else config, rows=options.rows or (), split=options.split or "train"
    )
    shown = "-".join(["data", *([options.split] if options.split else []), *map(str, options.rows or ())])
    files = write_data(seen, config, _below(options) / shown, name=name)
    if options.json:
        out(json.dumps({**data_as_dict(seen), "files": [str(file) for file in files]}, indent=2))
        return 0
    show_table(show_data(seen))
    _report_files(files)
    return 0


def _positions(options: argparse.Namespace) -> int:
    opened, config, name = _looked_at(options)
    from headtohead import api
    from headtohead.finished_runs.probe.positions_page import positions_data, show_positions
    from headtohead.finished_runs.probe.probe_files import write_positions

    encodings = api.probe_positions(opened, () if opened is not None else config).encodings
    files = write_positions(encodings, config, _below(options) / "positions", name=name)
    if options.json:
        out(json.dumps({"positions": positions_data(encodings), "files": [str(file) for file in files]}, indent=2))
        return 0
    show_table(show_positions(encodings))
    _report_files(files)
    return 0


def _looked_at(options: argparse.Namespace) -> tuple[FinishedRun | None, Mapping[str, Any], str | None]:
    """Return the run, its configuration and its id; without a run, the configuration that overrides make."""
    if options.run is None:
        config = composed(options)
        check_data_paths(config)
        return None, config, None
    opened = _opened(options)
    return opened, opened.config, opened.record.id


def _folder(options: argparse.Namespace) -> Path:
    """Named after what is looked at, and what it is compared with."""
    from headtohead.finished_runs.probe.probe_files import folder_for

    own, other = _own_folder(options), options.against
    if other is None:
        return own
    compared = other if other == "before" else folder_for([Path(other).name, str(Path(other).resolve())], own).name
    return own.with_name(f"{own.name}-against-{compared}")


def _own_folder(options: argparse.Namespace) -> Path:
    from headtohead.finished_runs.probe.probe_files import folder_for

    below = _below(options)
    if options.text is not None:
        return folder_for([text for text in (options.text, options.second, options.target) if text is not None], below)
    if options.image is not None:
        return folder_for([Path(options.image).name], below)
    return below / "-".join([options.split or "test", *map(str, options.rows)])


def _below(options: argparse.Namespace) -> Path:
    """Return the run's folder, or the one where its configuration would put runs."""
    if options.out:
        return Path(options.out)
    return (
        _opened(options).folder / "probe"
        if options.run is not None
        else Path(composed(options)["output_dir"]) / "probe"
    )


def _opened(options: argparse.Namespace) -> FinishedRun:
    from headtohead.finished_runs.finished_run import open_run

    return open_run(options.run)


def _report_files(files: list[Path]) -> None:
    """Print the page first, which users open, although it was written last."""
    *others, page = (os.path.relpath(file) for file in files)
    note(f"page: {page}")
    if others:
        kinds = ", ".join(sorted({Path(file).suffix for file in others}))
        note(f"beside it: {len(others)} file{'' if len(others) == 1 else 's'}, {kinds}")
