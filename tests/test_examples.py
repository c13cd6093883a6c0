"""The notebooks run from top to bottom, and each cell that shows something shows it in few lines and as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebooks import code_cells, run_notebook

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    shown = [value for value in run_notebook(notebook) if value is not None]
    results = [value for value in shown if hasattr(value, "_repr_html_") and hasattr(value, "to_frame")]
    assert results and all(len(repr(value).splitlines()) < 25 for value in results)
    assert not any(getattr(value, "broken", ()) for value in results), "a law of the mixer fails"
    assert not any(getattr(value, "failures", ()) for value in results), "a run fails"
    assert not any("neither learned the task" in repr(value) for value in results), "what is shown learns nothing"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_shown_and_holds_no_outputs_of_a_machine(notebook: Path) -> None:
    assert f"examples/{notebook.name}" in README and len(NOTEBOOKS) == 5
    assert all(len(line) <= 120 for cell in code_cells(notebook) for line in cell.splitlines())
