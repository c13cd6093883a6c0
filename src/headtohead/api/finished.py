"""Finished runs from Python: measured again, writing, looked into, searching, exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headtohead.api.result import Result, upgraded
from headtohead.api.spoken_errors import speaks_python
from headtohead.api.training import load_run
from headtohead.config.errors import ConfigurationError
from headtohead.data.data_source import SplitName
from headtohead.finished_runs.evaluation.evaluate import evaluate as evaluate_run
from headtohead.finished_runs.evaluation.evaluation_request import EvaluationRequest
from headtohead.finished_runs.evaluation.evaluation_results import Evaluation
from headtohead.finished_runs.export_run import Exported, Form
from headtohead.finished_runs.export_run import export as export_run
from headtohead.finished_runs.finished_run import FinishedRun, open_run
from headtohead.finished_runs.loaded_run import LoadedRun
from headtohead.finished_runs.probe.attention_probe import Attention, attention_data, attention_of
from headtohead.finished_runs.probe.position_encodings import fresh_model
from headtohead.finished_runs.probe.probe_input import of_image, of_rows, of_text
from headtohead.interpretability.layer_words import head_words, layer_words
from headtohead.interpretability.montage import scale_of
from headtohead.interpretability.receptive_field import RequestedMaps

if TYPE_CHECKING:
    from torch import nn

    from headtohead.finished_runs.embedding.embedder import Embedder
    from headtohead.finished_runs.text_generator import GeneratedText

RunLike = str | Path | FinishedRun
"""A finished run, its record, or its folder."""


class EvaluatedRun(Result, Evaluation):
    """A run measured again, a row for each length or number of shots."""

    @property
    def title(self) -> str:
        return f"{self.name} on {self.split}, {self.precision} on {self.device}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {"length": point.length, "shots": point.shots, "samples": point.samples, **point.metrics}
            for point in self.points
        ]


@speaks_python
def evaluate(
    run: RunLike,
    overrides: Sequence[str] = (),
    *,
    split: SplitName = "test",
    lengths: Sequence[int] = (),
    stride: int | None = None,
    shots: Sequence[int] = (),
    by_position: bool = False,
    config_dir: str | Path | None = None,
    trust: Sequence[str] = (),
) -> EvaluatedRun:
    """Measure a finished run's selected weights again: `evaluate(record, ["data.path=other.txt"], stride=32)`.

    `lengths` are tokens read at once, a pass for each; windows that start `stride` apart score every token once.
    `shots` ask a language model for classes, with so many examples in the prompt. `by_position` adds the loss by how
    many tokens were in sight. `config_dir` is as in `compose`, `trust` as in `load_run`.
    """
    question = EvaluationRequest(
        split=split,
        lengths=tuple(lengths),
        stride=stride,
        overrides=tuple(overrides),
        config_dir=config_dir,
        by_position=by_position,
        shots=tuple(shots) or None,
    )
    return upgraded(EvaluatedRun, evaluate_run(_opened(run, trust), question))


@speaks_python
def generate(
    run: RunLike,
    prompts: str | Sequence[str],
    *,
    max_new_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    beams: int = 1,
    num_samples: int = 1,
    seed: int = 0,
    trust: Sequence[str] = (),
) -> list[GeneratedText]:
    """Let a finished run write: `generate(record, "the old teacher", temperature=0.8)[0].text`.

    The most likely token each time, unless a temperature or top_p ask for draws, or beams for a search;
    `load_run(path).generate` takes every option.
    """
    return _loaded(run, trust).generate(
        prompts,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        beams=beams,
        num_samples=num_samples,
        seed=seed,
    )


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

    def plot(self, index: int = 0) -> Any:
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


@speaks_python
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
    trust: Sequence[str] = (),
) -> ProbedAttention:
    """Look inside a finished run: the attention of every head for a text, an image, or rows of a split.

    `second` is the other text of a pair, `target` what an encoder-decoder's decoder reads (else its own output).
    `fields` adds the receptive field of the whole model, by gradients, to a model that has attention.
    `against` compares the maps with those of another run, or with "before" training.
    """
    opened = _opened(run, trust)
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
        subject = of_rows(opened, split, list(rows) or [0])
    requested: RequestedMaps = "always" if fields else "where_needed"
    return upgraded(ProbedAttention, attention_of(opened, subject, fields=requested, against=other))


def _other_model(against: RunLike, opened: FinishedRun, trust: Sequence[str]) -> tuple[str, nn.Module]:
    """Return the model that a run is compared with, and what it is called."""
    if against != "before":
        other = _opened(against, trust)
        return other.record.name or other.record.id, other.model
    if start := opened.config.get("init_from"):
        raise ConfigurationError(f"{opened.record.id} started from {start}: compare it with that run")
    return "before training", fresh_model(opened.config).eval()


@speaks_python
def embed(
    run: RunLike,
    texts: Sequence[str],
    *,
    pooling: Literal["mean", "cls", "last"] | None = None,
    batch_size: int = 64,
    trust: Sequence[str] = (),
) -> Any:
    """Return vectors [N, D] of length 1, one for each text, whose products are cosines; they depend on no other text.

    Texts longer than the run reads are cut.
    """
    from headtohead.finished_runs.embedding.embedder import Embedder

    embedder: Embedder = Embedder(_loaded(run, trust), pooling, batch_size)
    return embedder.embed(list(texts))


class ExportedRun(Result, Exported):
    """The files of an exported run, and how far each checked shape is from the run's own logits."""

    @property
    def title(self) -> str:
        return f"{self.run} as {self.form}: {', '.join(str(file) for file in self.files)}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        checked: list[dict[str, object]] = self.to_dict()["rows"]
        return checked


@speaks_python
def export(run: RunLike, to: Form, *, out: str | Path | None = None, trust: Sequence[str] = ()) -> ExportedRun:
    """Write a finished run as safetensors, hub (as `transformers` reads it), torch or onnx; checked and timed.

    `out` is a folder, by default RUN/export/FORM.
    """
    return upgraded(ExportedRun, export_run(_opened(run, trust), to, None if out is None else Path(out)))


def _opened(run: RunLike, trust: Sequence[str]) -> FinishedRun:
    return run if isinstance(run, FinishedRun) else open_run(run, trust=trust)


def _loaded(run: RunLike, trust: Sequence[str]) -> LoadedRun:
    opened = _opened(run, trust)
    return opened if isinstance(opened, LoadedRun) else load_run(opened.folder, trust=trust)
