"""Runs that read the same texts in different tokens: what their records tell, and by what they are compared."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import headtohead as h2h
from headtohead.comparison.comparability import NotComparable
from headtohead.data.row_formats.text_source import TextSource
from headtohead.data.tokenizers import Tokenizer, train_tokenizer
from headtohead.records.record import RunRecord

WORDS = ["The old Teacher", "a Sailor", "the queen", "sees", "hears", "praises", "the Café", "a naïve dog", "the sea"]
TOKENIZERS = {"char": "char", "bpe": "bpe", "wordpiece": "wordpiece", "given": "{folder}/tokenizer"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, chance = tmp_path_factory.mktemp("tales"), np.random.default_rng(0)
    lines = ["  ".join(chance.choice(WORDS, size=6).tolist()) + "." for _ in range(400)]
    (folder / "tales.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "tokenizer").mkdir()
    learned = train_tokenizer("wordpiece", lines, 120)
    (folder / "tokenizer" / "tokenizer.json").write_text(learned.merges, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def records(folder: Path) -> dict[str, RunRecord]:
    """Not trained at all."""
    return {
        name: h2h.train(
            h2h.compose("train", [
                "data=text", f"data.path={folder}/tales.txt", "data.documents=line", "data.context_length=32",
                "data.packing=none", f"data.tokenizer={tokenizer.format(folder=folder)}", "data.batch_size=16",
                "model/size=tiny", "model.d_model=16", "model.num_heads=2", "model.num_layers=1",
                "trainer.accelerator=cpu", "trainer.max_steps=0", "tracking=none", "probe=none", f"name={name}",
                "trainer.num_samples=0", "trainer.progress_bar=false", f"output_dir={folder}/outputs",
            ])
        )
        for name, tokenizer in TOKENIZERS.items()
    }  # fmt: skip


@pytest.mark.slow
def test_records_tell_how_texts_are_read(folder: Path, records: dict[str, RunRecord]) -> None:
    for record in records.values():
        data, run = record.data, h2h.load_run(record.path)
        facts = json.loads((record.path / "tokenizer.json").read_text(encoding="utf-8"))
        assert isinstance(run.data, TextSource)
        tokenizer, texts = Tokenizer.from_dict(facts), run.data.samples()["test"]
        tokens = [len(tokenizer.encode_one(text)) for text in texts]
        size = sum(len(text.encode()) for text in texts)
        assert data["vocab_size"] == tokenizer.vocab_size and data["tokenizer"] == tokenizer.kind
        assert data["bytes_per_token"]["test"] == pytest.approx(size / sum(tokens), abs=1e-4)
        unknown = sum(tokenizer.encode_one(text).count(tokenizer.special.unk) for text in texts)
        assert data["unknown_share"]["test"] == unknown / sum(tokens)
    assert records["bpe"].data["bytes_per_token"]["test"] > 2 > records["char"].data["bytes_per_token"]["test"]


@pytest.mark.slow
def test_bits_per_byte_are_those_of_the_text_for_every_tokenizer(records: dict[str, RunRecord]) -> None:
    """Loss times tokens over ln 2 and bytes; an end token is predicted for every document, too."""
    for record in records.values():
        source = h2h.load_run(record.path).data
        assert isinstance(source, TextSource)
        texts = source.samples()["test"]
        size = sum(len(text.encode()) for text in texts)
        tokens = round(size / record.data["bytes_per_token"]["test"]) + len(texts)
        bits = record.metrics["test"]["loss"] * tokens / math.log(2) / size
        assert record.metrics["test"]["bits_per_byte"] == pytest.approx(bits, rel=2e-3)


def test_losses_of_different_tokens_are_refused_and_bits_per_byte_compared(records: dict[str, RunRecord]) -> None:
    paths = [record.path for record in records.values()]
    with pytest.raises(NotComparable, match="compare them by bits_per_byte, which no tokenizer changes"):
        h2h.compare(paths, against="char", metric="test/loss")
    comparison = h2h.compare(paths, against="char", metric="test/bits_per_byte")
    (message,) = [remark for remark in comparison.remarks if remark.startswith("read by different tokenizers")]
    assert "char of" in message and "wordpiece of" in message and "bytes per token" in message


def test_a_run_keeps_the_tokenizer_that_it_was_given(folder: Path, records: dict[str, RunRecord]) -> None:
    path = folder / "tokenizer" / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    path.unlink()
    try:
        data = h2h.load_run(records["given"].path).data
        assert data.spec().tokenizer_hash == records["given"].comparability.tokenizer
    finally:
        path.write_text(text, encoding="utf-8")
