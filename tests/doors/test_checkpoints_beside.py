"""An error names the damaged one of a run's two checkpoints, and its command works."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from doors.damage import restore, truncated
from doors.workplace import RUN
from headtohead.cli import main
from headtohead.records.run_folder import load_run

BEST, LAST = Path(RUN, "checkpoints/best.ckpt"), Path(RUN, "checkpoints/last.ckpt")


def offered(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The command that the refusal gives, as a shell would split it."""
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    result = re.search(r"beside it is whole \(step 2\): `h2h ([^`]*)`", shown)
    assert result is not None, shown
    return result[1].split()


def truncate(path: Path) -> None:
    path.write_bytes(truncated(path.read_bytes(), random.Random(0), path))


@pytest.mark.slow
def test_weights_that_are_damaged_are_selected_anew_from_the_last_checkpoint(
    inside: dict[Path, bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    restore(inside)
    truncate(BEST)
    command = offered(["generate", RUN, "--prompt", "the"], capsys)
    assert command[:2] == ["train", f"resume_from={RUN}"]

    assert main(command) == 0
    assert load_run(RUN).selection.step == 3, "the one validation that was left to select"
    assert main(["generate", RUN, "--prompt", "the", "--max-new-tokens", "2"]) == 0


@pytest.mark.slow
def test_where_training_cannot_go_on_a_new_run_starts_from_the_selected_weights(
    inside: dict[Path, bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    restore(inside)
    truncate(LAST)
    command = offered(["train", f"resume_from={RUN}", "trainer.max_steps=3"], capsys)
    assert command == ["train", "--from-run", RUN, f"init_from={RUN}"]
    assert main([*command, "output_dir=new"]) == 0
    assert load_run(next(Path("new").glob("*/*/record.json"))).status == "finished"


@pytest.mark.slow
def test_a_run_without_a_whole_checkpoint_is_trained_again(
    inside: dict[Path, bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    restore(inside)
    truncate(BEST)
    truncate(LAST)
    assert main(["evaluate", RUN]) == 2
    assert f"or train the run again: `h2h train --from-run {RUN}`" in capsys.readouterr().err
