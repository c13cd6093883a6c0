"""`h2h list [GROUP]`: every group, or every choice of a group, with one line each; reads file names and first lines."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headtohead.cli import run_list
from headtohead.cli.options import command_parser, parse
from headtohead.cli.terminal import folded, out, paint
from headtohead.config.compose.choices import STUDY, Choice, choices, folders
from headtohead.config.errors import ConfigurationError, show
from headtohead.data.sources.hub.hub_memory import is_fetched
from headtohead.files.safe_read import parse_yaml

DATA = "data"
PUBLISHED = "data, published sets: fetched when first used, h2h train data=NAME"


RUNS = "runs"


def run(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] == RUNS:
        return run_list.run(arguments[1:])
    parser = command_parser(
        "list", "Show the groups, or the choices of some, with one line each; `h2h list runs` shows runs."
    )
    parser.add_argument(
        "groups", nargs="*", default=[], metavar="GROUP", help="for example model/mixer, model/, pretrained"
    )
    parser.add_argument("--find", metavar="WORDS", help="of study: the questions nearest to some words")
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    parser.add_argument("--json", action="store_true", help="as JSON: group, then choice, then its line")
    parser.set_defaults(multirun=False)
    options = parse(parser, arguments)
    if options.find is not None:
        return _find(options)
    known = folders(options.config_dir)
    names = [name for names in options.groups for name in _matching(names, known)]
    if options.json:
        out(json.dumps(_as_json(names or known, options.config_dir), indent=2, ensure_ascii=False))
    elif names:
        out("\n\n".join(_tables(name, options.config_dir) for name in names))
    else:
        out(_overview(known, options.config_dir))
    return 0


def _find(options: Namespace) -> int:
    """Show the studies nearest to the words, and how to ask the first of them of your own data."""
    if options.groups != [STUDY]:
        raise ConfigurationError(f'--find looks among studies: h2h list {STUDY} --find "{options.find}"')
    from headtohead.studies.definition.nearest_study import nearest_studies

    near = nearest_studies(options.find, options.config_dir)
    if options.json:
        out(json.dumps([asdict(study) for study in near], indent=2, ensure_ascii=False))
    else:
        width = max(len(study.name) for study in near) + 2
        out(_table(f"{STUDY}, nearest to {options.find}", {study.name: [study.question] for study in near}, width))
        out(f"on your own data: h2h study new mine book.txt --from {near[0].name}")
    return 0


def _matching(pattern: str, known: Iterable[str]) -> list[str]:
    if pattern.endswith("/"):
        below = [name for name in known if name.startswith(pattern)]
        return below or [pattern.rstrip("/")]
    return [pattern]


def _lines(group: str, config_dir: str | None) -> dict[str, str]:
    return {choice.name: choice.description for choice in choices(group, config_dir)}


def _as_json(groups: Iterable[str], config_dir: str | None) -> dict[str, Any]:
    """Lines by group and choice; of published sets, what there is to know besides."""
    content: dict[str, Any] = {
        name: pretrained_families() if name == PRETRAINED else _lines(name, config_dir) for name in groups
    }
    if DATA in content:
        sets = published_sets(choices(DATA, config_dir))
        content["published sets"] = {name: published.to_dict() for name, published in sets.items()}
    return content


def _tables(group: str, config_dir: str | None) -> str:
    if group == PRETRAINED:
        families = {name: family_lines(family) for name, family in pretrained_families().items()}
        return _table(TITLE, families, max(map(len, families)) + 2)
    lines = _lines(group, config_dir)
    sets = published_sets(choices(group, config_dir)) if group == DATA else {}
    width = max(map(len, lines)) + 2
    own = {name: [line] for name, line in lines.items() if name not in sets}
    tables = [_table(group, own, width)] if own else []
    if sets:
        tables.append(_table(PUBLISHED, {name: [lines[name], family.line] for name, family in sets.items()}, width))
    return "\n\n".join(tables)


def _table(title: str, data: Mapping[str, Sequence[str]], width: int) -> str:
    """A choice begins a line; its description stays right of the names, however narrow the terminal is."""
    rows = []
    for name, lines in data.items():
        folded = [part for line in lines for part in _folded(line, width + 2)]
        rows.append("\n".join(f"  {name if not index else '':<{width}}{part}" for index, part in enumerate(folded)))
    return "\n".join([paint(title, "1"), *rows])


def _folded(line: str, indent: int) -> list[str]:
    """Fold the line to the terminal's width; in a file or a pipe, leave it whole."""
    return folded(line, sys.stdout, indent).split("\n")


def _overview(known: Sequence[str], config_dir: str | None) -> str:
    width = max(map(len, known)) + 2
    rows = [f"{paint(f'{name:<{width}}', '1')}{', '.join(_lines(name, config_dir))}" for name in known]
    return "\n".join([*rows, "", "h2h list GROUP says one line about each choice; choose with h2h train GROUP=CHOICE."])


PRETRAINED = "pretrained"
TITLE = "pretrained, families that init_from=hf:NAME reads; docs/parity.md has what was compared with each"


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, however many lines it takes."""
    text = " ".join(docstring.split("\n\n")[0].split())
    sentence, stop, _ = text.partition(". ")
    return sentence + stop.rstrip()


def pretrained_families() -> dict[str, dict[str, Any]]:
    """Return, by model_type, a sentence on the family, its classes with the head that each starts, whether models of
    ours are written in its form, and the figures of its comparisons."""
    from headtohead.pretrained.families import FAMILIES, parity_evidence
    from headtohead.pretrained.model_family import ModelFamily

    return {
        family.model_type: {
            "about": first_sentence(family.__doc__ or ""),
            "heads": {name: head for name, head in family.architectures.items() if head is not None},
            "is_written": type(family).hub_config is not ModelFamily.hub_config,
            "compared": asdict(parity_evidence()[family.model_type]),
        }
        for family in FAMILIES
    }


def family_lines(data: dict[str, Any]) -> list[str]:
    """Return the sentence on a family, and below it its classes with their heads, and what was compared."""
    from headtohead.pretrained.families import ParityEvidence

    heads = ", ".join(f"{name} ({head})" for name, head in data["heads"].items())
    return [
        data["about"],
        heads + ("; written by h2h export --to hub" if data["is_written"] else ""),
        str(ParityEvidence(**data["compared"])),
    ]


@dataclass(frozen=True)
class PublishedSet:
    """A published set is described by its YAML."""

    task: str
    size: str
    licence: str
    card: str
    is_cached: bool
    """Whether its files were fetched, and still lie in the cache."""

    @property
    def line(self) -> str:
        """Return the line that `h2h list data` shows."""
        return f"{self.task}; {self.size}; licence {self.licence}; {'cached' if self.is_cached else 'not cached'}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def published_sets(choices: Iterable[Choice]) -> dict[str, PublishedSet]:
    """Return those among the choices of a group, by name."""
    return {choice.name: published for choice in choices if (published := _published_set(choice)) is not None}


def _published_set(choice: Choice) -> PublishedSet | None:
    text = choice.path.read_text(encoding="utf-8")
    if "\nabout:\n" not in text:
        return None
    content = parse_yaml(text, choice.path)
    about = content["about"] if isinstance(content, dict) else None
    if not isinstance(about, dict):
        raise ConfigurationError(f"{choice.path}: about is {show(about)}; write task, size, licence and card below it")
    is_cached = is_fetched(str(content.get("name")), content.get("subset"), content.get("revision"))
    task, size, licence, card = (str(about.get(part) or "unknown") for part in ("task", "size", "licence", "card"))
    return PublishedSet(task, size, licence, card, is_cached)
