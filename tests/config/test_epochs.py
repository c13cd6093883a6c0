"""Epochs are another way to say how many steps: whatever asks how long a run is gets steps."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import headtohead as h2h
from headtohead.cli import main
from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_run import rerun
from headtohead.records.run_folder import RunFolder
from headtohead.studies.planning.study_plan import StudyPlanner
from headtohead.training.checkpoints import load_best
from studies.small_studies import small_study

ROWS = ["data=sentence_grammar", "data.num_validation=16", "data.num_test=16", "task=classification"]
SMALL = [
    *ROWS, "data.num_train=70", "data.batch_size=16", "model=mlp", "model.d_model=8", "model.num_layers=1",
    "trainer.accelerator=cpu", "tracking=none", "probe=none", "trainer.num_samples=0", "trainer.progress_bar=false",
]  # fmt: skip


def steps(*overrides: str) -> int:
    trainer = compose_checked("train", [*ROWS, *overrides])["trainer"]
    assert trainer["max_epochs"] is None
    return int(trainer["max_steps"])


def test_epochs_are_full_batches_of_the_rows_that_are_learned_from(draw_seed: int) -> None:
    rng = random.Random(draw_seed)
    rows, batch, epochs = rng.randint(20, 90), rng.randint(3, 40), rng.randint(1, 5)
    provided = [f"data.num_train={rows}", f"data.batch_size={batch}", f"trainer.max_epochs={epochs}"]
    learned = rng.choice([None, rng.randint(5, rows)])
    if learned is not None:
        provided.append(f"trainer.train_rows={learned}")
    rows = learned or rows
    expected = epochs * (rows // min(batch, rows))
    assert steps(*provided) == expected


def test_the_later_of_both_counts_and_a_command_takes_one() -> None:
    rows = ["data.num_train=70", "data.batch_size=16"]
    assert steps(*rows, "trainer.max_epochs=2", "trainer.max_steps=5") == 5
    assert steps(*rows, "trainer.max_steps=5", "trainer.max_epochs=2") == 8
    assert main(["train", "trainer.max_steps=5", "trainer.max_epochs=2"]) == 2


def test_a_schedule_is_checked_against_the_steps_that_the_epochs_are() -> None:
    schedule = ["data.batch_size=1", "schedule=wsd", "schedule.warmup=900", "schedule.decay=400"]
    assert steps(*schedule, "data.num_train=1500", "trainer.max_epochs=1") == 1500
    with pytest.raises(ConfigurationError, match=r"schedule\.warmup \(900 steps\).*trainer\.max_steps=70:"):
        steps(*schedule, "data.num_train=70", "trainer.max_epochs=1")


@pytest.mark.parametrize(("override", "sentence"), [("0", "at least 1"), ("0.5", "a whole number"), ("two", "a whole")])
def test_no_number_of_epochs_is_refused(override: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        steps(f"trainer.max_epochs={override}")


@pytest.mark.slow
def test_a_run_in_epochs_is_recorded_rerun_and_resumed_in_steps(tmp_path: Path) -> None:
    base = [*SMALL, f"output_dir={tmp_path}", "schedule=constant", "trainer.validate_every=4"]
    whole = h2h.train(compose_checked("train", [*base, "trainer.max_epochs=3"]))
    assert whole.progress.step == whole.config["trainer"]["max_steps"] == 12
    assert whole.config["trainer"]["max_epochs"] is None and whole.path is not None
    assert RunFolder.open(whole.path).read_config()["trainer"]["max_steps"] == 12
    assert rerun(whole.path, ["seed=3"])["trainer"]["max_steps"] == 12
    assert rerun(whole.path, ["trainer.max_epochs=1"])["trainer"]["max_steps"] == 4
    half = h2h.train(compose_checked("train", [*base, "trainer.max_epochs=2"]))
    rest = h2h.train(compose_checked("train", [f"resume_from={half.path}", "trainer.max_epochs=3"]))
    assert rest.progress.step == 12 and rest.metrics["test"] == whole.metrics["test"] and rest.path is not None
    first, second = load_best(whole.path)["model"], load_best(rest.path)["model"]
    assert all((held == second[name]).all() for name, held in first.items())


def test_a_study_in_epochs_is_planned_in_steps(tmp_path: Path) -> None:
    """Each arm by its own rows and batches; shares of a run are shares of its steps."""
    base = [*SMALL, f"output_dir={tmp_path}", "trainer.max_epochs=6"]
    arms = {"a": ["data.batch_size=16"], "b": ["data.batch_size=8"]}
    plan = StudyPlanner(small_study(base=base, arms=arms, seeds=1, shares=[0.5, 1.0])).plan()
    planned = {(run.arm, run.share): run.config["trainer"]["max_steps"] for run in plan.runs}
    assert planned == {("a", 0.5): 12, ("a", 1.0): 24, ("b", 0.5): 24, ("b", 1.0): 48}


def test_parts_are_made_of_configurations_that_still_speak_of_epochs() -> None:
    config = compose_checked("train", SMALL)
    config["trainer"]["max_epochs"] = 2
    parts = build_parts(config)
    assert parts.settings.max_steps == parts.config["trainer"]["max_steps"] == 8
