"""Finished runs from Python: measured again, writing, looked into, searching, exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headtohead.api.error_translation import python_errors, python_errors_with
from headtohead.api.result import Result, upgraded
from headtohead.api.training import load_run
from headtohead.config.errors import ConfigurationError
from headtohead.data.data_source import SplitName
from headtohead.finished_runs.evaluation.evaluate import evaluate as evaluate_run
from headtohead.finished_runs.evaluation.evaluation_request import EvaluationRequest
from headtohead.finished_runs.evaluation.evaluation_results import Evaluation
from headtohead.finished_runs.evaluation.lm_eval_results import LmEvalResults, evaluate_with_lm_eval, lm_eval_rows
from headtohead.finished_runs.evaluation.loss_plot import draw_losses
from headtohead.finished_runs.export_run import Exported, Form
from headtohead.finished_runs.export_run import export as export_run
from headtohead.finished_runs.finished_run import FinishedRun, open_run
from headtohead.finished_runs.loaded_run import LoadedRun
from headtohead.ranges import (
    Amount,
    BatchSize,
    Beams,
    Length,
    Positive,
    Real,
    Samples,
    Seed,
    Share,
    Temperature,
    TokenId,
    Vocabulary,
)
from headtohead.training.loop.precision import Unmixed

if TYPE_CHECKING:
    from headtohead.api.drawn_figure import DrawnFigure
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

    def plot(self) -> DrawnFigure:
        """Return a figure of the loss over the lengths read at once, and over the tokens in sight."""
        from headtohead.api.drawn_figure import DrawnFigure

        if len(self.points) < 2 and not any(point.places for point in self.points):
            raise ConfigurationError("one number is not a curve: evaluate with several lengths, or by_position=True")
        return draw_losses([self], DrawnFigure)


@python_errors_with(length="lengths", places="by_position", lm_eval="h2h.lm_eval(...)")
def evaluate(
    run: RunLike,
    overrides: Sequence[str] = (),
    *,
    split: SplitName = "test",
    lengths: Sequence[Length] = (),
    stride: Length | None = None,
    shots: Sequence[Amount] = (),
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
    return upgraded(EvaluatedRun, evaluate_run(opened_run(run, trust), question))


@python_errors_with(prompt="prompts", tokens="prompts", stop_token="stop_tokens")
def generate(
    run: RunLike,
    prompts: str | Sequence[int] | Sequence[str | Sequence[int]],
    *,
    max_new_tokens: Length | None = None,
    temperature: Temperature | None = None,
    top_k: Vocabulary | None = None,
    top_p: Share | None = None,
    repetition_penalty: Positive = 1.0,
    beams: Beams = 1,
    length_penalty: Real = 1.0,
    num_samples: Samples = 1,
    seed: Seed = 0,
    stop: Sequence[str] = (),
    stop_tokens: Sequence[TokenId] = (),
    precision: Unmixed | None = None,
    trust: Sequence[str] = (),
) -> list[GeneratedText]:
    """Let a finished run write: `generate(record, "the old teacher", temperature=0.8)[0].text`.

    The most likely token each time, unless a temperature, top_k or top_p ask for draws, or beams for a search. A prompt
    is a text, or token ids. Texts end with the run's end token, before one of the texts `stop`, at one of the
    `stop_tokens`, or after `max_new_tokens`. `precision` is what the weights are cast to.
    """
    return _loaded(run, trust).generate(
        prompts,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        beams=beams,
        length_penalty=length_penalty,
        num_samples=num_samples,
        seed=seed,
        stop=stop,
        stop_tokens=stop_tokens,
        precision=precision,
    )


@python_errors
def embed(
    run: RunLike,
    texts: Sequence[str],
    *,
    pooling: Literal["mean", "cls", "last"] | None = None,
    batch_size: BatchSize = 64,
    trust: Sequence[str] = (),
) -> Any:
    """Return vectors [N, D] of length 1, one for each text, whose products are cosines; they depend on no other text.

    Texts longer than the run reads are cut.
    """
    from headtohead.finished_runs.embedding.embedder import Embedder

    embedder: Embedder = Embedder(_loaded(run, trust), pooling, batch_size)
    return embedder.embed(list(texts))


@dataclass(frozen=True)
class HarnessResults(Result):
    """The results of a run in tasks of lm-evaluation-harness, a row for each metric of a task."""

    measured: LmEvalResults
    """The metrics by task, as the harness reports them, and the file that has them."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        return f"{self.measured.run} in lm-evaluation-harness: {', '.join(self.measured.tasks)}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {"task": task, "metric": name, "value": value, "standard_error": error}
            for task, name, value, error in lm_eval_rows(self.measured)
        ]


@python_errors_with(lm_eval="tasks", lm_eval_tasks="folder")
def lm_eval(
    run: RunLike,
    tasks: Sequence[str],
    *,
    shots: Amount | None = None,
    folder: str | Path | None = None,
    trust: Sequence[str] = (),
) -> HarnessResults:
    """Measure a finished language model by lm-evaluation-harness, an extra: `lm_eval(record, ["lambada_openai"])`.

    `shots` are examples in each prompt, `folder` has task files of your own.
    """
    if not tasks:
        raise ConfigurationError("--lm-eval names no task: give one or more, as lambada_openai")
    return HarnessResults(evaluate_with_lm_eval(opened_run(run, trust), tasks, folder=folder, shots=shots))


class ExportedRun(Result, Exported):
    """The files of an exported run, and how far each checked shape is from the run's own logits."""

    @property
    def title(self) -> str:
        return f"{self.run} as {self.form}: {', '.join(str(file) for file in self.files)}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        checked: list[dict[str, object]] = self.to_dict()["rows"]
        return checked


@python_errors
def export(run: RunLike, to: Form, *, out: str | Path | None = None, trust: Sequence[str] = ()) -> ExportedRun:
    """Write a finished run as safetensors, hub (as `transformers` reads it), torch or onnx; checked and timed.

    `out` is a folder, by default RUN/export/FORM.
    """
    return upgraded(ExportedRun, export_run(opened_run(run, trust), to, None if out is None else Path(out)))


def opened_run(run: RunLike, trust: Sequence[str]) -> FinishedRun:
    """Return the run, opened where it is its folder."""
    return run if isinstance(run, FinishedRun) else open_run(run, trust=trust)


def _loaded(run: RunLike, trust: Sequence[str]) -> LoadedRun:
    opened = opened_run(run, trust)
    return opened if isinstance(opened, LoadedRun) else load_run(opened.folder, trust=trust)
