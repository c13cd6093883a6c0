"""A published checkpoint asked for classes without training, against `transformers`' own model of the same weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Library

import headtohead as h2h
from from_fields import from_fields
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.tasks.prompt_templates import texts_of
from pretrained.published_folders import END, write_gpt2

WORDS = ["bad", "good"]


@pytest.mark.slow
def test_zero_shot_of_a_published_checkpoint_is_what_its_own_library_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    published = tmp_path / "gpt2"
    theirs = write_gpt2(published).double()
    overrides = [
        f"init_from=hf:{published}", "model=decoder_only", "data=sentence_grammar", "data.num_train=20",
        "data.num_validation=5", "data.num_test=30", "task=multiple_choice", "task.template='{text} so {label}'",
        f"task.label_words=[{','.join(WORDS)}]", "trainer=cpu", "trainer.max_steps=0", "trainer.progress_bar=false",
        "trainer.num_samples=0", "probe=none", "tracking=none", f"output_dir={tmp_path}",
    ]  # fmt: skip
    record = h2h.train(h2h.compose("train", overrides))
    library = Library.from_file(str(published / "tokenizer.json"))
    end = library.token_to_id(END)
    data = from_fields(SentenceGrammar, num_train=20, num_validation=5, num_test=30)
    batch = data.split("test").batch(np.arange(30))
    assert batch.targets is not None
    scores = np.zeros((30, 2))
    for row, (text,) in enumerate(texts_of(batch, data.spec())):
        before = [end, *library.encode(f"{text} so").ids]
        for index, word in enumerate(WORDS):
            after = library.encode(f" {word}").ids
            with torch.no_grad():
                shares = theirs(torch.tensor([[*before, *after]])).logits[0].log_softmax(-1)
            scores[row, index] = sum(float(shares[len(before) - 1 + at, token]) for at, token in enumerate(after))
    truth = batch.targets.numpy()
    assert record.progress.step == 0 and record.status == "finished"
    assert record.metrics["test"]["accuracy"] == pytest.approx((scores.argmax(1) == truth).mean())
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert record.metrics["test"]["loss"] == pytest.approx(-np.log(shares[np.arange(30), truth]).mean(), rel=1e-4)
