"""Bytes of a checkpoint that are not those that were written are found before anything is made of them."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
import torch

import headtohead as h2h
from fresh_runs import ROWS
from headtohead.cli import main
from headtohead.errors import UsageError
from headtohead.training.checkpoints import BEST, LAST, last_step, load, save

FLIPPED = 64
SMALL = [*ROWS, "model.num_layers=1", "model.d_model=16", "model.num_heads=2", "data.tokenizer=byte", "tracking=none"]
SHORT = [*SMALL, "trainer.max_steps=1", "trainer.keep_checkpoints=all", "trainer.accelerator=cpu"]


def flip(path: Path, *, part: str, at: int = 0) -> None:
    """Flip all bits of 64 bytes inside one part of the file."""
    with zipfile.ZipFile(path) as parts:
        result = next(one for one in parts.infolist() if one.filename.endswith(part))
    content = bytearray(path.read_bytes())
    extra = int.from_bytes(content[result.header_offset + 28 : result.header_offset + 30], "little")
    start = result.header_offset + 30 + len(result.filename.encode()) + extra + at
    for position in range(start, start + min(FLIPPED, result.file_size - at)):
        content[position] ^= 0xFF
    path.write_bytes(content)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "checkpoints" / LAST
    save({"state_dict": {"weight": torch.randn(300), "bias": torch.randn(50)}, "run": {"step": 7}}, path)
    return path


@pytest.mark.parametrize("part", ["data/0", "data/1", "data.pkl", "byteorder", "version"])
@pytest.mark.parametrize("reads", [load, lambda path: last_step(path.parents[1])], ids=["whole", "its step alone"])
def test_flipped_bytes_in_any_part_are_refused_by_the_name_of_the_file(
    part: str, reads: object, checkpoint: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "checkpoints" / LAST
    copy.parent.mkdir()
    copy.write_bytes(checkpoint.read_bytes())
    assert callable(reads) and reads(copy)
    flip(copy, part=part)
    with pytest.raises(UsageError, match=rf"{copy} is damaged.*{part}"):
        reads(copy)


def test_a_compressed_checkpoint_is_refused_before_it_fills_the_memory(checkpoint: Path, tmp_path: Path) -> None:
    copy = tmp_path / LAST
    with zipfile.ZipFile(checkpoint) as parts, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as packed:
        for part in parts.namelist():
            packed.writestr(part, parts.read(part))
    with pytest.raises(UsageError, match=f"{copy} is compressed"):
        load(copy)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = h2h.train(h2h.compose("train", [*SHORT, f"output_dir={tmp_path_factory.mktemp('outputs')}"])).path
    assert folder is not None
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "generate {run} --prompt the --max-new-tokens 1",
        "evaluate {run}",
        "export {run} --to safetensors",
        "probe {run} --text the",
        "embed {run} texts.txt",
        "train init_from=run:{run} " + " ".join(SMALL),
        "train resume_from={run} trainer.max_steps=2",
    ],
)
def test_every_command_that_reads_weights_refuses_flipped_ones(
    command: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    Path("texts.txt").write_text("the old teacher\nthe cat\n")
    run = Path(shutil.copytree(trained, trained.name))
    for name in (BEST, LAST):
        flip(run / "checkpoints" / name, part="data/0")
    assert main(command.format(run=run).split()) == 2
    message = capsys.readouterr().err
    assert "checkpoints/" in message and "is damaged" in message and "Traceback" not in message
