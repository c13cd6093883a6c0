"""Real `h2h train` runs against W&B servers in trouble: same losses, a bounded end, what is missing uploaded later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from wandb_server import WandbServer
from wandb_trainings import IMPATIENT, PATIENT, STEPS, Training, h2h, train

pytestmark = [pytest.mark.slow, pytest.mark.process]
LIMIT = 3
"""The finish_timeout of these runs; tests/wandb_client/test_end_of_a_run.py adds up all waits at the usual one."""


def is_training(server: WandbServer) -> bool:
    return any(path.endswith("/file_stream") for path in server.requested)


@dataclass(frozen=True)
class Case:
    """A server, and what a run says of it."""

    befalls: Callable[[WandbServer], None]
    says: str | None
    starts: str = "online"


CASES = {
    "unreachable at the start": Case(lambda server: server.close(), "cannot be reached", "offline"),
    "refusing the key": Case(lambda server: setattr(server, "behaviour", "refuses"), "did not take the run", "offline"),
    "erroring from the start": Case(lambda server: setattr(server, "behaviour", "fails"), "did not take", "offline"),
    "never answering": Case(lambda server: setattr(server, "behaviour", "hangs"), "did not take the run", "offline"),
    "erroring in the middle, for ever": Case(lambda server: server.then("fails", when=is_training), "h2h sync"),
    "refusing in the middle": Case(lambda server: server.then("refuses", when=is_training), "h2h sync"),
    "not answering from the middle on": Case(lambda server: server.then("hangs", when=is_training), "h2h sync"),
    "dropping connections and coming back": Case(
        lambda server: server.then("drops", when=is_training, back_after=1.0), None
    ),
}


FAULTS = {
    "full disk under wandb/ while one table is written": """
import wandb

bound = wandb.Table.bind_to_run

def fails_once(table, *arguments, **named):
    wandb.Table.bind_to_run = bound
    raise OSError(28, "No space left on device")

wandb.Table.bind_to_run = fails_once
""",
    "temporary folder that vanished": """
from wandb.sdk.data_types._private import MEDIA_TMP

MEDIA_TMP.name += "-vanished"
""",
}
"""The faults of the machine: a program that the process of the run runs first, while the server is healthy."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """The same run without W&B."""
    return train(tmp_path_factory.mktemp("alone"), {}, "tracking=none", options=())


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_trouble_with_the_server_costs_a_run_nothing(tmp_path: Path, name: str, reference: Training) -> None:
    case, server = CASES[name], WandbServer()
    case.befalls(server)
    options = PATIENT if case.starts == "online" else IMPATIENT
    patient = () if case.says is None else (f"tracking.finish_timeout={LIMIT}",)
    training = train(tmp_path, server.environment, *patient, options=options)
    server.close()

    assert training.exit_code == 0, training.message
    assert training.losses() == reference.losses()
    assert len(training.losses()) == STEPS
    assert training.record.metrics == reference.record.metrics
    assert (training.record.status, training.record.wandb.mode) == ("finished", case.starts)
    assert server.unknown == []
    if case.says is None:
        (run,) = server.runs.values()
        assert run.steps("train/loss") == list(range(1, STEPS + 1))
        assert (run.summary["status"], run.exit_code) == ("finished", 0)
        assert "h2h sync" not in training.message
        return
    in_turn = train(tmp_path / "in turn", {}, "tracking=none", options=())
    assert training.seconds_after_the_end < LIMIT + 20 + 2 * in_turn.seconds_after_the_end, "a busy machine delays both"
    assert case.says in training.message and "W&B failed" not in training.message
    assert f"h2h sync outputs/default/{training.record.id}" in training.message

    later = WandbServer()
    synced = h2h(tmp_path, later.environment, "sync")
    later.close()
    assert synced.stdout.endswith("1 run uploaded, 0 there already\n"), synced.stdout + synced.stderr
    (run,) = later.runs.values()
    assert run.steps("train/loss") == list(range(1, STEPS + 1))
    assert (run.summary["status"], run.exit_code, later.unknown) == ("finished", 0, [])
    assert run.summary["test/loss"] == pytest.approx(training.record.metrics["test"]["loss"])


@pytest.mark.parametrize("name", FAULTS)
def test_trouble_with_a_table_costs_that_table_alone_until_sync_sends_it(
    tmp_path: Path, name: str, reference: Training
) -> None:
    server = WandbServer()
    training = train(tmp_path, server.environment, first=FAULTS[name])
    assert training.exit_code == 0, training.message
    assert training.losses() == reference.losses()
    (run,) = server.runs.values()
    shown = run.steps("validation/samples")
    assert run.steps("train/loss") == list(range(1, STEPS + 1)) and run.steps("test/samples") == [STEPS]
    assert (run.summary["status"], run.exit_code, run.summary["test/loss"]) == (
        "finished", 0, pytest.approx(training.record.metrics["test"]["loss"]),
    )  # fmt: skip
    lost = len(shown) < len(list((training.folder.path / "tables").glob("step_*")))
    assert (
        lost == (name.startswith("full disk")) == ("W&B lacks 1 table; `h2h sync outputs/default/" in training.message)
    )

    for message in (
        f"{int(lost)} run{'' if lost else 's'} uploaded, {1 - lost} there already\n",
        "0 runs uploaded, 1 ",
    ):
        synced = h2h(tmp_path, server.environment, "sync")
        assert message in synced.stdout, synced.stdout + synced.stderr
    server.close()
    assert sorted(run.steps("validation/samples")) == [4, 8, 12]
    assert all(row["validation/samples"]["path"] in run.files for row in run.rows("validation/samples"))
    assert len(run.history) == len({row["_step"] for row in run.history}) and server.unknown == []
