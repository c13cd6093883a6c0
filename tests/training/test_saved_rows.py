"""Runs keep the sums of every test row, and of them every metric is made again: whatever the task, at any length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headtohead import api
from headtohead.config.build import build_parts
from headtohead.records.row_sums import read_rows

SMALL = [
    "data.batch_size=8", "trainer.accelerator=cpu", "trainer.max_steps=1", "trainer.validate_every=1",
    "trainer.progress_bar=false", "tracking=none", "probe=none", "trainer.num_samples=0", "data.num_train=64",
    "data.num_validation=16", "data.num_test=21", "trainer.keep_checkpoints=none",
]  # fmt: skip
MODEL = ["model.d_model=16", "model.num_layers=1", "model.num_heads=2"]
TASKS = {
    "answers": ["data=copy", "data.length=6", "evaluation.lengths=[2]", *MODEL],
    "text": ["data=grammar_lm", "data.context_length=16", *MODEL],
    "masked": ["task=masked_lm", "model=encoder_only", "data=grammar_lm", "data.context_length=16", *MODEL],
    "classes": ["task=classification", "model=encoder_only", "data=sentence_grammar", *MODEL],
    "words": ["task=multiple_choice", "model=decoder_only", "data=sentence_grammar", *MODEL],
    "scores": ["task=similarity", "model=encoder_only", "data=similarity_grammar", *MODEL],
    "tags": ["task=tagging", "model=encoder_only", "data=tagging_grammar", *MODEL],
    "pairs": ["task=masked_lm_next_sentence", "model=encoder_only", "data=pair_grammar", "data.relation=next", *MODEL],
    "questions": ["task=span_qa", "model=encoder_only", "data=qa_grammar", *MODEL],
    "targets": ["task=seq2seq", "model=encoder_decoder", "data=reverse", "data.form=pairs", *MODEL],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", TASKS)
def test_the_rows_of_a_run_make_its_metrics_again(kind: str, tmp_path: Path) -> None:
    config = api.compose("train", [*SMALL, f"output_dir={tmp_path}", *TASKS[kind]])
    ratios = build_parts(config).task.row_ratios
    record = api.train(config)
    assert record.status == "finished" and record.path is not None, record.reason
    stages = [stage for stage in record.metrics if stage.startswith("test")]
    assert stages and (kind != "answers" or "test_2x" in stages)
    for stage in stages:
        result = read_rows(record.path, stage)
        assert result is not None and np.array_equal(result.rows, np.arange(len(result.rows)))
        message = {name: value for name, value in record.metrics[stage].items() if name in ratios}
        assert message and message.keys() == result.ratios.keys()
        for name, value in message.items():
            above, below = result.of(name) or (np.zeros(1), np.zeros(1))
            assert above.sum(dtype=np.float64) / below.sum(dtype=np.float64) == pytest.approx(value, rel=1e-5), name
