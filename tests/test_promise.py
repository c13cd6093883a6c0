"""Each name that CHANGELOG.md promises for a release is still there."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache

import pytest

from promise import CLASSES, FILE, ROOT, VERSION, promise

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
PROMISED = json.loads(FILE.read_text(encoding="utf-8"))
now = cache(promise)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROMISED)
def test_nothing_that_was_promised_is_gone(kind: str) -> None:
    gone = sorted(set(PROMISED[kind]) - set(now()[kind]))
    assert not gone, f"{FILE.name} promises these {kind} for every {VERSION.rpartition('.')[0]}.x: {gone}"


def test_a_promise_that_is_broken_is_found() -> None:
    assert PROMISED.keys() == now().keys()
    for kind, names in PROMISED.items():
        assert len(names) == len(set(names)) > 9, f"a list of {kind} that could hide one"


def test_the_release_has_its_date_and_the_changelog_promises_what_the_lists_hold() -> None:
    assert re.search(rf"^## \[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d$", CHANGELOG, re.MULTILINE)
    assert CHANGELOG.index("## [Unreleased]") < CHANGELOG.index(f"## [{VERSION}]")
    section = CHANGELOG.partition("### What it promises to keep")[2].partition("### ")[0]
    named = re.search(r"derives from: (.*?)\.", section, re.DOTALL)
    assert named is not None
    assert re.findall(r"`(\w+)`", named[1]) == [kind.__name__ for kind in CLASSES]
    assert f"`schema_version` {PROMISED['record fields'][0].split()[1]}" in section
    assert FILE.name in section


def test_each_entry_of_the_changelog_is_whole_and_stands_once() -> None:
    entries = [piece for piece in re.split(r"\n(?=- |\n|#)", CHANGELOG) if piece.startswith("- ")]
    torn = [entry for entry in entries if not entry.rstrip().endswith((".", ")"))]
    begins = Counter(" ".join(re.findall(r"\w+", entry))[:40] for entry in entries)
    assert len(entries) > 100 and not torn
    assert not [begin for begin, times in begins.items() if times > 1]
