"""A process that is forked from one that tokenized tokenizes too, though the threads for it stayed behind."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
import yaml

from headtohead.data.tokenizers import Tokenizer, TokenizerName, train_tokenizer
from headtohead.records.run_folder import scan
from studies.small_studies import WRITTEN
from warm_commands import h2h

pytestmark = [pytest.mark.process, pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")]
TEXTS = [f"row {number} of a text, with words and some more of them" for number in range(40)]
LONGEST = 60.0
"""Seconds after which a process waits for threads that it does not have."""


def tokenize(tokenizer: Tokenizer, kind: TokenizerName) -> None:
    """Do again all that takes threads: encode, and learn."""
    assert len(tokenizer.encode(TEXTS)) == len(TEXTS)
    train_tokenizer(kind, TEXTS, 300)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_a_process_that_is_forked_after_tokenizing_tokenizes(kind: TokenizerName) -> None:
    tokenizer = train_tokenizer(kind, TEXTS, 300)
    tokenizer.encode(TEXTS)
    process = multiprocessing.get_context("fork").Process(target=tokenize, args=(tokenizer, kind))
    process.start()
    process.join(LONGEST)
    code = process.exitcode
    process.kill()
    process.join()
    assert code == 0, "it waits for ever" if code is None else "it failed"


@pytest.mark.slow
def test_a_worker_that_prepared_the_texts_itself_has_runs_that_read_others(tmp_path: Path) -> None:
    """A worker alone, as on a cluster, prepares what it compares; its runs start from a tokenizer of another."""
    rows = [f"{text},{'good' if number % 2 else 'bad'}" for number, text in enumerate(TEXTS)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *(row.replace(", ", " ") for row in rows)]) + "\n")
    base = [
        *("data=csv", f"data.path={tmp_path / 'texts.csv'}", "data.vocab_size=300", "model=decoder_only"),
        *(
            "task=classification",
            "data.validation_share=0.2",
            "data.test_share=0.2",
            "data.batch_size=4",
            "model.d_model=8",
        ),
        *("model.num_layers=1", "model.num_heads=1", "trainer.accelerator=cpu", "trainer.max_steps=2"),
        *("trainer.validate_every=2", "trainer.num_samples=0", "tracking=none", "probe=none"),
        f"output_dir={tmp_path / 'out'}",
    ]
    reader = ["task=causal_lm", "data.text_column=text", "data.label_column=null", "data.context_length=16"]
    study = {
        **WRITTEN,
        "base": base,
        "seeds": 1,
        "foundations": {"reader": reader},
        "baseline": "scratch",
        "arms": {"scratch": [], "smooth": ["task.label_smoothing=0.1"], "read": ["init_from=foundation:reader"]},
    }
    (tmp_path / "texts.yaml").write_text(yaml.safe_dump(study))
    environment = {**os.environ, "HEADTOHEAD_CACHE": str(tmp_path / "cache")}
    environment.pop("TOKENIZERS_PARALLELISM", None)
    done = h2h("study", tmp_path / "texts.yaml", "--worker", "--threads", "1", environment=environment)
    assert done.returncode == 0, done.stderr
    assert [(record.status, record.reason) for record in scan(tmp_path / "out")] == [("finished", None)] * 4
