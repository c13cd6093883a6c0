"""Two people and two studies in one project of W&B: runs of equal content stay apart, and none loses a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headtohead.records.run_folder import scan
from wandb_server import WandbServer
from wandb_trainings import PATIENT, STEPS, TINY, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.process]
PEOPLE, STUDIES = ("ada", "grace"), ("first", "second")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


def test_runs_of_two_people_in_two_studies_arrive_whole_each_as_its_own(tmp_path: Path, terminal: Terminal) -> None:
    server, later = WandbServer(), {}
    for person in PEOPLE:
        home = tmp_path / person
        home.mkdir()
        for study in STUDIES:
            tracked = "tracking=offline" if (person, study) == ("grace", "second") else "tracking=online"
            typed = ("train", *TINY, *PATIENT[:2], f"group={study}", "name=same", tracked, "--resumable")
            done = terminal.h2h(home, server.environment, *typed)
            assert done.returncode == 0, done.stderr
        again = terminal.h2h(home, server.environment, *typed)
        assert again.returncode == 0, again.stderr
        later[person] = terminal.h2h(home, server.environment, "sync")
    server.close()

    assert later["ada"].stdout == "0 runs uploaded, 2 there already\n"
    assert later["grace"].stdout.endswith("1 run uploaded, 1 there already\n")
    result = [record for person in PEOPLE for record in scan(tmp_path / person / "outputs")]
    assert len({record.content_hash for record in result}) == 1 and len({record.id for record in result}) == 1
    assert sorted(server.runs) == sorted(str(record.wandb.id) for record in result) and len(server.runs) == 4
    for record in result:
        run = server.runs[str(record.wandb.id)]
        assert run.first["groupName"] == record.group
        assert run.config["content_hash"] == record.content_hash
        assert run.steps("train/loss") == list(range(1, STEPS + 1)) and run.steps("validation/samples")[-1] == STEPS
        assert (run.summary["status"], run.summary["test/loss"]) == (
            "finished", pytest.approx(record.metrics["test"]["loss"]),
        )  # fmt: skip
    assert server.unknown == []
