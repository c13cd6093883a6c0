"""Outcomes of shipped studies, beside the site: `python docs/site/outcomes.py outputs/studies` saves those of a folder.

Each is what `verdict.json` says of arms and verdicts, with a hash of the study as it was: the gallery shows an outcome
only as long as the study's file says the same.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headtohead.config.compose.choices import STUDY, choice_names
from headtohead.files.safe_read import read_json
from headtohead.studies.definition.read_study_file import read_study

FOLDER = Path(__file__).with_name("outcomes")
_TEXTS = ("question", "hypothesis", "expected")


def study_hash(study: Mapping[str, Any]) -> str:
    """Return a hash of what a study does, without its sentences; on which seeds and in which folder does not matter."""
    content = {name: value for name, value in study.items() if name not in (*_TEXTS, "first_seed")}
    content["seeds"] = len(study["seeds"])
    content["base"] = [override for override in study["base"] if not override.startswith(("tracking", "output_dir="))]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def outcome_of(name: str) -> dict[str, Any] | None:
    """Return the saved outcome of a shipped study; None where there is none, or it belongs to an older study."""
    file = FOLDER / f"{name}.json"
    saved: Any = read_json(file) if file.is_file() else None
    return saved if saved and saved["hash"] == study_hash(asdict(read_study(name))) else None


def save(verdict_file: Path) -> bool:
    """Save what a study's verdict.json says; return whether it is of a complete, shipped study as it is."""
    content: Any = read_json(verdict_file)
    name = content["study"]["name"]
    shipped = name in choice_names(STUDY) and study_hash(asdict(read_study(name)))
    if not content["complete"] or shipped != study_hash(content["study"]):
        return False
    outcome = {
        "hash": shipped,
        "metric": content["study"]["metric"],
        "direction": content["study"]["direction"],
        "margin": content["study"]["margin"],
        "baseline": content["study"]["baseline"],
        "chance": content["chance"],
        "seeds": len(content["study"]["seeds"]),
        "first_seed": content["study"]["first_seed"],
        "arms": [{key: arm[key] for key in ("arm", "mean", "interval")} for arm in content["arms"]],
        "verdicts": [
            {key: verdict[key] for key in ("arm", "baseline", "kind", "sentence")} for verdict in content["verdicts"]
        ],
    }
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    return True


if __name__ == "__main__":
    for file in sorted(Path(sys.argv[1]).glob("*/verdict.json")):
        sys.stdout.write(
            f"{file.parent.name}: {'saved' if save(file) else 'not of the study as it ships, or unfinished'}\n"
        )
