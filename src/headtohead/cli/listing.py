"""`h2h list [GROUP]`: every group, or every choice of a group, with one line each; reads file names and first lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headtohead.building.choices import choices, folders
from headtohead.cli.arguments import parse, parser
from headtohead.cli.pretrained_families import PRETRAINED, TITLE, family_lines, pretrained_families
from headtohead.cli.published_sets import published_sets
from headtohead.cli.terminal import folded, out, paint

DATA = "data"
PUBLISHED = "data, published sets: fetched when first used, h2h train data=NAME"


def run(arguments: Sequence[str]) -> int:
    taken = parser("list", "Show the groups, or the choices of some, with one line each.")
    taken.add_argument("groups", nargs="*", metavar="GROUP", help="for example model/mixer, model/, pretrained")
    taken.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    taken.add_argument("--json", action="store_true", help="as JSON: group, then choice, then its line")
    taken.set_defaults(multirun=False)
    given = parse(taken, arguments)
    known = folders(given.config_dir)
    wanted = [name for asked in given.groups for name in _matching(asked, known)]
    if given.json:
        out(json.dumps(_as_json(wanted or known, given.config_dir), indent=2, ensure_ascii=False))
    elif wanted:
        out("\n\n".join(_tables(name, given.config_dir) for name in wanted))
    else:
        out(_overview(known, given.config_dir))
    return 0


def _matching(asked: str, known: Iterable[str]) -> list[str]:
    if asked.endswith("/"):
        below = [name for name in known if name.startswith(asked)]
        return below or [asked.rstrip("/")]
    return [asked]


def _lines(group: str, config_dir: str | None) -> dict[str, str]:
    return {choice.name: choice.description for choice in choices(group, config_dir)}


def _as_json(wanted: Iterable[str], config_dir: str | None) -> dict[str, Any]:
    """Lines by group and choice; of published sets, what there is to know besides."""
    found: dict[str, Any] = {
        name: pretrained_families() if name == PRETRAINED else _lines(name, config_dir) for name in wanted
    }
    if DATA in found:
        sets = published_sets(choices(DATA, config_dir))
        found["published sets"] = {name: told.to_dict() for name, told in sets.items()}
    return found


def _tables(group: str, config_dir: str | None) -> str:
    if group == PRETRAINED:
        families = {name: family_lines(told) for name, told in pretrained_families().items()}
        return _table(TITLE, families, max(map(len, families)) + 2)
    lines = _lines(group, config_dir)
    sets = published_sets(choices(group, config_dir)) if group == DATA else {}
    width = max(map(len, lines)) + 2
    own = {name: [line] for name, line in lines.items() if name not in sets}
    tables = [_table(group, own, width)] if own else []
    if sets:
        tables.append(_table(PUBLISHED, {name: [lines[name], told.line] for name, told in sets.items()}, width))
    return "\n\n".join(tables)


def _table(title: str, told: Mapping[str, Sequence[str]], width: int) -> str:
    """A choice begins a line; what is told of it stays right of the names, however narrow the terminal is."""
    rows = []
    for name, lines in told.items():
        folded = [part for line in lines for part in _folded(line, width + 2)]
        rows.append("\n".join(f"  {name if not place else '':<{width}}{part}" for place, part in enumerate(folded)))
    return "\n".join([paint(title, "1"), *rows])


def _folded(line: str, indent: int) -> list[str]:
    """In a terminal, lines that fit it; in a file or a pipe, one line."""
    return folded(line, sys.stdout, indent).split("\n")


def _overview(known: Sequence[str], config_dir: str | None) -> str:
    width = max(map(len, known)) + 2
    rows = [f"{paint(f'{name:<{width}}', '1')}{', '.join(_lines(name, config_dir))}" for name in known]
    return "\n".join([*rows, "", "h2h list GROUP says one line about each choice; choose with h2h train GROUP=CHOICE."])
