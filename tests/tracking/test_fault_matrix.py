"""Real `h2h train` runs against W&B servers in trouble: same losses, a bounded end, what is missing uploaded later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from wandb_server import WandbServer
from wandb_trainings import STEPS, Terminal, Training, train

pytestmark = [pytest.mark.slow, pytest.mark.process]
LONGEST_END = 3 + 9
"""The finish_timeout of these runs, and what a busy machine adds to the end of a process."""


def is_training(server: WandbServer) -> bool:
    return any(path.endswith("/file_stream") for path in server.asked)


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


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, terminal: Terminal) -> Training:
    """The same run without W&B."""
    return train(tmp_path_factory.mktemp("alone"), {}, "tracking=none", options=(), terminal=terminal)


@pytest.mark.parametrize("name", CASES)
def test_trouble_with_the_server_costs_a_run_nothing(
    tmp_path: Path, name: str, reference: Training, terminal: Terminal
) -> None:
    case, server = CASES[name], WandbServer()
    case.befalls(server)
    patient = "tracking.finish_timeout=15" if case.says is None else "tracking.finish_timeout=3"
    training = train(tmp_path, server.environment, patient, terminal=terminal)
    server.close()

    assert training.exit_code == 0, training.said
    assert training.losses() == reference.losses()
    assert len(training.losses()) == STEPS
    assert training.record.metrics == reference.record.metrics
    assert (training.record.status, training.record.wandb.mode) == ("finished", case.starts)
    assert server.unknown == []
    if case.says is None:
        (run,) = server.runs.values()
        assert run.steps("train/loss") == list(range(1, STEPS + 1))
        assert (run.summary["status"], run.exit_code) == ("finished", 0)
        assert "h2h sync" not in training.said
        return
    assert training.seconds_after_the_end < LONGEST_END
    assert case.says in training.said and "W&B failed" not in training.said
    assert f"h2h sync outputs/default/{training.record.id}" in training.said

    later = WandbServer()
    synced = terminal.h2h(tmp_path, later.environment, "sync")
    later.close()
    assert synced.stdout.endswith("1 run uploaded, 0 there already\n"), synced.stdout + synced.stderr
    (run,) = later.runs.values()
    assert run.steps("train/loss") == list(range(1, STEPS + 1))
    assert (run.summary["status"], run.exit_code, later.unknown) == ("finished", 0, [])
    assert run.summary["test/loss"] == pytest.approx(training.record.metrics["test"]["loss"])
