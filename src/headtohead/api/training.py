"""One run from Python: trained, opened again, its curves as frames and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.api.configurations import Configured, configuration
from headtohead.api.result import Result, upgraded
from headtohead.api.spoken_errors import speaks_python
from headtohead.config.build import build_parts
from headtohead.errors import UsageError
from headtohead.records.metrics_file import Curve
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
        return load_run(_folder(self))


def curve_frame(record: RunRecord, name: str) -> DataFrame:
    """Return a metric of a run's log as a frame; raise UsageError for one that was not logged."""
    from pandas import DataFrame

    curves = RunFolder.open(_folder(record)).metrics([name])
    if name not in curves:
        raise UsageError(
            f"{name} was not logged by {record.name or record.id}: choose among {', '.join(logged(record))}"
        )
    return DataFrame(vars(curves[name]))


def logged(record: RunRecord) -> Mapping[str, Curve]:
    """Return every curve of a run's log, by name."""
    return RunFolder.open(_folder(record)).metrics()


def _folder(record: RunRecord) -> Path:
    if record.path is None:
        raise UsageError(f"run {record.id} has no folder here, so that there is no log and no model to open")
    return record.path


@speaks_python
def train(config: Configured = (), *, take_over: bool = False) -> TrainedRun:
    """Train one model and return the record of the run; `record.path` is its folder.

    `config` is a configuration or the overrides that make one, `train(["model/position=alibi"])`. It is the caller's
    own, and whatever it names is made; `h2h train --from-run` is for one that came with a run. Ctrl-C ends the run with
    a checkpoint, from which `resume_from=` continues. With `take_over` a resumed run is taken from the process that
    writes it.
    """
    from headtohead.training.run import train as train_parts

    parts = build_parts(configuration(config))
    return upgraded(TrainedRun, train_parts(replace(parts, identity=replace(parts.identity, take_over=take_over))))


@speaks_python
def load_run(path: str | Path, *, trust: Sequence[str] = ()) -> LoadedRun:
    """Open a finished run by its folder: `record`, `model` with the selected weights, `data`, `generate("a text")`,
    `embed(["a text"])`, `attention("a text")`.

    `trust` names packages or classes that a run from elsewhere may name beyond the choices that come with this one.
    """
    from headtohead.finished_runs.loaded_run import load_run as load

    return load(path, trust=trust)


@speaks_python
def read_record(path: str | Path) -> TrainedRun:
    """Return the record in a run's folder, without its model."""
    return upgraded(TrainedRun, RunFolder.open(Path(path)).read_record())
