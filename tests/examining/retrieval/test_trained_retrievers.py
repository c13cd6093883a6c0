"""A run that learned which sentence goes on with a story finds those that do, where no word is shared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead import api
from headtohead.cli import main

SMALL = [
    "model.d_model=64", "model.num_layers=2", "trainer.accelerator=cpu", "trainer.progress_bar=false", "tracking=none",
    "probe=none",
]  # fmt: skip


@pytest.mark.slow
def test_pairs_that_were_learned_rank_continuations_that_bm25_cannot_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Muon leaves the plateau of this task early; AdamW does so after 400 to 900 steps, as it is rounded."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    steps = ["optimizer=muon", "trainer.max_steps=300", "trainer.validate_every=300", f"output_dir={tmp_path}"]
    record = api.train(api.compose("train", ["experiment=sentence_pairs", *SMALL, *steps]))
    assert main(["embed", "--generate", "continuations", str(tmp_path / "set")]) == 0
    capsys.readouterr()
    corpus, queries, qrels = (str(tmp_path / "set" / name) for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv"))
    asked = ["embed", str(record.path), corpus, "--queries", queries, "--relevant", qrels, "--k", "10"]
    assert main([*asked, "--cross-encoder", str(record.path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    rows = {row["stage"]: row for row in shown["retrievers"] if row["run"] or row["name"] == "bm25"}
    chance = shown["chance"]
    assert rows[""]["recall@10"] < chance["recall@10"], "what shares no word is not found"
    judged = rows["retrieval_judged"]
    assert judged["mrr@10"] > 0.95 and judged["ndcg@10"] > 0.8 > 2 * chance["ndcg@10"]
    assert judged["differences"]["mrr@10"]["low"] > 0.4
