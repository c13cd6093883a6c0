"""The studies below the folder: what each asked, what its verdicts say, and where its report is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.comparison.arm_colours import colour_slots
from headtohead.comparison.dashboard.served_folder import folders_in, is_inside
from headtohead.comparison.planned_runs import read_planned_runs, study_folder
from headtohead.comparison.study_board import board_of, current_registration
from headtohead.errors import UsageError
from headtohead.files.safe_read import read_object
from headtohead.records.record import VERDICT_FILE, RunRecord
from headtohead.records.run_summary import RunSummary

if TYPE_CHECKING:
    from headtohead.comparison.registered_answers import RegisteredAnswer

_REPORT, _FOLDER = "report.html", "studies"


def studies(
    root: Path, records: Sequence[RunRecord] = (), runs: Mapping[str, Sequence[RunSummary]] | None = None
) -> list[dict[str, Any]]:
    """Return one for each folder with a verdict or runs, by name; `records` tell which verdicts are out of date, `runs`
    by the names of folders how far each study is."""
    from headtohead.comparison.registered_answers import answers_of  # which imports numpy: the server starts without

    answers = answers_of(records)
    sentences = []
    for folder in folders_in(root, root / _FOLDER):
        study = _study(root, folder) | _board(root, folder, (runs or {}).get(folder.name, ()))
        behind = list(_behind(answers.get(folder), records, folder)) if "verdicts" in study else []
        sentences.append({**study, "remarks": [*behind, *study.get("remarks", ())]} if behind else study)
    return sentences


def report_of(root: Path, name: str) -> Path | None:
    """Return report.html of the study of this name."""
    for folder in folders_in(root, root / _FOLDER):
        file = folder / _REPORT
        if folder.name == name and file.is_file() and is_inside(root, file):
            return file
    return None


def _behind(answer: RegisteredAnswer | None, records: Sequence[RunRecord], folder: Path) -> Iterator[str]:
    """Yield why the verdicts of a folder are not those of its runs today."""
    if answer is None:
        return
    yield from (f"out of date: {why}" for why in answer.behind(records))
    planned = read_planned_runs(folder)
    judged = [record for record in records if record.id in answer.runs and study_folder(record) == folder]
    if not all(planned.has(record.id, record.timing.started) for record in judged):
        yield "out of date: these verdicts answer an older question than the one that was started last"


def _board(root: Path, folder: Path, runs: Sequence[RunSummary]) -> dict[str, object]:
    """Return the arms with one cell for each seed; nothing where neither runs nor a registration tell of any."""
    board = board_of(folder, runs)
    slots = colour_slots(board.arms)
    rows = [
        {
            "arm": arm,
            "slot": slots[arm],
            "cells": [
                [cell.status, round(cell.share, 3), str(Path(cell.path).relative_to(root)) if cell.path else ""]
                for cell in (board.cells[arm, seed] for seed in board.seeds)
            ],
        }
        for arm in board.arms
    ]
    if not rows:
        return {}
    content = {"seeds": board.seeds, "rows": rows, "counts": board.counts, "trials": board.trials}
    return {"board": {**content, "left": board.seconds_left}}


def _study(root: Path, folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = {"name": folder.name, "report": report_of(root, folder.name) is not None}
    file = folder / VERDICT_FILE
    if not file.is_file() or not is_inside(root, file):
        registered = current_registration(folder)
        return {**data, **_question(registered)} if registered else data
    try:
        return {**data, **_verdict_sentences(read_object(file))}
    except (UsageError, OSError) as error:
        return {**data, "unreadable": str(error)}


def _verdict_sentences(data: Mapping[str, object]) -> dict[str, Any]:
    return {
        **_question(data),
        "complete": data.get("complete") is True,
        "verdicts": [
            {
                "kind": _text(verdict.get("kind")),
                "answer": _text(verdict.get("answer", verdict.get("kind"))),
                "sentence": _text(verdict.get("sentence")),
            }
            for verdict in _listed(data.get("verdicts"))
            if isinstance(verdict, Mapping)
        ],
        "remarks": [_text(remark) for remark in (*_history(data), *_listed(data.get("remarks")))],
    }


def _question(data: Mapping[str, object]) -> dict[str, str]:
    """Return what a study asks, from its verdict or, before there is one, from its registration."""
    study = data.get("study")
    study_data = study if isinstance(study, Mapping) else data
    return {name: _text(study_data.get(name)) for name in ("title", "question", "hypothesis")}


def _history(data: Mapping[str, object]) -> list[Any]:
    """Return what the registrations of the folder say: how many there are, and what was rewritten since."""
    history = data.get("history")
    return _listed(history.get("sentences")) if isinstance(history, Mapping) else []


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return "" if value is None else str(value)
