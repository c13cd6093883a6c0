"""Real `h2h train` runs that are killed without a word and go on: the server has every row once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from headtohead.records.run_folder import RunFolder, find_runs
from run_folders import wandb_id
from wandb_server import ServedRun, WandbServer
from wandb_trainings import TINY, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.process]
STEPS, BETWEEN = 90, 30
LONG = (*TINY, f"trainer.max_steps={STEPS}", f"trainer.validate_every={BETWEEN}", "probe=default", "probe.every=15")


def the_run(home: Path) -> RunFolder:
    (folder,) = find_runs(home / "outputs")
    return folder


def recorded(home: Path, step: int, name: str = "train/loss") -> Callable[[], bool]:
    def has_come() -> bool:
        result = find_runs(home / "outputs") if (home / "outputs").exists() else []
        return any(row.progress.step >= step for run in result for row in run.metrics_file.rows([name]))

    return has_come


def arrived(server: WandbServer, step: int) -> Callable[[], bool]:
    return lambda: any(row["trainer/global_step"] >= step for run in server.runs.values() for row in run.history)


def numbers(run: ServedRun) -> Counter[tuple[int, str]]:
    """Count how often each row came; the axes are in every row."""
    return Counter(
        (row["trainer/global_step"], name)
        for row in run.history
        for name in row
        if not name.startswith(("_", "trainer/", "progress/"))
    )


def check(home: Path, run: ServedRun, undisturbed: RunFolder) -> None:
    """That it is as if nothing had happened."""
    assert run.steps("train/loss") == list(range(1, STEPS + 1))
    assert run.steps("validation/loss") == list(range(BETWEEN, STEPS + 1, BETWEEN))
    assert [name for name, times in numbers(run).items() if times > 1] == []
    message = undisturbed.metrics(["train/loss", "validation/loss", "test/loss"])
    for name, curve in message.items():
        assert [row[name] for row in run.rows(name)] == pytest.approx(curve.value, rel=1e-12)
        assert the_run(home).metrics([name])[name].value == curve.value
    assert (run.summary["status"], run.exit_code) == ("finished", 0)


@pytest.fixture(scope="module")
def terminal():
    opened = Terminal()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, terminal: Terminal) -> RunFolder:
    home = tmp_path_factory.mktemp("undisturbed")
    assert terminal.h2h(home, {}, "train", *LONG, "tracking=none").returncode == 0
    return the_run(home)


def test_killed_online_run_goes_on_under_its_id_with_every_row_once(
    tmp_path: Path, terminal: Terminal, undisturbed: RunFolder
) -> None:
    server = WandbServer()
    again: list = []
    for step in (40, 75):  # the server is ahead of the checkpoint
        killed = terminal.h2h(
            tmp_path,
            server.environment,
            "train",
            *LONG,
            *again,
            killed_when=recorded(tmp_path, step),
            but_not_before=arrived(server, step),
        )
        assert killed.returncode == -9
        again = [f"resume_from={the_run(tmp_path).path}"]
    done = terminal.h2h(tmp_path, server.environment, "train", *LONG, *again)
    server.close()

    assert done.returncode == 0, done.stderr
    assert list(server.runs) == [wandb_id(the_run(tmp_path))]
    (run,) = server.runs.values()
    check(tmp_path, run, undisturbed)
    assert server.unknown == []


def test_killed_offline_run_is_uploaded_as_one_run_with_every_row_once(
    tmp_path: Path, terminal: Terminal, undisturbed: RunFolder
) -> None:
    assert terminal.h2h(tmp_path, {}, "train", *LONG, killed_when=recorded(tmp_path, 40)).returncode == -9
    again = f"resume_from={the_run(tmp_path).path}"
    assert terminal.h2h(tmp_path, {}, "train", *LONG, again).returncode == 0

    server = WandbServer()
    synced = terminal.h2h(tmp_path, server.environment, "sync")
    server.close()
    assert synced.stdout.endswith("1 run uploaded, 0 there already\n"), synced.stdout + synced.stderr
    assert list(server.runs) == [wandb_id(the_run(tmp_path))]
    (run,) = server.runs.values()
    check(tmp_path, run, undisturbed)
    assert server.unknown == []
