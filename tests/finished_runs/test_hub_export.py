"""Runs in the hub's format: `transformers` reads them back with the run's own logits, or there is a reason why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertForMaskedLM,
    BertForSequenceClassification,
    GPT2LMHeadModel,
    PreTrainedModel,
)

from fresh_runs import ROWS, fresh_run
from headtohead.cli import main
from headtohead.finished_runs.export_run import export
from headtohead.finished_runs.finished_run import FinishedRun

GPT2 = [*ROWS, "data.context_length=16", "data.tokenizer=char", "model/position=learned", "model/feedforward=gelu_tanh"]
BERT = [
    "model=encoder_only", *ROWS, "data.context_length=16", "data.tokenizer=char", "model/position=learned",
    "model/residual=post", "model.norm.eps=1e-12", "model.embedding_norm=true", "model.num_segments=2",
    "model.pooling=cls", "model.pooler=tanh", "model.head_bias=true",
]  # fmt: skip
RUNS: dict[type[PreTrainedModel], list[str]] = {
    GPT2LMHeadModel: GPT2,
    BertForMaskedLM: [*BERT, "task=masked_lm"],
    BertForSequenceClassification: [*BERT[:2], "task=classification", "data=sentence_grammar", *BERT[6:]],
}


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))


def rows_of(run: FinishedRun) -> torch.Tensor:
    size, length = run.config["model"]["vocab_size"], run.config["model"]["max_length"]
    return torch.randint(0, size, (3, min(9, length)), generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
@pytest.mark.parametrize("there", RUNS)
def test_transformers_reads_a_run_back_with_its_logits(there: Any, tmp_path: Path) -> None:
    run = fresh_run(tmp_path, *RUNS[there])
    result = export(run, "hub", tmp_path / "published")
    assert all(row.difference < 1e-5 for row in result.rows)
    reference, message = there.from_pretrained(tmp_path / "published", output_loading_info=True)
    assert not any(message[kind] for kind in ("unexpected_keys", "mismatched_keys"))
    tokens = rows_of(run)
    with torch.no_grad():
        torch.testing.assert_close(run.model(tokens), reference.eval()(tokens).logits, rtol=0, atol=5e-5)
    assert json.loads((tmp_path / "published" / "config.json").read_text())["architectures"] == [there.__name__]


def test_the_command_writes_what_transformers_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = fresh_run(tmp_path, *GPT2)
    assert main(["export", str(run.folder), "--to", "hub"]) == 0
    shown, folder = capsys.readouterr(), run.folder / "export" / "hub"
    assert "difference" in shown.out and "config.json" in shown.err
    assert {"config.json", "model.safetensors", "export.json"} <= {file.name for file in folder.iterdir()}


def test_a_run_that_no_form_can_say_is_refused_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fresh_run(tmp_path, *GPT2, "model/mixer=retention")
    assert main(["export", str(run.folder), "--to", "hub"]) == 2
    message = capsys.readouterr().err
    assert "no form of the hub can represent this model" in message and "Retention" in message
    assert not (run.folder / "export" / "hub").exists()
