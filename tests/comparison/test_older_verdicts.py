"""A verdict of a version that knew fewer fields is read: what is new has the value that it has by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.comparison.contrasts import Contrast
from headtohead.comparison.registered_answers import VERDICT_FILE, _read
from single_verdict import verdict_of

VALUES = {"new": {seed: 0.1 + 0.01 * seed for seed in range(5)}, "old": {seed: 0.9 + 0.02 * seed for seed in range(5)}}
STUDY = {
    "name": "norms", "metric": "test/loss", "direction": "min", "baseline": "old", "margin": None, "solved_at": None,
    "allow_unlike": [],
}  # fmt: skip


@pytest.mark.parametrize("field", ["held_equal", "kernels"])
def test_a_field_that_came_later_has_its_own_default(field: str, tmp_path: Path) -> None:
    verdict = verdict_of(VALUES, Contrast("new", "old"), "min")
    older = {name: value for name, value in verdict.as_data().items() if name != field}
    (tmp_path / VERDICT_FILE).write_text(json.dumps({"study": STUDY, "verdicts": [older], "remarks": [], "runs": []}))
    answer = _read(tmp_path)
    assert answer is not None and answer.verdicts == (verdict,)


def test_a_verdict_without_its_answer_is_none(tmp_path: Path) -> None:
    older = dict(verdict_of(VALUES, Contrast("new", "old"), "min").as_data())
    del older["kind"]
    (tmp_path / VERDICT_FILE).write_text(json.dumps({"study": STUDY, "verdicts": [older], "remarks": [], "runs": []}))
    assert _read(tmp_path) is None
