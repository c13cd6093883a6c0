"""Write docs/choices.md, every choice with its line, from the files of conf/: `make choices`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from headtohead.cli.listing import DATA, published_sets
from headtohead.config.compose.choices import STUDY, choices, folders
from headtohead.files.safe_read import read_yaml

PAGE = Path(__file__).with_name("choices.md")
_EXPERIMENT = "experiment"
_FIRST = ("model", "task", DATA, "augmentation", "optimizer", "schedule")


def page() -> str:
    """Return the page as it should be."""
    listed = folders()
    first = [group for name in _FIRST for group in listed if group == name or group.startswith(f"{name}/")]
    others = [group for group in listed if group not in (*first, _EXPERIMENT, STUDY)]
    return "\n".join(
        [*_head(), *(line for group in [*first, *others, _EXPERIMENT] for line in _group(group)), *_studies()]
    )


def _head() -> Iterator[str]:
    yield "# Every choice"
    yield ""
    yield "Written by `make choices` from the files of `conf/`; a test holds that it is current."
    yield "`h2h list model/mixer` shows the same on a terminal, and `h2h.choices(GROUP)` returns it."
    yield ""


def _group(group: str) -> Iterator[str]:
    sets = published_sets(choices(group)) if group == DATA else {}
    own = [choice for choice in choices(group) if choice.name not in sets]
    yield f"## `{group}`"
    yield ""
    yield "| choice | what it is |"
    yield "| --- | --- |"
    yield from (f"| `{choice.name}` | {_escaped(choice.description)} |" for choice in own)
    yield ""
    if sets:
        yield "Published sets, fetched when they are first used:"
        yield ""
        yield "| choice | what it is | task | size | licence |"
        yield "| --- | --- | --- | --- | --- |"
        for choice in choices(group):
            if (known := sets.get(choice.name)) is not None:
                cells = (choice.description, known.task, known.size, known.licence)
                yield f"| `{choice.name}` | {' | '.join(map(_escaped, cells))} |"
        yield ""


def _studies() -> Iterator[str]:
    yield "## Studies"
    yield ""
    yield "Run by `h2h study NAME`; [the results](results.md#studies-that-ship) have their verdicts."
    yield ""
    yield "| study | question |"
    yield "| --- | --- |"
    for choice in choices(STUDY):
        content = read_yaml(choice.path)
        question = str(content["question"]) if isinstance(content, dict) else ""
        yield f"| `{choice.name}` | {_escaped(question)} |"
    yield ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name}: {len(page().splitlines())} lines\n")
