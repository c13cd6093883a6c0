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
from safetensors import safe_open

import headtohead as h2h
from fresh_runs import ROWS
from headtohead.api import compose
from headtohead.cli import main
from headtohead.records.keeping.archive import archive
from headtohead.records.record import Comparability, Progress, RunRecord, RunTiming
from headtohead.records.run_folder import RunFolder
from headtohead.studies.definition.read_study_file import read_study
from headtohead.studies.planning.registration import register
from headtohead.studies.planning.study_plan import StudyPlanner
from headtohead.wandb_client.transaction_log import _joined
from published_sets.writing import write_card, write_parquet

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
from headtohead.components.mixers.recurrent.minimal_rnns import MinGru


class Mine(MinGru):
    pass
"""
RUN, OTHER, STUDY_FOLDER = "outputs/one/run", "outputs/two/run", "outputs/studies/asked"
ARCHIVED = "archived/run"
VISION = "vision/one/run"
PICTURES = (
    "task=image_classification", "model=vision_transformer", "data=image_folder", "data.path=images",
    "data.image_size=8", "model.patch_size=4", *SMALL[3:6], *SMALL[8:],
)  # fmt: skip


def build() -> None:
    """Fill the working folder."""
    _train(Path(RUN), *SMALL)
    _record_alone(Path(OTHER))
    _archived(Path(ARCHIVED))
    _tables()
    _train(Path(VISION), *PICTURES)
    _published()
    _of_wandb(Path(RUN))
    _conf()
    _study()


def _train(folder: Path, *overrides: str) -> None:
    own = ["trainer.max_steps=2", "trainer.validate_every=1", "trainer.keep_checkpoints=all", "output_dir=made"]
    record = h2h.train(compose("train", [*overrides, *own]))
    assert record.path is not None and record.status == "finished", record.reason
    folder.parent.mkdir(parents=True)
    record.path.rename(folder)
    shutil.rmtree("made")
    record.id = folder.name
    run = RunFolder(folder.absolute())
    run.write_record(record)
    run.release()


def _record_alone(folder: Path, **fields: Any) -> None:
    """A run as if it had been trained, without weights."""
    run = RunFolder.create_at(folder)
    known = {"status": "finished", "config": compose("train", [*SMALL]), **fields}
    record = RunRecord(id=run.id, name=folder.name, progress=Progress(step=2, flops=1e6), **known)
    record.timing = RunTiming("2026-01-01T00:00:00+00:00", "2026-01-01T00:01:00+00:00")
    record.comparability = Comparability(evaluation="e")
    record.metrics = {"validation": {"loss": 1.0}, "test": {"loss": 1.0 + len(str(folder)) / 100}}
    run.write_record(record)
    for step in (1, 2):
        run.log(Progress(step, 0, 8 * step, 1e6, 0.1), {"train/loss": 2.0 / step, "validation/loss": 2.0 / step})
    run.release()


def _archived(folder: Path) -> None:
    _record_alone(folder)
    (folder / "tables").mkdir()
    (folder / "tables" / "samples.csv").write_text("text,said\na,b\n" * 99)
    archive(folder)


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
    Path("judged.tsv").write_text("1\t2\n")
    Path("mine.py").write_text(MIXER)

    Path("notes.csv").write_text("id,text\n1,anna bought a violin .\n2,birds sleep .\n")
    Path("notes.jsonl").write_text('{"_id": "1", "text": "anna bought a violin ."}\n')
    Path("queries.jsonl").write_text('{"_id": "1", "text": "who sleeps"}\n')
    Path("synonyms.tsv").write_text("line\trow\tcourse\n")
    Path("pairs").mkdir()
    for ending in ("de", "en"):
        Path(f"pairs/train.{ending}").write_text("".join(f"line {row}\n" for row in range(40)))


def _published() -> None:
    """A checkpoint in the hub's form, whole and in parts, and a set as the hub has it."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(["export", RUN, "--to", "hub", "--out", "hub"]) == 0
    shutil.copytree("hub", "hub-in-parts")
    weights = Path("hub-in-parts/model.safetensors").rename("hub-in-parts/model-1.safetensors")
    with safe_open(weights, "pt") as file:
        index = {"weight_map": dict.fromkeys(file.keys(), weights.name)}
    Path("hub-in-parts/model.safetensors.index.json").write_text(json.dumps(index))
    rows = [{"text": f"number {row} is here", "label": row % 2} for row in range(40)]
    write_parquet(Path("published/data/train-00000-of-00001.parquet"), rows)
    write_card(Path("published"), {"configs": [{"config_name": "default", "data_files": "data/train-*"}]})

    from datasets import ClassLabel, Features, Image

    features = Features({"image": Image(), "label": ClassLabel(names=["no", "yes"])})
    content = Path("images/no/1.png").read_bytes()
    for split, size in (("train", 40), ("test", 4)):
        of_split = [{"image": {"bytes": content, "path": None}, "label": row % 2} for row in range(size)]
        write_parquet(Path(f"pictured/data/{split}-00000-of-00001.parquet"), of_split, features)
    splits = [{"split": split, "path": f"data/{split}-*"} for split in ("train", "test")]
    write_card(Path("pictured"), {"configs": [{"config_name": "default", "data_files": splits}]})


def _of_wandb(run: Path) -> None:
    """W&B's file of a run that was offline; its client, a process of its own, would write the same."""
    from wandb.proto.wandb_internal_pb2 import Record

    begun, row = Record(), Record()
    begun.run.run_id, begun.run.project = "abc", "mine"
    row.history.step.num = 1
    item = row.history.item.add()
    item.key, item.value_json = "train/loss", "2.0"
    folder = run / "wandb" / "offline-run-20260101_000000-abc"
    folder.mkdir(parents=True)
    records = with_records_of([begun.SerializeToString(), row.SerializeToString()])
    (folder / "run-abc.wandb").write_bytes(records)


def with_records_of(records: list[bytes]) -> bytes:
    return b":W&B" + (0xBEE1).to_bytes(2, "little") + b"\0" + _joined(records)


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
    plan = StudyPlanner(read_study("asked", config_dir="conf"), "conf").plan()
    register(plan)
    for run in plan.runs:
        _record_alone(plan.run_folder(run), config=dict(run.config), place=run.place, seed=run.seed, group="asked")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(["study", "asked", "--config-dir", "conf"]) in (0, 1)
    assert Path(STUDY_FOLDER, "verdict.json").is_file()
