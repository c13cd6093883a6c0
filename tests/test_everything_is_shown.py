"""Nothing lies in the repository that no page, command or help names: every example shown is one that is held."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
HELP = "\n".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "src/headtohead/cli").rglob("*.py")))


def is_named(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


@pytest.mark.parametrize("file", sorted((ROOT / "conf/experiment").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_experiment_is_shown(file: Path) -> None:
    assert is_named(file.stem, SHOWN)


@pytest.mark.parametrize("file", sorted((ROOT / "conf/study").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_study_is_shown(file: Path) -> None:
    assert is_named(file.stem, SHOWN)


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda file: file.name)
def test_every_benchmark_stands_beside_its_numbers(file: Path) -> None:
    assert f"benchmarks/{file.name}" in SHOWN


@pytest.mark.parametrize("file", sorted((ROOT / "sweeps").glob("*.yaml")), ids=lambda file: file.name)
def test_every_sweep_file_is_shown(file: Path) -> None:
    assert f"sweeps/{file.name}" in SHOWN + HELP


def test_no_run_lies_among_the_tests() -> None:
    assert [*(ROOT / "tests").rglob("*.ckpt"), *(ROOT / "tests").rglob("metrics.csv")] == []
