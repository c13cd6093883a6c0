"""The dashboard's door: whatever one run's files hold, every question is answered and all other runs are shown."""

from __future__ import annotations

import json
import random
from pathlib import Path
from urllib.parse import quote

import pytest

from doors.damage import damage
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from served_runs import message, requested, served, written_run

_FILES = ("record.json", "metrics.csv", "leases/writer.1", "tables/1/samples.csv", "attention/1/head.png")
_STUDY = ("verdict.json", "report.html")
_VIEWS = ("/api/runs", "/api/runs?filter=status=running&group=name&sort=train/loss", "/api/start", "/api/fields")


def build(root: Path) -> list[RunFolder]:
    """Three runs with files of each kind, and a study."""
    runs = [written_run(root, name=f"run {number}") for number in range(3)]
    for run in runs:
        for name in ("tables/1/samples.csv", "attention/1/head.png"):
            (run.path / name).parent.mkdir(parents=True)
            (run.path / name).write_text("text,said\na,b\n")
    study = root / "studies" / "asked"
    study.mkdir(parents=True)
    (study / "verdict.json").write_text(json.dumps({"study": {"question": "Is it?"}, "verdicts": []}))
    (study / "report.html").write_text("<p>yes</p>")
    return runs


def check(root: Path, file: Path, draw: random.Random) -> None:
    """Damage one file, and ask everything."""
    kind = damage(file, draw)
    runs = sorted(path.relative_to(root).as_posix() for path in root.glob("some/*"))
    with served(root) as dashboard:
        for path in [*_VIEWS, "/api/studies", "/report?study=asked", *_questions(runs)]:
            answer, body = requested(dashboard, path)
            assert answer.status in (200, 404), f"{kind} {file}: {path} is {answer.status}: {body[:500]!r}"
            if path == "/api/runs":
                listed = {key for key, _ in json.loads(body)["items"]}
        rows = message(dashboard, "/api/rows", run=runs)
    others = {run for run in runs if not file.is_relative_to(root / run)}
    assert others <= listed and others <= rows.keys(), f"{kind} {file}: {listed}, {set(rows)}"
    assert all(rows[run]["status"] == "running" for run in others), f"{kind} {file}"
    assert listed == set(runs) or file.name == "record.json"


def _questions(runs: list[str]) -> list[str]:
    kinds = (
        "/api/run?run={}",
        "/api/rows?run={}&group=model.d_model",
        "/api/differences?run={}",
        "/api/curves?metric=train/loss&run={}&file=0&offset=0",
        "/api/table?run={}&step=1&name=samples",
        "/picture?run={}&step=1&name=head",
    )
    return [kind.format(quote(run)) for run in runs for kind in kinds]


@pytest.mark.parametrize("number", range(10))
def test_one_odd_file_silences_no_other_run(number: int, tmp_path: Path) -> None:
    runs = build(tmp_path)
    name = (*_FILES, *_STUDY)[number % 7]
    folder = tmp_path / "studies" / "asked" if name in _STUDY else runs[0].path
    check(tmp_path, folder / name, random.Random(number))


def test_drawn_damage_silences_no_other_run(draw_seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw, runs = random.Random(f"page {draw_seed}"), build(tmp_path)
    name = draw.choice((*_FILES, *_FILES[:1], *_STUDY))
    folder = tmp_path / "studies" / "asked" if name in _STUDY else draw.choice(runs).path
    check(tmp_path, folder / name, draw)


def test_a_record_that_cannot_be_read_is_shown_with_the_reason(tmp_path: Path) -> None:
    run = written_run(tmp_path)
    (run.path / "record.json").write_text("[" * 100_000)
    with served(tmp_path) as dashboard:
        assert [key for key, _ in message(dashboard, "/api/runs")["items"]] == [f"some/{run.id}"]
        shown = message(dashboard, "/api/rows", run=f"some/{run.id}")[f"some/{run.id}"]
    assert shown["status"] == "unreadable" and "nested deeper than 100 levels" in json.dumps(shown)
    assert RunRecord(id=run.id).status == "running"
