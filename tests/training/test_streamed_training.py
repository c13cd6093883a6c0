"""Training on a stream: stopped and resumed, here and on another machine, by one process and by several."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headtohead as h2h
from headtohead.data.batches.batch import Batch
from headtohead.data.streaming.streamed_corpus import StreamedRows
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from hub_server import hub_of
from published_sets.corpora import write_fineweb_edu
from training.runs import curve
from waiting import PATIENCE

SMALL = [
    "data=fineweb_edu", "data.num_validation=20", "data.num_test=20", "data.num_learned=200", "data.tokenizer=byte",
    "data.vocab_size=null", "data.context_length=32", "data.batch_size=8", "data.lanes=4", "data.shuffle_buffer=200",
    "model=decoder_only", "model.d_model=16", "model.num_layers=1", "model.num_heads=2", "task=causal_lm",
    "trainer.max_steps=12", "trainer.validate_every=5", "trainer.log_every=1", "trainer.accelerator=cpu",
    "trainer.threads=1", "trainer.progress_bar=false", "optimizer.lr=0.01", "tracking=none", "probe=none",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fineweb_edu")
    write_fineweb_edu(root)
    return root


def trained(folder: Path, outputs: Path, *more: str) -> RunRecord:
    return h2h.train(h2h.compose("train", [*SMALL, f"data.folder={folder}", f"output_dir={outputs}", *more]))


def stopped_at(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person presses Ctrl-C while that train batch is read; only once."""
    read, seen = StreamedRows.batch, 0

    def watched(split: StreamedRows, rows: np.ndarray) -> Batch:
        nonlocal seen
        seen += 1
        if seen == batch:
            os.kill(os.getpid(), signal.SIGINT)
        return read(split, rows)

    monkeypatch.setattr(StreamedRows, "batch", watched)


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_stream_that_was_stopped_goes_on_with_equal_losses(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """The run is stopped in the middle of an epoch, between two validations; elsewhere: nothing of its caches is
    left."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    whole = trained(folder, tmp_path)
    with monkeypatch.context() as patch:
        stopped_at(8, patch)
        first = trained(folder, tmp_path)
    assert first.status == "interrupted" and first.reason == "stopped by SIGINT" and 5 < first.progress.step < 10
    if elsewhere:
        monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "other"))
    else:
        for shards in (tmp_path / "cache").glob("stream_units/*/*.arrow"):
            shards.unlink()
    second = trained(folder, tmp_path, f"resume_from={first.path}")
    assert second.status == "finished" and second.id == first.id
    for name in ("train/loss", "validation/loss", "test/loss", "test/bits_per_byte"):
        assert len(curve(whole.path, name)) >= 1 and curve(second.path, name) == curve(whole.path, name)
    assert second.metrics == whole.metrics


@pytest.mark.slow
def test_arms_of_one_seed_read_the_same_rows_whatever_their_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []
    read = StreamedRows.batch

    def noted(split: StreamedRows, rows: np.ndarray) -> Batch:
        seen[-1] += rows.tolist()
        return read(split, rows)

    monkeypatch.setattr(StreamedRows, "batch", noted)
    for arm in (("seed=1",), ("seed=1", "model/mixer=retention", "model/position=none"), ("seed=2",)):
        seen.append([])
        trained(folder, tmp_path, "trainer.max_steps=4", *arm)
    same, also, other = (rows[-32:] for rows in seen)
    assert same == also != other


@pytest.mark.slow
def test_a_stream_is_read_over_the_hub_as_from_a_copy_of_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Piece by piece: no file of it is fetched as a whole."""
    copied = trained(folder, tmp_path)
    caches = tmp_path / "caches"
    with hub_of({"HuggingFaceFW/fineweb-edu": folder}, monkeypatch, caches):
        config = h2h.compose("train", [*SMALL, "data.revision=main", f"output_dir={tmp_path}"])
        streamed = h2h.train(config)
    assert curve(streamed.path) == curve(copied.path) and streamed.metrics == copied.metrics
    assert not list(caches.rglob("*.parquet"))


@pytest.mark.slow
@pytest.mark.process
def test_two_devices_with_two_loader_processes_each_train_on_what_one_process_reads(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    alone = trained(folder, tmp_path)
    shutil.rmtree(tmp_path / "cache")
    overrides = [each for each in SMALL if not each.startswith("trainer.accelerator")]
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom headtohead.cli import main\n\nif __name__ == '__main__':\n    sys.exit(main())\n"
    )
    more = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2", "trainer.num_workers=2"]
    more += [f"data.folder={folder}", f"output_dir={tmp_path}", "group=together"]
    subprocess.run([sys.executable, str(program), "train", *overrides, *more], check=True, timeout=PATIENCE)
    (run,) = (tmp_path / "together").iterdir()
    together = RunFolder.open(run).read_record()
    assert together.status == "finished" and together.progress.tokens == alone.progress.tokens
    assert np.allclose(curve(together.path), curve(alone.path), rtol=1e-4)
    assert together.metrics["test"]["loss"] == pytest.approx(alone.metrics["test"]["loss"], rel=1e-4)
