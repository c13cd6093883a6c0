"""A working folder with a file of every kind that a command reads: runs, a study, tables, texts, conf files."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import yaml
from PIL import Image

import headtohead as h2h
from fresh_runs import ROWS
from headtohead.api import compose
from headtohead.cli import main
from headtohead.studying.planning import Planner
from headtohead.studying.reading import read_study
from headtohead.studying.registering import register
from headtohead.tracking.record import Comparability, Progress, RunRecord, Timing
from headtohead.tracking.store import RunFolder

SMALL = (
    *ROWS, "model.d_model=16", "model.num_heads=2", "model.num_layers=1", "data.tokenizer=char",
    "data.context_length=16", "trainer.accelerator=cpu", "trainer.progress_bar=false", "tracking=none", "probe=none",
    "trainer.num_samples=0",
)  # fmt: skip
STUDY = {
    "question": "Is b better than a?",
    "hypothesis": "It is.",
    "tuning": "none",
    "arms": {"a": ["model/norm=layer_norm"], "b": ["model/norm=rms_norm"]},
    "seeds": 2,
    "metric": "test/loss",
    "direction": "min",
    "baseline": "a",
    "base": [*SMALL, "trainer.max_steps=2"],
}
SWEEP = {
    "program": "h2h",
    "method": "grid",
    "metric": {"name": "validation/loss", "goal": "minimize"},
    "parameters": {"optimizer.lr": {"values": [0.001, 0.01]}},
    "command": ["${env}", "h2h", "train", *SMALL, "${args_no_hyphens}"],
}
MIXER = """
from headtohead.components.mixers.identity import Identity


class Mine(Identity):
    pass
"""
RUN, OTHER, STUDY_FOLDER = "outputs/one/run", "outputs/two/run", "outputs/studies/asked"


def build() -> None:
    """Fill the working folder."""
    _train(Path(RUN))
    _record_alone(Path(OTHER))
    _tables()
    _conf()
    _study()


def _train(folder: Path) -> None:
    own = ["trainer.max_steps=2", "trainer.validate_every=1", "trainer.keep_checkpoints=all", "output_dir=made"]
    record = h2h.train(compose("train", [*SMALL, *own]))
    assert record.path is not None and record.status == "finished", record.reason
    folder.parent.mkdir(parents=True)
    record.path.rename(folder)
    shutil.rmtree("made")
    record.id = folder.name
    RunFolder(folder.absolute()).write_record(record)


def _record_alone(folder: Path, **fields: Any) -> None:
    """A run as if it had been trained, without weights."""
    run = RunFolder.create_at(folder)
    known = {"status": "finished", "config": compose("train", [*SMALL]), **fields}
    record = RunRecord(id=run.id, name=folder.name, progress=Progress(step=2, flops=1e6), **known)
    record.timing = Timing("2026-01-01T00:00:00+00:00", "2026-01-01T00:01:00+00:00")
    record.comparability = Comparability(evaluation="e")
    record.metrics = {"validation": {"loss": 1.0}, "test": {"loss": 1.0 + len(str(folder)) / 100}}
    run.write_record(record)
    for step in (1, 2):
        run.log(Progress(step, 0, 8 * step, 1e6, 0.1), {"train/loss": 2.0 / step, "validation/loss": 2.0 / step})


def _tables() -> None:
    rows = [(f"number {row} is here", ("no", "yes")[row % 2]) for row in range(40)]
    Path("data.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    Path("data.jsonl").write_text("\n".join(lines) + "\n")
    Path("data.json").write_text(json.dumps([json.loads(line) for line in lines]))
    table = pa.table({"text": [text for text, _ in rows], "label": [label for _, label in rows]})
    pa.parquet.write_table(table, "data.parquet")
    Path("data.conll").write_text("\n\n".join("anna B-PER\nsleeps O" for _ in range(20)) + "\n")
    Path("book.txt").write_text("A line of text.\n" * 60)
    Path("prompts.txt").write_text("the\na cat\n")
    Path("results.csv").write_text(
        "arm,seed,loss\n" + "".join(f"{arm},{seed},{seed + 1}.{len(arm)}\n" for arm in ("a", "bb") for seed in range(3))
    )
    for label in ("no", "yes"):
        Path("images", label).mkdir(parents=True)
        for number in range(6):
            picture = np.full((8, 8, 3), 20 * number, dtype=np.uint8)
            Image.fromarray(picture).save(f"images/{label}/{number}.png")
    Path("notes").mkdir()
    Path("notes/birds.txt").write_text("anna bought a violin .\n\nbirds sleep .\n")
    Path("queries.tsv").write_text("1\twho sleeps\n")
    Path("relevant.tsv").write_text("1\tbirds.txt\n")
    Path("mine.py").write_text(MIXER)


def _conf() -> None:
    Path("conf/model/norm").mkdir(parents=True)
    Path("conf/study").mkdir()
    Path("conf/model/norm/ours.yaml").write_text(
        "# A norm of ours.\n_target_: headtohead.components.norms.RmsNorm\n_partial_: true\n"
    )
    Path("conf/study/asked.yaml").write_text(yaml.safe_dump(STUDY))
    Path("sweep.yaml").write_text(yaml.safe_dump(SWEEP))


def _study() -> None:
    """One whose runs are done, as their records say, and judged."""
    plan = Planner(read_study("asked", config_dir="conf"), "conf").plan()
    register(plan)
    for cell in plan.cells:
        _record_alone(plan.run_folder(cell), config=dict(cell.config), place=cell.place, seed=cell.seed, group="asked")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(["study", "asked", "--config-dir", "conf"]) in (0, 1)
    assert Path(STUDY_FOLDER, "verdict.json").is_file()
