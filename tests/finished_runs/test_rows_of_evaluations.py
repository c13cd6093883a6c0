"""An evaluation on train reads the rows that the run learned from, where it learned from some of them alone."""

from __future__ import annotations

import pytest

from headtohead import api
from headtohead.finished_runs.evaluation.evaluate import evaluate
from headtohead.finished_runs.evaluation.evaluation_request import EvaluationRequest
from headtohead.finished_runs.finished_run import FinishedRun, open_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    config = api.compose(
        "train",
        [
            "data=copy", "data.num_train=40", "data.num_validation=6", "data.num_test=6", "data.batch_size=4", "seed=3",
            "model.d_model=8", "model.num_layers=1", "model.num_heads=2", "trainer.train_rows=5", "trainer.max_steps=2",
            "trainer.accelerator=cpu", "trainer.progress_bar=false", "tracking=none", "probe=none",
            f"output_dir={tmp_path_factory.mktemp('rows')}",
        ],
    )  # fmt: skip
    record = api.train(config)
    assert record.path is not None
    return open_run(record.path)


@pytest.mark.parametrize(
    ("overrides", "rows"),
    [
        ((), 5),
        (("data.batch_size=2",), 5),
        (("trainer.train_rows=3",), 3),
        (("data.num_test=7",), 40),
        (("data=reverse", "data.num_train=30"), 30),
        (("data=reverse", "data.num_train=30", "trainer.train_rows=9"), 9),
    ],
    ids=str,
)
def test_train_is_what_the_run_learned_from(
    run: FinishedRun, overrides: tuple[str, ...], rows: int, caplog: pytest.LogCaptureFixture
) -> None:
    (point,) = evaluate(run, EvaluationRequest(split="train", overrides=overrides)).points
    assert run.record.data["train_rows"] == 5 and point.samples == rows
    assert (f"reads all {rows} rows: the 5 of trainer.train_rows" in caplog.text) == (rows >= 30)
