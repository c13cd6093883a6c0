"""One run from Python: trained, opened again, its curves as frames and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.api.configurations import Configured, configuration
from headtohead.api.error_translation import python_errors, python_errors_with
from headtohead.api.logged_curves import curve_frame, folder_of, logged
from headtohead.api.result import Result, upgraded
from headtohead.config.build import build_parts
from headtohead.config.trust import trusting
from headtohead.execution.single_run import check_resuming, train_resumable
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder

if TYPE_CHECKING:
    from pandas import DataFrame

    from headtohead.api.drawn_figure import DrawnFigure
    from headtohead.finished_runs.loaded_run import LoadedRun

_INCHES = (6.4, 3.6)


class TrainedRun(Result, RunRecord):
    """The record of a run, with its results as rows beside what a guess gets, and its curves."""

    @property
    def title(self) -> str:
        return self.one_line

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {"split": stage, "metric": name, "value": value, "baseline": self.baseline(stage, name)}
            for stage, values in self.metrics.items()
            for name, value in values.items()
        ]

    def curve(self, name: str = "validation/loss") -> DataFrame:
        """Return one logged metric as a frame: step, epoch, tokens, flops, seconds, value."""
        return curve_frame(self, name)

    def plot(self, *names: str) -> DrawnFigure:
        """Return a figure of logged metrics over steps: `plot("train/loss", "validation/loss")`, the default."""
        from headtohead.api.drawn_figure import DrawnFigure

        figure = DrawnFigure(figsize=_INCHES, layout="constrained")
        axes = figure.subplots()
        shown = names or tuple(name for name in ("train/loss", "validation/loss") if name in logged(self))
        for name in shown:
            frame = self.curve(name)
            axes.plot(frame["step"], frame["value"], label=name, marker="o" if len(frame) < 12 else None)
        axes.set_xlabel("optimizer steps")
        axes.legend(frameon=False)
        return figure

    def open(self) -> LoadedRun:
        """Return the run with its model, to generate, embed and look inside."""
        return load_run(folder_of(self))


@python_errors_with(multirun="h2h.train_many(...)")
def train(
    config: Configured = (),
    *,
    config_dir: str | Path | None = None,
    from_run: str | Path | None = None,
    resumable: bool = False,
    take_over: bool = False,
    trust: Sequence[str] = (),
) -> TrainedRun:
    """Train one model and return the record of the run; `record.path` is its folder.

    `config` is a configuration or the overrides that make one, `train(["model/position=alibi"])`. It is the caller's
    own, and whatever it names is made; `train(["seed=1"], from_run=run)` repeats a run with a change, which names what
    comes with this package or what `trust` names. Ctrl-C ends the run with a checkpoint, from which `resume_from=`
    continues; with `resumable` the same call does, and returns the record of a run that has ended. With `take_over` a
    resumed run is taken from the process that writes it. `train_many` makes a run for every combination of values.
    """
    from headtohead.training.run import train as train_parts

    with trusting(trust):
        composed = configuration(config, "train", config_dir, from_run)
        check_resuming(composed, is_resumable=resumable, is_taken_over=take_over)
        if resumable:
            return upgraded(TrainedRun, train_resumable(composed, take_over=take_over))
        parts = build_parts(composed)
        return upgraded(TrainedRun, train_parts(replace(parts, identity=replace(parts.identity, take_over=take_over))))


@python_errors
def load_run(path: str | Path, *, trust: Sequence[str] = ()) -> LoadedRun:
    """Open a finished run by its folder: `record`, `model` with the selected weights, `data`, `generate("a text")`,
    `embed(["a text"])`, `attention("a text")`.

    `trust` names packages or classes that a run from elsewhere may name beyond the choices that come with this one.
    """
    from headtohead.finished_runs.loaded_run import load_run as load

    return load(path, trust=trust)


@python_errors
def read_record(path: str | Path) -> TrainedRun:
    """Return the record in a run's folder, without its model."""
    return upgraded(TrainedRun, RunFolder.open(Path(path)).read_record())
