"""Every benchmark runs in its smallest form: what it measures is no test's, that it still measures is this one's."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from warm_commands import h2h

FOLDER = Path(__file__).parents[1] / "benchmarks"
SMALLEST: dict[str, list[str]] = {
    "all_mixers.py": ["--rounds=1", "--lengths", "16"],
    "answers.py": [],
    "anytime.py": [],
    "busy_core.py": ["--rounds=1", "--steps=2"],
    "coverage.py": [],
    "cross_entropy.py": ["--rounds=1"],
    "data_loading.py": ["--rounds=1", "--tokens=50000"],
    "dependencies.py": [],
    "generation.py": ["--rounds=1", "--vocabularies", "512"],
    "known_answers.py": ["--help"],
    "linear_mixers.py": ["--rounds=1", "--lengths", "16", "32"],
    "long_rows.py": ["short_conv", "--length=64"],
    "many_runs.py": ["--rounds=1", "--arms=4", "--short=2"],
    "many_workers.py": ["--runs=20", "--workers", "2", "--claims", "leases"],
    "overhead.py": ["--rounds=1", "--steps=2"],
    "plans_checked.py": ["--cases=0"],
    "preparing.py": ["--rows=50", "--words=50"],
    "published_runs.py": [],
    "records.py": ["--rounds=1", "--records=10"],
    "scans.py": ["--help"],
    "speed_page.py": ["--help"],
    "windows.py": ["--rounds=1", "--lengths", "64", "--window", "16"],
}
"""The arguments of each; those that take minutes whatever they are given show their help, and the modules they need."""
IN_THE_GATE = ("data_loading.py", "many_workers.py", "overhead.py", "preparing.py", "windows.py")


def test_every_benchmark_has_a_smallest_form() -> None:
    assert SMALLEST.keys() == {file.name for file in FOLDER.glob("*.py")} - {"whole_processes.py"}, "which others call"


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in IN_THE_GATE else pytest.param(name, marks=pytest.mark.whole) for name in SMALLEST]
)
def test_a_benchmark_runs(name: str, tmp_path: Path) -> None:
    if name == "scans.py" and find_spec("mambapy") is None:
        pytest.skip("mambapy is not installed: pip install headtohead[bench]")
    beside = f"import sys; sys.path.insert(0, {str(FOLDER)!r})"
    done = h2h(*SMALLEST[name], folder=tmp_path, program=FOLDER / name, first=beside)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout, done.stderr
