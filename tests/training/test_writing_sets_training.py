"""Published translations and summaries from the hub to a metric: fetched, trained on, searched with beams, and measured
as sacrebleu and rouge_score measure what was written beside the raw rows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

import headtohead as h2h
from headtohead.config.compose.choices import config_folder
from hub_server import hub_of
from published_sets.writing_tasks import SETS, SIZES

TINY = [
    "model=encoder_decoder", "task=seq2seq", "task.beams=3", "task.text_metrics=[bleu,chrf,rouge]", "model.d_model=32",
    "model.num_layers=1", "model.num_heads=2", "data.batch_size=16", "data.vocab_size=300", "trainer.max_steps=30",
    "trainer.validate_every=30", "trainer.accelerator=cpu", "trainer.threads=1", "trainer.progress_bar=false",
    "trainer.num_samples=0", "trainer.keep_checkpoints=none", "optimizer.lr=0.01", "tracking=none", "probe=none",
]  # fmt: skip

RAW = {
    "wmt14": ("wmt/wmt14", "de-en/test-00000-of-00001.parquet", "translation.de"),
    "cnn_dailymail": ("abisee/cnn_dailymail", "3.0.0/test-00000-of-00001.parquet", "highlights"),
    "xsum": ("EdinburghNLP/xsum", "data/test-00000-of-00001.parquet", "summary"),
    "multi30k": ("bentrevett/multi30k", "test.jsonl", "en"),
}
"""Repository, the file of the test rows, and where in it the texts to be written are."""


def raw_texts(folder: Path, file: str, column: str) -> list[str]:
    """Read without any code of the package."""
    if file.endswith(".jsonl"):
        return [json.loads(line)[column] for line in (folder / file).read_text(encoding="utf-8").splitlines()]
    name, _, below = column.partition(".")
    values = parquet.read_table(folder / file).column(name).to_pylist()
    return [value[below] if below else value for value in values]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["wmt14", *(pytest.param(name, marks=pytest.mark.slow) for name in RAW if name != "wmt14")]
)
def test_from_raw_rows_to_figures(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, file, column = RAW[name]
    folder = tmp_path / "repository"
    SETS[name](folder)
    revision = _revision(name)
    with hub_of({repository: folder}, monkeypatch, tmp_path / "cache", {repository: revision}):
        record = h2h.train(h2h.compose("train", [f"data={name}", *TINY, f"output_dir={tmp_path}/outputs"]))
    assert record.status == "finished" and record.path is not None, record.reason
    result = json.loads((Path(record.path) / "predictions/written.json").read_text(encoding="utf-8"))
    truths = raw_texts(folder, file, column)
    assert [one["truth"] for one in result.values()] == truths and len(truths) == SIZES["test"]
    written, figures = [one["written"] for one in result.values()], record.metrics["test"]
    bleu = sacrebleu.corpus_bleu(written, [truths], smooth_method="none", force=True)
    assert figures["bleu"] == pytest.approx(bleu.score / 100, abs=1e-9)
    assert figures["chrf"] == pytest.approx(sacrebleu.corpus_chrf(written, [truths]).score / 100, abs=1e-9)
    assert figures["chrf"] > 0.05, "something is learned of the words that are common"
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"])
    scores = [scorer.score(_in_lines(truth), _in_lines(text)) for truth, text in zip(truths, written, strict=True)]
    for measure in scores[0]:
        expected = sum(score[measure].fmeasure for score in scores) / len(scores)
        assert figures[measure] == pytest.approx(expected, abs=1e-6)


def _in_lines(text: str) -> str:
    """A sentence a line, as rouge_score wants them."""
    return text.replace(". ", ".\n")


def _revision(name: str) -> str:
    lines = (config_folder() / "data" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith("revision:"))
