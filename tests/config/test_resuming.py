"""A run is continued under its own configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.continued_run import content_hash
from headtohead.config.run_id import run_id
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder

FIRST = [
    "optimizer=sgd",
    "model/size=small",
    "data.batch_size=8",
    "trainer.max_steps=300",
    "trainer.validate_every=7",
    "tracking=offline",
]


@pytest.fixture
def run(tmp_path: Path) -> str:
    """One whose configuration is as training records it: what was left to the data is filled in."""
    config = compose_checked("train", FIRST)
    config["model"]["vocab_size"] = 512
    folder = RunFolder.create(tmp_path, name="tiny")
    folder.write_record(RunRecord(id=folder.id, config=config, status="interrupted"))
    return str(folder.path)


def resumed(run: str, *overrides: str) -> dict[str, Any]:
    return compose_checked("train", [f"resume_from={run}", *overrides])


def test_a_continued_run_has_its_own_configuration_and_name(run: str) -> None:
    recorded = RunFolder.open(run).read_record_as_written().config
    assert resumed(run) == {**recorded, "resume_from": run}


@pytest.mark.slow
def test_the_first_command_may_be_given_again(run: str) -> None:
    assert resumed(run, *FIRST, "model=decoder_only", "seed=0") == resumed(run)


def test_how_a_run_is_carried_out_may_change_and_all_else_stays(run: str) -> None:
    config = resumed(run, "trainer=ddp", "tracking=none", "trainer.validate_every=200", "checkpointing=full")
    assert config["trainer"] == {**resumed(run)["trainer"], "strategy": "ddp", "devices": 2, "validate_every": 200}
    assert config["tracking"]["mode"] == "none" and config["checkpointing"]["kind"] == "full"
    assert resumed(run, "tracking=auto")["tracking"]["mode"] == "auto"
    assert config["choices"]["trainer"] == "ddp" and config["data"]["batch_size"] == 8


@pytest.mark.parametrize("override", ["model/size=tiny", "optimizer.lr=0.3", "data.batch_size=32", "optimizer=adam"])
def test_what_is_trained_cannot_change_half_way(run: str, override: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{override} cannot be given .*remove it, or .*init_from"):
        resumed(run, override)


def test_batches_of_so_many_tokens_are_those_that_the_run_has_or_refused(run: str) -> None:
    """The run has batches of 8 rows of 128 tokens."""
    assert resumed(run, "trainer.batch_tokens=1024") == resumed(run)
    with pytest.raises(ConfigurationError, match=r"batch_tokens=2048 makes batches of 16 rows, and the run .*size=8:"):
        resumed(run, "trainer.batch_tokens=2048")


@pytest.mark.parametrize("field", ["name", "group", "output_dir", "notes", "tags"])
def test_what_the_record_and_the_folder_say_already_is_no_option_of_a_later_start(run: str, field: str) -> None:
    value = "[other]" if field == "tags" else "other"
    with pytest.raises(ConfigurationError, match=rf"{field}=.*other.* has no effect on a run that is continued"):
        resumed(run, f"{field}={value}")


def test_the_hash_of_a_run_says_whether_it_went_on_as_it_began(run: str, caplog: pytest.LogCaptureFixture) -> None:
    folder = RunFolder.open(run)
    record = folder.read_record_as_written()
    record.content_hash = run_id(record.config)
    folder.write_record(record)
    assert content_hash(record.config) == record.content_hash
    for same in ("trainer.num_workers=2", "trainer.log_every=3", "tracking=none", "probe=none"):
        assert content_hash(resumed(run, same)) == record.content_hash, same
    assert not caplog.text
    longer = content_hash(resumed(run, "trainer.max_steps=400"))
    assert longer not in (record.content_hash, run_id(resumed(run, "trainer.max_steps=400")))
    assert "continues with trainer.max_steps=400 (it was 300)" in caplog.text
    record.config["trainer"]["max_steps"], record.content_hash = 400, longer
    folder.write_record(record)
    assert content_hash(resumed(run)) == longer


def test_what_is_given_is_checked_as_ever(run: str) -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean trainer\.max_steps"):
        resumed(run, "trainer.max_step=5")


def test_a_run_that_began_with_other_weights_is_continued_like_any(run: str, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, name="second")
    config = compose_checked("train", [*FIRST, f"init_from={run}"])
    folder.write_record(RunRecord(id=folder.id, config=config, status="interrupted"))
    assert resumed(str(folder.path))["init_from"] == run
    with pytest.raises(ConfigurationError, match="init_from"):
        resumed(run, f"init_from={folder.path}")
