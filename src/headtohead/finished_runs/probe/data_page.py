"""Present what a model sees as the content of a page, as lines for the terminal, and as plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.finished_runs.finished_run import facts_of
from headtohead.finished_runs.probe.data_seen import ProbedData, ProbedSample, SplitSeen, TokenSeen
from headtohead.finished_runs.probe.small_images import TerminalImage, as_source, enlarged, pixels_of

_MOST_BARS = 60
_SHOWN, _SHOWN_IMAGES = 4, 8
"""Samples in the terminal."""
_STYLES = {"masked": "bold blue", "replaced": "bold red", "kept": "bold green"}
_OUTSIDE = "O"
"""The tag of most words, which is not worth a mention."""
_SIDES = {"tokens": "read", "decoder_tokens": "decoder"}
_LONGEST = 2048
"""Tokens of a side that a page shows."""


def data_content(seen: ProbedData, config: Mapping[str, object], *, name: str | None = None) -> dict[str, Any]:
    """Return what data.js draws."""
    tokens = [token for sample in seen.samples for side in sample.sides.values() for token in side]
    return {
        "title": f"What {name} sees" if name else "The data that a model will receive",
        "facts": facts_of(config, name),
        "notes": [],
        "counted": counted(seen),
        "heading": heading(seen),
        "class_names": list(seen.spec.class_names),
        "lengths": length_names(seen),
        "varied": varied(seen),
        "has_targets": any(token.target is not None for token in tokens),
        "splits": [_split(split, seen) for split in seen.splits],
        "samples": [_sample(sample) for sample in seen.samples],
    }


def data_as_dict(seen: ProbedData) -> dict[str, Any]:
    """Return the data as a dictionary for --json."""
    return {
        "kind": seen.spec.kind,
        "vocab_size": seen.spec.vocab_size,
        "class_names": list(seen.spec.class_names),
        "splits": [
            {
                "name": split.name,
                "rows": split.rows,
                "looked_at": split.looked_at,
                "lengths": {what: _quartiles(lengths) for what, lengths in split.lengths.items()},
                "padding": split.padding,
                "scored": split.scored,
                "unknown": split.unknown,
                "classes": None if split.classes is None else split.classes.tolist(),
            }
            for split in seen.splits
        ],
        "samples": [
            {
                "split": sample.split,
                "row": sample.row,
                **_as_row(sample),
                **({} if sample.original is None else {"original": _as_row(sample.original)}),
            }
            for sample in seen.samples
        ],
        "augmented_by": list(seen.augmented_by),
    }


def _as_row(sample: ProbedSample) -> dict[str, Any]:
    sides = {side: [asdict(token) for token in tokens] for side, tokens in sample.sides.items()}
    return {"label": sample.label, **sides}


def show_data(seen: ProbedData) -> RenderableType:
    """Return a table of the splits, and a few rows with masks and targets; images in coarse pixels."""
    if seen.samples and seen.samples[0].image is not None:
        pairs = [_picture(sample) for sample in seen.samples[:_SHOWN_IMAGES]]
        return Group(_table(seen), Text(heading(seen), style="bold"), Columns(pairs, padding=(1, 3)))
    samples = seen.samples[:_SHOWN]
    return Group(_table(seen), *(line for sample in samples for line in _with_original(sample, seen)))


def counted(seen: ProbedData) -> str:
    """Say how much of each split the numbers come from."""
    if all(split.looked_at >= split.rows for split in seen.splits):
        return "Counted over all rows."
    parts = (f"{split.looked_at:,} of {split.rows:,} {split.name}" for split in seen.splits)
    return f"Lengths and shares are counted over the first batches: {', '.join(parts)} rows."


def heading(seen: ProbedData) -> str:
    by = f", changed by {', '.join(seen.augmented_by)}" if seen.augmented_by else ""
    return f"{len(seen.samples)} rows of the {seen.samples[0].split} split, as the model reads them{by}"


def edges_of(lengths: Sequence[np.ndarray]) -> np.ndarray:
    """Whole numbers that part the lengths of all splits into a few dozen bars."""
    low = min(int(own.min()) for own in lengths)
    high = max(int(own.max()) for own in lengths)
    width = max(1, -(-(high + 1 - low) // _MOST_BARS))
    edges = np.arange(low, high + 1 + width, width)
    edges[-1] = high + 1  # no bar goes beyond what is there
    return edges


def length_names(seen: ProbedData) -> list[str]:
    return list(dict.fromkeys(what for split in seen.splits for what in split.lengths))


def lengths_of(seen: ProbedData, what: str) -> list[np.ndarray]:
    """Return the lengths of the splits that have any: one of a single document has none of documents within a row."""
    return [split.lengths[what] for split in seen.splits if what in split.lengths]


def varied(seen: ProbedData) -> list[str]:
    """Lengths that differ from row to row: what a histogram can show."""
    return [
        what
        for what in length_names(seen)
        if len({int(length) for own in lengths_of(seen, what) for length in own}) > 1
    ]


def _split(split: SplitSeen, seen: ProbedData) -> dict[str, Any]:
    lengths = {}
    for what, own in split.lengths.items():
        edges = edges_of(lengths_of(seen, what))
        counts, _ = np.histogram(own, edges)
        lengths[what] = {"summary": _lengths_text(own), "edges": edges.tolist(), "counts": counts.tolist()}
    return {
        "name": split.name,
        "rows": split.rows,
        "lengths": lengths,
        "padding": split.padding,
        "scored": split.scored,
        "unknown": split.unknown,
        "classes": None if split.classes is None else split.classes.tolist(),
    }


def _sample(sample: ProbedSample) -> dict[str, Any]:
    return {
        "split": sample.split,
        "row": sample.row,
        "label": sample.label,
        "image": None if sample.image is None else as_source(enlarged(pixels_of(sample.image))),
        "sides": {side: [asdict(token) for token in tokens[:_LONGEST]] for side, tokens in sample.sides.items()},
        "left_out": {side: len(tokens) - _LONGEST for side, tokens in sample.sides.items() if len(tokens) > _LONGEST},
        "original": None if sample.original is None else _sample(sample.original),
    }


def _quartiles(lengths: np.ndarray) -> dict[str, float]:
    return {"min": int(lengths.min()), "median": float(np.median(lengths)), "max": int(lengths.max())}


def _lengths_text(lengths: np.ndarray) -> str:
    if lengths.min() == lengths.max():
        return f"all {lengths.min()}"
    return f"{lengths.min()} to {lengths.max()}, median {np.median(lengths):g}"


def _table(seen: ProbedData) -> Table:
    table = Table(title=counted(seen), title_justify="left", header_style="bold")
    lengths = length_names(seen)
    some = {name: any(getattr(split, name) is not None for split in seen.splits) for name in ("padding", "scored")}
    names = ["split", "rows", *lengths, *(name for name, is_some in some.items() if is_some)]
    if any(split.unknown for split in seen.splits):
        names.append("unknown")
    if seen.splits[0].classes is not None:
        names.append("classes")
    for name in names:
        table.add_column(name, justify="left" if name in ("split", "classes") else "right")
    for split in seen.splits:
        cells = {"split": split.name, "rows": f"{split.rows:,}"}
        cells |= {what: _lengths_text(own) for what, own in split.lengths.items()}
        cells |= {name: _percent(getattr(split, name)) for name in ("padding", "scored", "unknown")}
        cells["classes"] = _classes(split, seen)
        table.add_row(*(Text(cells.get(name, "-")) for name in names))
    return table


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _classes(split: SplitSeen, seen: ProbedData) -> str:
    """Return the commonest few."""
    if split.classes is None:
        return "-"
    total = max(int(split.classes.sum()), 1)
    order = np.argsort(-split.classes, kind="stable")[:6]
    sentences = [
        f"{seen.spec.class_names[i] if i < len(seen.spec.class_names) else i} {split.classes[i] / total:.0%}"
        for i in order
    ]
    return ", ".join(sentences) + (" ..." if len(split.classes) > len(order) else "")


def _picture(sample: ProbedSample) -> RenderableType:
    """Return the image, and before it what it was."""
    assert sample.image is not None
    parts = [TerminalImage(sample.image)]
    if sample.original is not None and sample.original.image is not None:
        parts.insert(0, TerminalImage(sample.original.image))
    title = Text(f"row {sample.row}  ", style="bold").append(sample.label or "", style="bold magenta")
    return Group(title, Columns(parts, padding=(0, 1)))


def _with_original(sample: ProbedSample, seen: ProbedData) -> Iterator[Text]:
    """Yield the row, and after it what it was."""
    yield _lines(sample, seen)
    if sample.original is not None:
        yield _lines(sample.original, seen, title="  without augmentation")


def _lines(sample: ProbedSample, seen: ProbedData, *, title: str | None = None) -> Text:
    """Return a row: padding left out, masked tokens with what they were, tags behind their words, scored ones
    underlined."""
    between, tagged = " " if seen.spaced else "", seen.spec.kind == "tagged_text"
    text = Text(title or f"{sample.split} row {sample.row}", style="dim" if title else "bold")
    if sample.label is not None:
        text.append(f"  {sample.label}", style="bold magenta")
    for side, tokens in sample.sides.items():
        text.append(f"\n  {_SIDES[side]:<8}", style="dim")
        for index, token in enumerate(tokens):
            if token.padding:
                break
            if index and token.document != tokens[index - 1].document:
                text.append(" ¶ ", style="bold red")
            elif index:
                text.append(between)
            text.append_text(_token(token))
            if tagged and token.target not in (None, _OUTSIDE):
                text.append(f"/{token.target}", style="magenta")
    return text


def _token(token: TokenSeen) -> Text:
    text = Text(token.text.replace("␣", " "), style="dim" if token.special else "")
    if token.change is not None:
        text.stylize(_STYLES[token.change])
        if token.change != "kept":
            text.append(f"[{(token.target or '').strip('␣')}]", style=_STYLES[token.change])
    elif token.target is not None:
        text.stylize("underline")
    if token.answer:
        text.stylize("bold green")
    return text
