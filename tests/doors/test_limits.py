"""Sizes that exceed every machine are refused at once, in one sentence."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
import torch

from from_fields import from_fields
from headtohead.cli import main
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.memory_limits import MemoryNeeds, check_memory
from headtohead.data.batches.image_decoding import pixels_of
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.errors import UsageError
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.training import memory

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "trainer.threads=1000000"], "trainer.threads=1000000 is refused: it must be at least 1 and at most"),
        (["train", "trainer.num_workers=100000"], "trainer.num_workers=100000 is refused"),
        (["train", "model.d_model=1e9"], "model.d_model=1000000000.0 is refused"),
        (["inspect", "model.d_model=1e18"], "model.d_model=1e+18 is refused"),
        (["inspect", "model.num_layers=1000000000"], "model.num_layers=1000000000 is refused"),
        (["train", "-m", "seed=range(0)"], "seed=range(0) holds no value at all"),
        (["train", "-m", "seed=range(1000000000)"], "these are more than 10,000 combinations"),
        (["train", "-m", "optimizer.lr=range(0,1,0)"], "optimizer.lr=range(0,1,0) is refused"),
        (
            ["evaluate", "RUN", "--lengths", "4,8", "--plot", "x.xyz"],
            "--plot: 'x.xyz' is not a picture: end its name with",
        ),
        (["coordinates", "--plot", "."], "--plot: '.' is not a picture"),
        (["inspect", "data=text", "data.path=/dev/null"], "data.path=/dev/null is neither a file nor a folder"),
        (["bench", "bench.lengths=[]"], "bench.lengths=[] is refused: it must be a list with at least one entry"),
        (["train", "data.batch_size=1e12"], "data.batch_size=1000000000000.0 is refused"),
        (["train", "seed=-1"], "seed=-1 is refused"),
        (["train", "name=''"], "name='' is refused: it must be text that is not empty"),
        (["train", "output_dir=''"], "output_dir='' is refused: it must be text that is not empty"),
        (["train", "resume_from=''"], "resume_from='' is refused"),
        (["train", "seed=1" + "0" * 4999], "seed is refused: a number of 5000 digits is given"),
        (["generate", "RUN", "--max-new-tokens", "99999999999"], "--max-new-tokens: 99999999999 is refused"),
        (["generate", "RUN", "--beams", "100000"], "--beams: 100000 is refused"),
        (["generate", "RUN", "--temperature", "inf"], "--temperature: inf is refused"),
        (["generate", "RUN", "--seed", "-1"], "--seed: -1 is refused"),
        (["train", "--take-over"], "--take-over is for resuming a run"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_what_no_machine_can_bear_is_refused_in_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and sentence in error and error.count("\n") == 1


def test_a_training_that_needs_more_than_the_machine_has_is_refused_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "data=digits", "task=image_classification", "model=mlp", "model.d_model=1000000"]) == 2
    error = capsys.readouterr().err
    assert "GiB of memory (weights" in error and "choose a smaller model" in error
    assert not (tmp_path / "outputs").exists()


def test_what_is_not_free_now_is_a_warning_and_what_there_is_not_a_refusal(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headtohead.config.rules.memory_limits.memory_limit", lambda _: 2**30)
    monkeypatch.setattr("headtohead.config.rules.memory_limits.free_memory", lambda _: 2**29)
    check_memory(MemoryNeeds(2**27, 2**27, 2**27), CPU)
    assert caplog.text == ""
    check_memory(MemoryNeeds(2**27, 2**27, 2**29), CPU)
    assert "0.5 GiB are free now" in caplog.text
    with pytest.raises(ConfigurationError, match=r"1\.0 GiB: lower data\.batch_size"):
        check_memory(MemoryNeeds(2**27, 2**27, 2**30), CPU)
    with pytest.raises(ConfigurationError, match="choose a smaller model"):
        check_memory(MemoryNeeds(2**29, 2**30, 0), CPU)
    with pytest.raises(ConfigurationError, match=r"3\.0 GiB of memory"):
        check_memory(MemoryNeeds(2**29, 2**28, 0), CPU, processes=4)


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ("0::/box/run", {"box/memory.max": "1000", "box/memory.current": "400", "box/run/memory.max": "max"}),
        (
            "4:memory:/box\n1:cpu:/",
            {"memory/box/memory.limit_in_bytes": "1000", "memory/box/memory.usage_in_bytes": "400"},
        ),
    ],
    ids=["v2", "v1"],
)
def test_the_limit_of_a_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str]
) -> None:
    for name, text in {"own": groups, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "_OWN_CGROUPS", tmp_path / "own")
    assert memory.memory_limit(CPU) == 1000 and memory.free_memory(CPU) == 600


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("about:\n  - 1\n", "about is [1]"), ("about:\n", "about is null"), ("about:\n  a: [\n", "is not YAML")],
)
def test_a_choice_of_data_that_says_odd_things_of_itself_is_refused(
    text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.yaml").write_text(f"name: x\n{text}")
    assert main(["list", "data", "--config-dir", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "mine.yaml" in error and sentence in error and error.count("\n") == 1


def test_a_table_of_200_000_columns_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "wide.csv"
    file.write_text(",".join(f"c{number}" for number in range(200_000)) + "\n")
    with pytest.raises(UsageError, match=r"wide\.csv has 200,000 columns, and 4,096 are the most"):
        from_fields(CsvFiles, path=str(file)).column_names(file)


def test_an_image_of_900_million_pixels_is_refused() -> None:
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    chunks = {b"IHDR": header, b"IDAT": zlib.compress(b"")}
    png = b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks.items()
    )
    with pytest.raises(UsageError, match=r"bomb\.png has more pixels than a picture of a data set"):
        pixels_of(b"\x89PNG\r\n\x1a\n" + png, 32, "rgb", "bomb.png")


def test_a_run_folder_that_was_renamed_is_gone_on_with_under_its_own_name(tmp_path: Path) -> None:
    folder = RunFolder.create_at(tmp_path / "mine-1")
    folder.write_record(RunRecord(id="mine-1"))
    folder.release()
    renamed = folder.path.rename(tmp_path / "other")
    with pytest.raises(UsageError, match=r"holds the run mine-1 under another name: rename the folder to mine-1"):
        RunFolder.resume(renamed)
    RunFolder.resume(renamed.rename(tmp_path / "mine-1")).release()
