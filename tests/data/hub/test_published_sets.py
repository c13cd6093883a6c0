"""Every published set of conf/data: pinned, documented, and read from a small repository of its exact schema."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from data.small_sources import CONF
from headtohead.config.compose.composition import compose
from headtohead.config.origins.from_weights import build_data
from headtohead.data.data_source import SPLIT_NAMES
from headtohead.data.sources.hub.dataset_reference import is_commit
from headtohead.data.sources.hub.hub_tables import HubTables
from published_sets import all_sets

ABOUT = ("task", "size", "licence", "card")
FILES = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(CONF.glob("*.yaml"))}
PUBLISHED = {name: content for name, content in FILES.items() if content.get("about")}
every_set = pytest.mark.parametrize("name", PUBLISHED)


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Write each small repository once."""
    written: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in written:
            written[name] = tmp_path_factory.mktemp(name)
            all_sets()[name](written[name])
        return written[name]

    return of


def test_small_repositories_are_those_of_the_yaml_files() -> None:
    assert sorted(all_sets()) == sorted(PUBLISHED)


@every_set
def test_set_is_pinned_and_told_of(name: str) -> None:
    content = PUBLISHED[name]
    assert is_commit(str(content["revision"])), "a published set names a commit, which never changes"
    about = content["about"]
    assert tuple(about) == ABOUT and all(isinstance(text, str) and text for text in about.values())
    assert about["card"] == f"https://huggingface.co/datasets/{content['name']}"
    assert len(about["task"]) <= 16 and len(about["size"]) <= 32 and len(about["licence"]) <= 20


def rewrite(file: Path, column: str, alike: int) -> Any:
    """Give so many consecutive rows one value."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(file)
    message = pa.array([f"{column} {row // alike}" for row in range(len(table))])
    table = table.set_column(table.schema.get_field_index(column), column, message)
    parquet.write_table(table, file)
    return table


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("mnli", ["premise"]),
        ("mnli_mismatched", ["premise"]),
        ("qnli", ["question", "sentence"]),
        ("rte", ["sentence1"]),
        ("wnli", ["sentence1"]),
    ],
)
def test_rows_about_one_text_are_on_one_side(name: str, columns: list[str], repository: Any, tmp_path: Path) -> None:
    """Three consecutive rows share one text, in place of the small repositories' own."""
    shutil.copytree(repository(name), tmp_path, dirs_exist_ok=True)
    (file,) = (tmp_path / PUBLISHED[name]["subset"]).glob("train-*")
    for column in columns:
        rewrite(file, column, 3)
    source = build_data(compose("train", [f"data={name}", f"data.folder={tmp_path}", "data.validation_share=0.2"]))
    assert isinstance(source, HubTables)
    samples = source.samples()
    part = list(source.chosen[1].values()).index(columns[0])
    train, validation = ({sample[part] for sample in samples[split]} for split in ("train", "validation"))
    assert train and validation and not train & validation
    assert set(Counter(sample[part] for sample in samples["validation"]).values()) == {3}


@pytest.mark.parametrize("name", ["squad", "squad_v2"])
def test_questions_about_one_article_are_on_one_side(name: str, repository: Any, tmp_path: Path) -> None:
    """Every article has two paragraphs of three questions."""
    shutil.copytree(repository(name), tmp_path, dirs_exist_ok=True)
    (file,) = tmp_path.rglob("train-*")
    rows = rewrite(file, "title", 6).to_pylist()
    title_of = {row["context"]: row["title"] for row in rows}
    source = build_data(compose("train", [f"data={name}", f"data.folder={tmp_path}", "data.validation_share=0.2"]))
    assert isinstance(source, HubTables)
    train, validation = (
        {title_of[one.context] for one in source.samples()[split]} for split in ("train", "validation")
    )
    assert train and validation and not train & validation


@every_set
def test_set_is_read_from_files_of_its_schema(name: str, repository: Any) -> None:
    source = build_data(compose("train", [f"data={name}", f"data.folder={repository(name)}"]))
    spec = source.spec()
    for split in SPLIT_NAMES:
        rows = source.split(split)
        assert len(rows) > 0
        batch = rows.batch(np.arange(min(4, len(rows))))
        assert batch.num_samples == min(4, len(rows))
    message, content = source.provenance(), PUBLISHED[name]
    assert (message["set"], message["revision"]) == (content["name"], content["revision"])
    assert spec.data_hash
