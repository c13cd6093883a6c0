"""`h2h list [GROUP]`: every group, or every choice of a group, with one line each; reads file names and first lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from headtohead.building.choices import choices, folders
from headtohead.cli.arguments import parse, parser
from headtohead.cli.terminal import out, paint


def run(arguments: Sequence[str]) -> int:
    taken = parser("list", "Show the groups, or the choices of some, with one line each.")
    taken.add_argument("groups", nargs="*", metavar="GROUP", help="for example model/mixer; model/ shows all below it")
    taken.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    taken.add_argument("--json", action="store_true", help="as JSON: group, then choice, then its line")
    taken.set_defaults(multirun=False)
    given = parse(taken, arguments)
    known = folders(given.config_dir)
    wanted = [name for asked in given.groups for name in _matching(asked, known)]
    if given.json:
        found = {name: _lines(name, given.config_dir) for name in wanted or known}
        out(json.dumps(found, indent=2, ensure_ascii=False))
    elif wanted:
        out("\n\n".join(_table(name, _lines(name, given.config_dir)) for name in wanted))
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


def _table(group: str, lines: dict[str, str]) -> str:
    width = max(map(len, lines)) + 2
    rows = [f"  {name:<{width}}{line}" for name, line in lines.items()]
    return "\n".join([paint(group, "1"), *rows])


def _overview(known: Sequence[str], config_dir: str | None) -> str:
    width = max(map(len, known)) + 2
    rows = [f"{paint(f'{name:<{width}}', '1')}{', '.join(_lines(name, config_dir))}" for name in known]
    return "\n".join([*rows, "", "h2h list GROUP says one line about each choice; choose with h2h train GROUP=CHOICE."])
