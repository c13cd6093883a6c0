"""sweep.html and the tables: the best first, every trial shown, no text taken for markup."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from headtohead.records.record import Progress
from headtohead.records.run_folder import RunFolder
from headtohead.sweeps.sweep_plan import Sweeper, SweepPlan
from headtohead.sweeps.sweep_report import page, parallel, ranked, show_plan, show_trials, write_page
from studies.small_studies import write_run
from sweeps.small_sweeps import small_sweep, tiny


def swept(folder: Path) -> SweepPlan:
    """Return a plan of four trials, of which one is best, one diverged, one failed and one is not done."""
    sweeper = Sweeper(small_sweep(*tiny(folder), description="What <b>is</b> it?"))
    runs = sweeper.plan.runs
    for run, value in zip(runs, (3.0, 2.0), strict=False):
        write_run(sweeper.plan.run_folder(run))
        RunFolder(sweeper.plan.run_folder(run)).log(Progress(step=4), {"validation/loss": value})
    write_run(sweeper.plan.run_folder(runs[2]), "diverged", None, reason="train/loss was nan")
    return sweeper.again()[0]


def test_the_best_comes_first_and_what_measured_nothing_last(tmp_path: Path) -> None:
    plan = swept(tmp_path)
    assert [trial.number for trial, _ in ranked(plan)] == [1, 0, 2, 3]
    console = Console(width=140, record=True, file=StringIO())
    console.print(show_plan(plan))
    console.print(show_trials(plan))
    message = console.export_text()
    assert (
        "4 trials, 3 of them done" in message and "diverged" in message and "not done" in message and "2.000" in message
    )


def test_the_page_says_what_came_out_and_takes_no_text_for_markup(tmp_path: Path) -> None:
    plan = swept(tmp_path)
    message = page(plan, "h2h sweep small.yaml")
    assert "What &lt;b&gt;is&lt;/b&gt; it?" in message and "<b>is</b>" not in message
    assert "model/norm=rms_norm" in message and "h2h sweep small.yaml" in message and "train/loss was nan" in message
    assert write_page(plan, "h2h sweep small.yaml").read_text() == message


def test_parallel_coordinates_draw_each_measured_trial_through_every_axis(tmp_path: Path) -> None:
    rows = [
        (trial, result) for trial, result in ranked(swept(tmp_path)) if result is not None and result.value is not None
    ]
    form = parallel(rows, "validation/loss", larger_is_better=False).forms[()]
    assert form["layout"]["xaxis"]["ticktext"] == ["optimizer.lr", "model/norm", "validation loss"]
    assert len(form["data"]) == 2 and all(len(line["x"]) == len(line["y"]) == 3 for line in form["data"])
    best = form["data"][-1]  # drawn last, on top
    assert best["line"]["color"] == "--ink" and best["y"][-1] == 0.0
