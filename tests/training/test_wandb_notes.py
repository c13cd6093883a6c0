"""Notes that W&B's users set in the environment are in the record, with W&B or without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headtohead.training.run_recorder import RunRecorder
from training.runs import parts


def test_notes_of_the_environment_are_in_the_record_unless_some_were_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_NOTES", "why")
    for typed, saved in ((None, "why"), ("mine", "mine")):
        made = parts(tmp_path / str(typed))
        made = replace(made, identity=replace(made.identity, notes=typed))
        session = RunRecorder.open(made, torch.device("cpu"), "float32")
        assert session.record.notes == saved
