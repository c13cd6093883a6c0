"""Published sets from the hub to a metric: fetched, trained on, and measured as scikit-learn measures the raw rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

import headtohead as h2h
from headtohead.cli import main
from headtohead.config.compose.choices import config_folder
from headtohead.config.origins.from_weights import build_data
from headtohead.records.record import RunRecord
from hub_server import HubServer, hub_of
from published_sets.classification import write_ag_news, write_glue, write_imdb, write_sst2

TINY = [
    "model=encoder_only", "task=classification", "model.d_model=16", "model.num_layers=1", "model.num_heads=2",
    "model/position=sinusoidal", "data.batch_size=8", "data.vocab_size=300", "trainer.max_steps=12",
    "trainer.validate_every=12", "trainer.accelerator=cpu", "trainer.threads=1", "trainer.progress_bar=false",
    "optimizer.lr=0.01", "tracking=none", "probe=none", "group=published",
]  # fmt: skip
RAW = {
    "sst2": ("stanfordnlp/sst2", "data/validation-00000-of-00001.parquet", ["sentence"]),
    "mnli": ("nyu-mll/glue", "mnli/validation_matched-00000-of-00001.parquet", ["premise", "hypothesis"]),
    "ag_news": ("fancyzhx/ag_news", "data/test-00000-of-00001.parquet", ["text"]),
    "imdb": ("stanfordnlp/imdb", "plain_text/test-00000-of-00001.parquet", ["text"]),
}
"""Repository, the file of the test rows, the columns of their texts."""
every_set = pytest.mark.parametrize("name", ["sst2", "mnli", "ag_news"])


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServer]:
    folders = {repository: tmp_path_factory.mktemp(name) for name, (repository, _, _) in RAW.items()}
    write_sst2(folders["stanfordnlp/sst2"])
    write_glue(folders["nyu-mll/glue"], subsets=["mnli"])
    write_ag_news(folders["fancyzhx/ag_news"])
    write_imdb(folders["stanfordnlp/imdb"])
    commits = {RAW[name][0]: revision_of(name) for name in RAW}
    caches = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch, hub_of(folders, patch, caches, commits) as server:
        yield server


@pytest.fixture(scope="module")
def records(hub: HubServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunRecord]:
    outputs = tmp_path_factory.mktemp("outputs")
    return {
        name: h2h.train(h2h.compose("train", [f"data={name}", *TINY, f"output_dir={outputs}"]))
        for name in ("sst2", "mnli", "ag_news")
    }


def revision_of(name: str) -> str:
    lines = (config_folder() / "data" / f"{name}.yaml").read_text().splitlines()
    return next(line.removeprefix("revision: ") for line in lines if line.startswith("revision: "))


@pytest.mark.slow
@every_set
def test_metrics_of_the_test_are_those_of_the_raw_rows(
    name: str, records: dict[str, RunRecord], hub: HubServer
) -> None:
    record = records[name]
    assert record.path is not None
    repository, path, columns = RAW[name]
    raw = parquet.read_table(hub.folders[repository] / path).to_pylist()
    run = h2h.load_run(record.path)
    batch = build_data(run.config).split("test").batch(np.arange(len(raw)))
    assert batch.tokens is not None
    with torch.no_grad():
        guessed = run.model(**batch.inputs()).argmax(dim=-1).numpy()
    labels = np.array([row["label"] for row in raw])
    assert record.metrics["test"]["accuracy"] == pytest.approx(accuracy_score(labels, guessed), abs=1e-6)
    macro = f1_score(labels, guessed, average="macro", zero_division=0.0)
    assert record.metrics["test"]["f1_macro"] == pytest.approx(macro, abs=1e-6)
    described = build_data(run.config).describe(batch)
    for shown, row in zip(described, raw, strict=True):
        assert shown["text"].strip() == row[columns[0]].strip()


@pytest.mark.slow
@every_set
def test_a_record_says_where_its_rows_were_published(name: str, records: dict[str, RunRecord]) -> None:
    message = records[name].data
    assert (message["set"], message["revision"]) == (RAW[name][0], revision_of(name))
    assert message["licence"] in ("unknown", "other") and message.get("subset") == ("mnli" if name == "mnli" else None)


def test_a_run_is_measured_on_a_set_that_it_was_not_trained_on(
    records: dict[str, RunRecord], hub: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = records["sst2"].path
    assert path is not None
    hub.requested.clear()
    assert main(["evaluate", str(path), "data=imdb", "--json"]) == 0
    output = capsys.readouterr()
    assert hub.requests_of("GET", "plain_text/test-")
    ((result,),) = [message["points"] for message in json.loads(output.out)]
    run = h2h.load_run(path)
    other = build_data({**run.config, "data": {**run.config["data"], **_imdb(hub)}, "init_from": str(path)})
    batch = other.split("test").batch(np.arange(20))
    with torch.no_grad():
        guessed = run.model(**batch.inputs()).argmax(dim=-1).numpy()
    raw = parquet.read_table(hub.folders[RAW["imdb"][0]] / RAW["imdb"][1]).to_pylist()
    assert result["metrics"]["accuracy"] == pytest.approx(
        accuracy_score([row["label"] for row in raw], guessed), abs=1e-6
    )


def _imdb(hub: HubServer) -> dict[str, object]:
    return {"name": "stanfordnlp/imdb", "revision": revision_of("imdb"), "text_column": "text", "test_split": "test"}


@pytest.mark.slow
def test_other_classes_are_refused_and_other_names_for_them_told(
    records: dict[str, RunRecord], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = str(records["sst2"].path)
    assert main(["evaluate", path, "data=ag_news"]) == 2
    assert "World, Sports, Business, Sci/Tech, and this run was trained on negative" in capsys.readouterr().err
    assert main(["evaluate", path, "data=imdb"]) == 0
    assert "neg, pos, and this run was trained on negative, positive: they are matched" in caplog.text
    caplog.clear()
    assert main(["evaluate", path, "data=imdb", "data.class_names=[positive,negative]"]) == 2
    assert "in another order: give data.class_names=[negative,positive]" in capsys.readouterr().err
    assert main(["evaluate", path, "data=imdb", "data.class_names=[negative,positive]"]) == 0
    assert "matched" not in caplog.text


def test_a_task_for_other_kinds_is_refused_in_one_sentence(
    hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "data=sst2", "task=causal_lm", "tracking=none", f"output_dir={tmp_path}"]) == 2
    message = capsys.readouterr().err
    assert "task=causal_lm reads data of kind language" in message and "data=sst2 is labelled_text" in message


def test_a_set_without_a_task_brings_that_of_its_kind_and_a_model_for_it(caplog: pytest.LogCaptureFixture) -> None:
    config = h2h.compose("train", ["data=sst2"])
    assert (config["choices"]["task"], config["choices"]["model"]) == ("classification", "encoder_only")
    assert "data=sst2 is labelled_text: task=classification model=encoder_only" in caplog.text
    assert h2h.compose("train", ["data=mnli", "model=recurrent"])["choices"]["model"] == "recurrent"
    for streamed in (["data=imagenet"], ["data=stream_images", "data.name=owner/set"]):
        config = h2h.compose("train", streamed)
        assert (config["choices"]["task"], config["choices"]["model"]) == ("image_classification", "vision_transformer")
    named = ["data=hub", "data.name=owner/set", "data.source_column=de", "data.target_column=en"]
    config = h2h.compose("train", named)
    assert (config["choices"]["task"], config["choices"]["model"]) == ("seq2seq", "encoder_decoder")
    assert h2h.compose("train", ["data=sst2", "task=masked_lm", "model=encoder_only"])["choices"]["task"] == "masked_lm"


@pytest.mark.parametrize("name", ["sst2", "ag_news"])
def test_a_set_by_its_name_in_the_hub_says_which_task_reads_it(
    name: str, hub: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing but the name is given: columns, their kind and the splits are found, the task is requested by name."""
    splits = [] if name == "ag_news" else ["data.test_split=validation", "data.validation_split=share"]
    provided = ["train", "data=hub", f"data.name={RAW[name][0]}", f"data.revision={revision_of(name)}", *splits]
    assert main([*provided, "tracking=none"]) == 2
    message = capsys.readouterr().err
    assert "data=hub is labelled_text" in message and "another task, task=classification" in message
