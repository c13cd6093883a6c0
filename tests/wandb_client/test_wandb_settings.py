"""W&B's settings count in W&B's order; what is typed here beats them, and no default of ours does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from headtohead.records.record import RunRecord, StudyPosition
from headtohead.sweeps.agent_overrides import name_by_wandb
from headtohead.wandb_client import wandb_tracker as tracking_wandb
from headtohead.wandb_client.connection import (
    VARIABLES,
    Mode,
    TrackingSettings,
    decide,
    entity_of,
    project_of,
    server_url,
    setting,
)
from headtohead.wandb_client.pending_uploads import runs_with_files
from headtohead.wandb_client.run_metadata import group_of, job_of, tags_of
from headtohead.wandb_client.wandb_tracker import start
from headtohead.wandb_client.workspace_pages import project_of as page_of
from run_folders import OFFLINE, log_steps, new_run, written


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "own"))
    return tmp_path


def save(position: str, **values: str) -> None:
    """Save settings as `wandb offline`, `wandb init` and `wandb login` do."""
    Path(position).mkdir(exist_ok=True)
    lines = [f"{name} = {value}\n" for name, value in values.items()]
    (Path(position) / "settings").write_text("[default]\n" + "".join(lines), encoding="utf-8")


@pytest.mark.parametrize("name", VARIABLES)
def test_the_environment_comes_before_the_folder_and_the_folder_before_the_user(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert setting(name) is None
    save("own", **{name: "100% own"})
    assert setting(name) == "100% own"
    save("wandb", **{name: "folder"})
    assert setting(name) == "folder"
    if name != "root_dir":
        monkeypatch.setenv(VARIABLES[name], "variable")
        assert setting(name) == "variable"


def test_our_order_is_that_of_wandbs_client(monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    save("wandb", project="folder", entity="folder", base_url="http://folder.example")
    monkeypatch.setenv("WANDB_ENTITY", "variable")
    theirs = wandb.Settings(settings_system=None)
    theirs.update_from_system_settings()
    theirs.update_from_env_vars(dict(os.environ))
    assert (theirs.project, theirs.entity, theirs.base_url) == (setting("project"), setting("entity"), server_url())


@pytest.mark.parametrize(("saved", "typed", "mode"), [
    ("offline", "auto", "offline"), ("dryrun", "auto", "offline"), ("disabled", "auto", "none"),
    ("disabled", "offline", "offline"), ("offline", "none", "none"),
])  # fmt: skip
def test_wandb_offline_and_disabled_in_the_folder_are_obeyed_and_a_typed_mode_beats_them(
    saved: str, typed: Mode, mode: str
) -> None:
    save("wandb", mode=saved)
    decision = decide(TrackingSettings(mode=typed))
    assert decision.mode == mode
    assert decision.why == (f"wandb/settings says {saved}" if typed == "auto" else "requested")


def test_project_and_entity_are_wandbs_unless_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = SimpleNamespace(default_entity="me")
    assert (project_of(TrackingSettings()), entity_of(TrackingSettings())) == ("headtohead", None)
    monkeypatch.setenv("WANDB_PROJECT", "theirs")
    monkeypatch.setenv("WANDB_ENTITY", "team")
    typed = TrackingSettings(project="mine", entity="us")
    assert (project_of(TrackingSettings()), entity_of(TrackingSettings())) == ("theirs", "team")
    assert (project_of(typed), entity_of(typed)) == ("mine", "us")
    assert page_of(nobody).path == "team/theirs" and page_of(nobody, settings=typed).path == "us/mine"


def test_group_tags_job_and_name_are_wandbs_unless_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"WANDB_RUN_GROUP": "g", "WANDB_TAGS": "a, b", "WANDB_JOB_TYPE": "j", "WANDB_NAME": "a, name"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    plain = RunRecord(id="r")
    assert (group_of(plain), tags_of(plain), job_of(plain, TrackingSettings())) == ("g", ["a", "b"], "j")
    typed = RunRecord(id="r", group="mine", tags=["c"], job_type="foundation")
    assert (group_of(typed), tags_of(typed), job_of(typed, TrackingSettings())) == ("mine", ["c"], "foundation")
    assert job_of(plain, TrackingSettings(job_type="mine")) == "mine"
    assert job_of(typed, TrackingSettings(job_type="mine")) == "foundation", "what it is in its study"
    assert job_of(RunRecord(id="r", place=StudyPosition("s", "a", 0, trial=1)), TrackingSettings()) == "trial"
    assert name_by_wandb(["seed=1"]) == ["name='a, name'"] and name_by_wandb(["name=b"]) == []
    monkeypatch.setenv("WANDB_SWEEP_ID", "s1")
    assert group_of(RunRecord(id="r", group="sweep-s1")) == "g"
    monkeypatch.delenv("WANDB_RUN_GROUP")
    assert group_of(RunRecord(id="r", group="sweep-s1")) == "sweep-s1" and group_of(plain) == "s1"


def sent(directory: Path) -> Mapping[str, str]:
    return next(line["run"] for line in written(directory) if line["type"] == "run")


@pytest.mark.process
def test_a_run_goes_where_wandbs_settings_say(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save("wandb", project="folders", run_group="folders")
    files = folder / "files"
    variables = {"WANDB_ENTITY": "team", "WANDB_RUN_GROUP": "theirs", "WANDB_DIR": str(files), "WANDB_JOB_TYPE": "j"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    files.mkdir()
    (folder / "wandb").rename(files / "wandb")
    record, run_folder = new_run(folder / "outputs")
    tracker = start(OFFLINE, record, run_folder)
    log_steps(tracker, run_folder, range(2))
    tracker.finish("finished")

    assert isinstance(tracker, tracking_wandb.WandbTracker)
    message = sent(tracker.directory)
    assert (message["entity"], message["project"], message["run_group"], message["job_type"]) == (
        "team",
        "folders",
        "theirs",
        "j",
    )
    assert tracker.directory.resolve().parent == files / "wandb"
    ((result, (file,)),) = runs_with_files(folder / "outputs")
    assert result.path == run_folder.path and file.parent == tracker.directory
