"""Look inside runs from Python: their attention, the data as they see them, their positional encodings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.api.configurations import Configured, configuration
from headtohead.api.error_translation import python_errors, python_errors_with
from headtohead.api.finished import RunLike, opened_run
from headtohead.api.result import Result, upgraded
from headtohead.config.build import build_augmentation, build_task
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import build_data
from headtohead.config.run_config import RunConfig
from headtohead.config.trust import trusting
from headtohead.data.data_source import SplitName
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.finished_runs.probe.attention_probe import Attention, attention_data, attention_of
from headtohead.finished_runs.probe.data_page import data_as_dict
from headtohead.finished_runs.probe.data_seen import ProbedData, see
from headtohead.finished_runs.probe.position_encodings import PositionEncoding, fresh_model, position_encodings
from headtohead.finished_runs.probe.probe_files import write_attention, write_data, write_positions
from headtohead.finished_runs.probe.probe_input import of_image, of_rows, of_text
from headtohead.interpretability.layer_words import head_words, layer_words
from headtohead.interpretability.montage import scale_of
from headtohead.interpretability.receptive_field import RequestedMaps

if TYPE_CHECKING:
    from torch import nn

    from headtohead.api.drawn_figure import DrawnFigure


class ProbedAttention(Result, Attention):
    """The attention of every head: `maps` with weights [1, H, L, M], and a row of statistics for each head."""

    @property
    def title(self) -> str:
        return f"{len(self.pairs)} maps of {', '.join(self.titles)}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {"map": name, "head": head, **{figure: values[head] for figure, values in own.items()}}
            for name, own in attention_data(self)["statistics"].items()
            for head in range(len(own["entropy"]))
        ]

    def plot(self, index: int = 0) -> DrawnFigure:
        """Return a matplotlib figure of one layer's heads side by side; `index` counts the maps."""
        from headtohead.api.drawn_figure import DrawnFigure

        pair = self.pairs[index].of_sample(0)
        weights, scale = pair.trained.weights[0], scale_of(pair.trained)
        figure = DrawnFigure(figsize=(3.2 * len(weights), 3.4), layout="constrained")
        panels = figure.subplots(1, len(weights), squeeze=False)[0]
        for head, (axes, own) in enumerate(zip(panels, weights, strict=True)):
            axes.imshow(own.float().cpu().numpy(), vmin=scale.low, vmax=scale.high)
            axes.set_title(f"{layer_words(pair.trained.name)}, {head_words(head)}", fontsize=9)
            axes.set_xticks(range(len(pair.keys[0])), pair.keys[0], rotation=90, fontsize=7)
            axes.set_yticks(range(len(pair.queries[0])), pair.queries[0], fontsize=7)
        return figure


_FIRST_ROWS = 3
"""The rows of the split that are shown unless others are requested."""


@python_errors
def probe(
    run: RunLike,
    text: str | None = None,
    *,
    second: str | None = None,
    target: str | None = None,
    image: str | Path | None = None,
    rows: Sequence[int] = (),
    split: SplitName = "test",
    fields: bool = False,
    against: RunLike | None = None,
    out: str | Path | None = None,
    trust: Sequence[str] = (),
) -> ProbedAttention:
    """Look inside a finished run: the attention of every head for a text, an image, or rows of a split, by
    default the first three.

    `second` is the other text of a pair, `target` what an encoder-decoder's decoder reads (else its own output).
    `fields` adds the receptive field of the whole model, by gradients, to a model that has attention.
    `against` compares the maps with those of another run, or with "before" training. `out` is a folder, into which
    pictures, numbers and a page to explore are written.
    """
    opened = opened_run(run, trust)
    other = None if against is None else _other_model(against, opened, trust)
    sources = [
        name for name, value in (("text", text), ("image", image), ("rows", list(rows))) if value not in (None, [])
    ]
    if len(sources) > 1:
        raise ConfigurationError(f"{' and '.join(sources)} are given: give one of them")
    for name, value in (("second", second), ("target", target)):
        if value is not None and text is None:
            raise ConfigurationError(f"{name} goes with text, and there is none")
    if split != "test" and "rows" not in sources and sources:
        raise ConfigurationError(f"split={split} is of rows, and {sources[0]} is given: leave one of them out")
    if text is not None:
        subject = of_text(opened, text, second, target)
    elif image is not None:
        subject = of_image(opened, Path(image))
    else:
        subject = of_rows(opened, split, list(rows) or first_rows(opened, split))
    requested: RequestedMaps = "always" if fields else "where_needed"
    attention = attention_of(opened, subject, fields=requested, against=other)
    if out is not None:
        write_attention(opened, attention, Path(out))
    return upgraded(ProbedAttention, attention)


def first_rows(run: FinishedRun, split: SplitName) -> list[int]:
    """Return the rows of a split that are shown where none are requested."""
    return list(range(min(_FIRST_ROWS, len(run.data.split(split)))))


def _other_model(against: RunLike, opened: FinishedRun, trust: Sequence[str]) -> tuple[str, nn.Module]:
    """Return the model that a run is compared with, and what it is called."""
    if against != "before":
        other = opened_run(against, trust)
        return other.record.name or other.record.id, other.model
    if start := opened.config.get("init_from"):
        raise ConfigurationError(f"{opened.record.id} started from {start}: compare it with that run")
    return "before training", fresh_model(opened.config).eval()


class SeenData(Result, ProbedData):
    """The data as the model sees them, a row for each split; `samples` are rows, token by token."""

    @property
    def title(self) -> str:
        return f"{self.spec.kind}, {len(self.samples)} rows shown"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        rows: list[dict[str, object]] = data_as_dict(self)["splits"]
        return rows


@python_errors_with(data="h2h.probe_data(...)")
def probe_data(
    run: RunLike | None = None,
    config: Configured = (),
    *,
    rows: Sequence[int] = (),
    split: SplitName = "train",
    out: str | Path | None = None,
    config_dir: str | Path | None = None,
    trust: Sequence[str] = (),
) -> SeenData:
    """Look at the data as training reads them, with masks and targets: `probe_data(config=["task=masked_lm"])`.

    They are those of a finished run, or of a configuration before any training. `rows` are numbers of a split, by
    default the first batch. `out` is a folder, into which a page and figures are written.
    """
    with trusting(trust):
        opened, composed = _looked_at(run, config, config_dir, trust)
        data = build_data(composed) if opened is None else opened.data
        task = build_task(composed, data.spec()) if opened is None else opened.task
        view = RunConfig(composed)
        augmentation = build_augmentation(composed, data)
        seen = see(
            data,
            task,
            view.seed,
            split=split,
            rows=list(rows) or None,
            augmentation=augmentation,
            train_rows=view.train_rows,
        )
    if out is not None:
        write_data(seen, composed, Path(out), name=_name(opened))
    return upgraded(SeenData, seen)


@dataclass(frozen=True)
class ProbedPositions(Result):
    """The positional encodings of a model, a row for each."""

    encodings: Sequence[PositionEncoding]
    """The encodings, each with its panels and curves."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        return f"{len(self.encodings)} positional encoding{'' if len(self.encodings) == 1 else 's'}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {"name": one.name, "encoding": one.encoding, "acts": one.acts, "figures": one.figures}
            for one in self.encodings
        ]


@python_errors_with(positions="h2h.probe_positions(...)")
def probe_positions(
    run: RunLike | None = None,
    config: Configured = (),
    *,
    out: str | Path | None = None,
    config_dir: str | Path | None = None,
    trust: Sequence[str] = (),
) -> ProbedPositions:
    """Look at positional encodings: `probe_positions(config=["model/position=alibi"])`, or those that a run learned.

    `out` is a folder, into which a page and figures are written.
    """
    with trusting(trust):
        opened, composed = _looked_at(run, config, config_dir, trust)
        model = fresh_model(composed) if opened is None else opened.model
        encodings = position_encodings(model, RunConfig(composed).max_length)
    if out is not None:
        write_positions(encodings, composed, Path(out), name=_name(opened))
    return ProbedPositions(encodings)


def _looked_at(
    run: RunLike | None, config: Configured, config_dir: str | Path | None, trust: Sequence[str]
) -> tuple[FinishedRun | None, Mapping[str, object]]:
    if run is None:
        return None, configuration(config, "train", config_dir)
    if config or config_dir is not None:
        raise ConfigurationError("a run keeps its own configuration: leave out config= and config_dir=, or the run")
    opened = opened_run(run, trust)
    return opened, opened.config


def _name(opened: FinishedRun | None) -> str | None:
    return None if opened is None else opened.record.id
