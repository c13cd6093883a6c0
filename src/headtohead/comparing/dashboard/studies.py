"""The studies below the folder: what each asked, what its verdicts say, and where its report is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headtohead.comparing.dashboard.inside import folders_in, is_inside
from headtohead.comparing.verdict_file import FILE

_REPORT, _FOLDER = "report.html", "studies"


def studies(root: Path) -> list[dict[str, Any]]:
    """One for each folder with a verdict or runs, by name."""
    return [_study(root, folder) for folder in folders_in(root, root / _FOLDER)]


def report_of(root: Path, name: str) -> Path | None:
    """report.html of the study of this name."""
    for folder in folders_in(root, root / _FOLDER):
        file = folder / _REPORT
        if folder.name == name and file.is_file() and is_inside(root, file):
            return file
    return None


def _study(root: Path, folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = {"name": folder.name, "report": report_of(root, folder.name) is not None}
    file = folder / FILE
    if not file.is_file() or not is_inside(root, file):
        return told
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        return {**told, "unreadable": f"{FILE} is not valid JSON: {error}"}
    return {**told, **_told(found)} if isinstance(found, Mapping) else {**told, "unreadable": f"{FILE} is no object"}


def _told(found: Mapping[str, Any]) -> dict[str, Any]:
    study = found.get("study")
    asked = study if isinstance(study, Mapping) else found
    return {
        "title": _text(asked.get("title")),
        "question": _text(asked.get("question")),
        "hypothesis": _text(asked.get("hypothesis")),
        "complete": found.get("complete") is True,
        "verdicts": [
            {"kind": _text(verdict.get("kind")), "sentence": _text(verdict.get("sentence"))}
            for verdict in _listed(found.get("verdicts"))
            if isinstance(verdict, Mapping)
        ],
        "remarks": [_text(remark) for remark in _listed(found.get("remarks"))],
    }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return "" if value is None else str(value)
