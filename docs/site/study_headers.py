"""Read the header of a shipped study or experiment: its title, what it is about, and the lines with a label."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_LABEL = re.compile(r"(Hypothesis|Expected|Found|Not as expected|Again|Chance|Cost|Data|Source)\b([^:.]*): (.*)")
_PLAIN = re.compile(r"(Chance) (is .*)")


@dataclass
class Header:
    """The first comment of a YAML file."""

    title: str
    about: str = ""
    labelled: dict[str, list[str]] = field(default_factory=dict)

    def said(self, label: str) -> str:
        """Return what the lines of a label say; nothing where there are none."""
        return " ".join(self.labelled.get(label, ()))


def header_of(path: Path) -> Header:
    """Return the header of a file of `conf/`."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            lines.append(line.removeprefix("#").strip())
    header, about, label = Header(lines[0] if lines else ""), [], ""
    for line in lines[1:]:
        if match := _LABEL.match(line):
            label = match[1]
            said = f"{match[2].strip(' ,')}: {match[3]}" if match[2].strip(" ,") else match[3]
            header.labelled.setdefault(label, []).append(said)
        elif match := _PLAIN.match(line):
            label = match[1]
            header.labelled.setdefault(label, []).append(match[2])
        elif label and line:
            header.labelled[label][-1] += f" {line}"
        else:
            about.append(line)
    header.about = "\n".join(about).strip()
    return header


def linked(text: str) -> str:
    """Return a text whose addresses are links, named by what they are."""
    return re.sub(r"https://[^\s),;]+[^\s),;.]", lambda match: f"[{address_name(match[0])}]({match[0]})", text)


def address_name(address: str) -> str:
    """Return what an address is called in a text: arXiv 1706.03762."""
    paper = re.sub(r"^https://arxiv\.org/abs/", "arXiv ", address)
    return re.sub(r"^https://(?:www\.|doi\.org/)?", "", paper)
