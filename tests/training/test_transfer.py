"""An encoder that has read stories learns from few examples whether two sentences belong to one, and an encoder that
has read nothing does not: the purpose of fine-tuning."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

import headtohead as h2h
from headtohead.data.generated.stories import NEXT, story_pairs
from headtohead.records.record import RunRecord

MODEL = [
    "model=encoder_only", "model.d_model=64", "model.num_layers=2", "model.num_heads=4", "model/position=learned",
    "trainer=cpu", "trainer.threads=1", "trainer.progress_bar=false", "tracking=none", "probe.at_end=false",
    "data.batch_size=32", "data.vocab_size=700",
]  # fmt: skip
READING = [
    "task=masked_lm", "task.mask_rate=0.3", "data=text", "data.documents=line", "data.packing=none",
    "data.context_length=40", "data.tokenizer=bpe", "optimizer.lr=0.003", "schedule.minimum=0.05",
    "trainer.max_steps=1000", "trainer.validate_every=500",
]  # fmt: skip
DECISIVE = [
    "task=classification", "data=pair_grammar", "data.relation=next", "data.num_train=400", "data.num_validation=300",
    "data.num_test=500", "optimizer.lr=0.001", "trainer.max_steps=120", "trainer.validate_every=40",
]  # fmt: skip
SEEDS = (0, 1, 2)
MEASURED = """Five seeds, with ATEN_CPU_CAPABILITY=default, avx2 and the processor's own (AMX) each, got 0.636 to
0.720 and 0.460 to 0.520; the three worst and the three best of these fifteen lie 0.12 apart."""


def trained(folder: Path, *overrides: str) -> RunRecord:
    record = h2h.train(h2h.compose("train", [*MODEL, *overrides, f"output_dir={folder}"]))
    assert record.status == "finished", record.reason
    return record


@pytest.mark.whole
@pytest.mark.slow
def test_an_encoder_that_was_trained_before_learns_from_examples_that_teach_a_new_one_nothing(tmp_path: Path) -> None:
    """Both with 120 steps over 400 labelled pairs; the stories were read without labels, drawn by another seed."""
    stories = tmp_path / "stories.txt"
    message = (f"{first} {second}" for first, second, label in story_pairs(np.random.default_rng(5)) if label == NEXT)
    stories.write_text("\n".join(islice(message, 6000)) + "\n", encoding="utf-8")
    read = trained(tmp_path, *READING, f"data.path={stories}")
    fine_tuned, from_scratch = (
        mean(trained(tmp_path, *DECISIVE, f"seed={seed}", *start).metrics["test"]["accuracy"] for seed in SEEDS)
        for start in ([f"init_from=run:{read.path}"], [])
    )
    assert from_scratch < 0.6, "four hundred pairs say little about a hundred ways to go on"
    assert fine_tuned > from_scratch + 0.07, MEASURED
