"""Every published set of conf/data: pinned, documented, and read from a small repository of its exact schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from data.small_sources import CONF
from headtohead.building.build import build_data
from headtohead.building.configuration import compose
from headtohead.data.contracts import SPLIT_NAMES
from headtohead.data.hub.published import is_commit
from published_sets import all_sets

ABOUT = ("task", "size", "licence", "card")
FILES = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(CONF.glob("*.yaml"))}
PUBLISHED = {name: content for name, content in FILES.items() if content.get("about")}
every_set = pytest.mark.parametrize("name", PUBLISHED)


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Writes each small repository once."""
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


@every_set
def test_set_is_read_from_files_of_its_schema(name: str, repository: Any) -> None:
    source = build_data(compose("train", [f"data={name}", f"data.folder={repository(name)}"]))
    spec = source.spec()
    for split in SPLIT_NAMES:
        rows = source.split(split)
        assert len(rows) > 0
        batch = rows.batch(np.arange(min(4, len(rows))))
        assert batch.num_samples == min(4, len(rows))
    told, content = source.provenance(), PUBLISHED[name]
    assert (told["set"], told["revision"]) == (content["name"], content["revision"])
    assert spec.data_hash
