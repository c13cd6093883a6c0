"""Every family, task and kind of checkpointing trains compiled to the losses of eager, or is refused beforehand."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from headtohead.config.compose.choices import choices
from headtohead.training.loop import compiled_model
from training import compiled_runs
from training.compiled_runs import CASES, CHECKPOINTING, FAMILIES, TASKS
from warm_commands import h2h

NATIVE = ("model=mlp", "checkpointing=full", "model=cnn")
"""Those that are compiled to machine code too: linear layers, which takes a quarter of a minute, and attention with
layers that are recomputed and convolutions, which take a minute each and are `whole`."""


def found_by(folder: Path, backend: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    environment |= {"HEADTOHEAD_CACHE": str(folder / "cache"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    done = h2h(folder, backend, *names, program=Path(compiled_runs.__file__), environment=environment)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line.pop("case"): line for line in lines}


LATER = {
    *(
        "model=qwen3_next",
        "model=kimi_linear",
        "model=bamba",
        "model=jamba",
        "model=mlp",
        "model=text_cnn",
        "model=recurrent_encoder_decoder",
        "task=tagging",
        "task=similarity",
    ),
    *("model=switch_transformers", "model=fnet", "model=modernbert", "model=convnext", "model=ngpt", "model=swin"),
    *("model=resnet", "task=masked_lm_next_sentence", "task=seq2seq_one_row", "task=multiple_choice", "task=span_qa"),
    *("task=span_corruption_one_row", "task=compression", "task=replaced_token_detection", "task=contrastive_pairs"),
    *("task=seq2seq_at_once", "task=classification", "experts", "experts, in every second layer", "batch_norm"),
    *("model=bag_of_words", "model=recurrent_gemma", "task=multi_token_prediction", "task=span_corruption"),
    *("task=masked_image_modeling", "checkpointing=full", "experts, recomputed"),
    *("model=external", "model=recurrent", "model=encoder_only"),
    *("checkpointing=every_k", "checkpointing=none", "batch_norm, recomputed", "values of the first layer"),
    *(name for name in CASES if name.startswith("task=") and CASES[name] in FAMILIES.values()),
}
"""Cases whose parts others of the gate have too; `make laws-long` compiles them."""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.whole) if name in LATER else name for name in CASES]
)
def test_compiled_losses_are_those_of_eager(case: str, tmp_path: Path) -> None:
    """Graphs are compiled whose forward and backward passes are run operation by operation: what compiling changes of a
    computation happens there, and machine code takes ten times as long to make."""
    result = found_by(tmp_path, "aot_eager", [case])[case]
    assert result.get("compiled") == pytest.approx(result.get("eager"), rel=1e-5), result
    assert result["graphs"] > 0, "something was compiled"


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("names", [NATIVE[:1], pytest.param(NATIVE, marks=pytest.mark.whole)])
def test_machine_code_gives_the_losses_of_eager_and_is_kept_for_the_next_run(
    names: Sequence[str], tmp_path: Path
) -> None:
    for result in found_by(tmp_path, "inductor", names).values():
        assert result["compiled"] == pytest.approx(result["eager"], rel=1e-5)
    left = set((tmp_path / "cache" / "compiled").rglob("*.so"))
    assert left, "code lies in the cache of the project"
    found_by(tmp_path, "inductor", NATIVE[:1])
    assert set((tmp_path / "cache" / "compiled").rglob("*.so")) == left, "a second run of the same shapes makes none"


def test_every_family_task_and_kind_of_checkpointing_is_tried() -> None:
    assert set(FAMILIES) == {choice.name for choice in choices("model")}
    assert set(TASKS) == {choice.name for choice in choices("task")}
    refused = {"offload"}  # see tests/config/test_baseline_refusals.py
    assert set(CHECKPOINTING) == {choice.name for choice in choices("checkpointing")} - refused


def test_a_run_says_that_it_compiles_and_how_long_it_did(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(Path(gettempdir()) / "torchinductor_me"))  # as torch has it
    monkeypatch.setenv("HEADTOHEAD_CACHE", "somewhere")
    report: Any = compiled_model.CompilingReport()
    with caplog.at_level(logging.INFO, logger="headtohead"):
        report.on_train_start(None, None)
        assert "waits for the compiler" in caplog.text and str(Path("somewhere") / "compiled") in caplog.text
        for _ in range(2):
            report.on_train_batch_end(None, None, None, None, 0)
    assert caplog.text.count("the first step took") == 1


def test_code_lies_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "mine")
    assert compiled_model.compiled_code() == "mine"
