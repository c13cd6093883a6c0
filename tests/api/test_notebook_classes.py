"""Classes of a notebook are known by their source, built in this process, and said to be of no use elsewhere."""

from __future__ import annotations

import linecache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headtohead as h2h
from headtohead.api.defined_here import target_of
from headtohead.api.study_definition import arm_overrides
from headtohead.config.compose.composition import compose_checked
from headtohead.config.run_id import run_id
from headtohead.execution import monitor

CELL = """
from torch import nn
WIDTH = 8
class Layer(nn.Linear):
    pass
class Mine(nn.Module):
    def __init__(self, vocabulary: int = 64):
        super().__init__()
        self.read, self.write = nn.Embedding(vocabulary, WIDTH), Layer(WIDTH, vocabulary)
    def forward(self, tokens):
        return self.write(self.read(tokens))
def made():
    return Mine(vocabulary=64)
"""
SMALL = [
    "data=copy", "data.num_train=64", "data.num_validation=8", "data.num_test=8", "trainer=cpu", "trainer.max_steps=2",
    "trainer.validate_every=2", "tracking=none", "probe=none", "trainer.num_samples=0", "trainer.keep_checkpoints=none",
]  # fmt: skip


def notebook(text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run a cell as a notebook does: its code has a file name that only linecache knows."""
    name = f"<cell {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = ModuleType("a_notebook")
    monkeypatch.setitem(__import__("sys").modules, "a_notebook", scope)
    exec(compile(text, name, "exec"), vars(scope))
    return vars(scope)


def run_id_of(made: Any) -> str:
    return run_id(compose_checked("train", [*arm_overrides(made), *SMALL]))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
def test_the_same_source_is_the_same_run_and_an_edited_one_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (run_id_of(notebook(CELL, monkeypatch)["Mine"]) for _ in range(2))
    edits = {"self.write(self.read(tokens))": "2 * self.write(self.read(tokens))", "WIDTH = 8": "WIDTH = 16"}
    edits["class Layer(nn.Linear):\n    pass"] = "class Layer(nn.Linear):\n    bias_starts = 0"
    edited = {run_id_of(notebook(CELL.replace(old, new), monkeypatch)["Mine"]) for old, new in edits.items()}
    assert first == again and len(edited | {first}) == 4


@pytest.mark.slow
def test_a_study_of_them_runs_in_this_process_and_its_records_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = notebook(CELL, monkeypatch)
    question = h2h.Study(
        name="own", question="?", arms={"mine": cell["Mine"], "made": cell["made"]}, base=SMALL, seeds=2
    )
    with pytest.raises(ValueError, match="workers cannot import"):
        h2h.study(question, workers=2)
    outcome = h2h.study(question, progress=False)
    assert outcome.complete and len(outcome.runs()) == 4 and outcome.verdicts[0].arm == "made"
    record = outcome.results.records[0]
    assert "cannot be run again elsewhere" in (record.notes or "") and len(record.environment.modules) == 1
    assert "environment" not in " ".join(outcome.remarks)
    assert len(repr(outcome).splitlines()) < 12 and "<table>" in outcome._repr_html_()
    assert set(outcome.curve("validation/loss")["arm"]) == {"mine", "made"}
    assert outcome.report().is_file() and outcome.plot().data


def test_a_class_without_a_source_is_refused() -> None:
    made = type("Unwritten", (), {"__module__": "__main__"})
    with pytest.raises(ValueError, match="cannot be read"):
        target_of(made)
    with pytest.raises(ValueError, match="no name of its own"):
        target_of(lambda: None)


@pytest.mark.slow
def test_an_interrupted_study_keeps_what_is_done_and_the_same_call_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = notebook(CELL, monkeypatch)
    question = h2h.Study(
        name="cut", question="?", arms={"mine": cell["Mine"], "made": cell["made"]}, base=SMALL, seeds=1
    )
    real, calls = monitor.train_run, []

    def interrupted_at_the_second(*provided: Any) -> None:
        calls.append(provided)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*provided)

    monkeypatch.setattr(monitor, "train_run", interrupted_at_the_second)
    first = h2h.study(question, progress=False)
    assert not first.complete and list(first.runs()["status"]) == ["finished", "missing"] and "not done" in repr(first)
    again = h2h.study(question, progress=False)
    assert again.complete and len(calls) == 3


@pytest.mark.slow
def test_a_mixer_of_a_notebook_is_checked_and_takes_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention\n"
        'class OwnAttention(SoftmaxAttention):\n    """Attention by another name."""\n'
    )
    own = notebook(text, monkeypatch)["OwnAttention"]
    question = h2h.Study(name="slot", question="?", arms={"own": [own, "model/norm=rms_norm"], "usual": []}, base=SMALL)
    overrides = question.fields()["arms"]["own"]
    config = h2h.compose("train", [*SMALL, *overrides], question.config_dir)
    assert config["model"]["mixer"]["_target_"].endswith(".OwnAttention")
    assert type(h2h.build_model(config).get_submodule("stack.blocks.0.mixer")).__name__ == "OwnAttention"
