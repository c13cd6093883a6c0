"""Collect links, blocks of code and commands from the README, docs and the commands' own help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from headtohead.cli import COMMANDS

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "conf/**/*.md", "outputs/README.md") for path in ROOT.glob(pattern)
)
_BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`([^`\n]+)`")
_SHELL = ("", "bash", "console")


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    document: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Shown:
    """A command as a document shows it, and the refusal that follows it there."""

    where: str
    words: tuple[str, ...]
    refusal: str = ""


def blocks(*languages: str) -> list[Block]:
    return [block for path in DOCUMENTS for block in _blocks(path) if block.language in languages]


def _blocks(document: Path) -> Iterator[Block]:
    text = document.read_text(encoding="utf-8")
    for result in _BLOCK.finditer(text):
        yield Block(document, text.count("\n", 0, result.start()) + 1, result[2], result[3])


def commands(documents: Sequence[Path] = ()) -> list[Shown]:
    """Each command once, of blocks, of code within sentences, and of the examples that --help shows; or those of some
    documents alone."""
    result = [shown for path in documents or DOCUMENTS for shown in _of_document(path)]
    if not documents:
        result += [_shown(f"h2h {command} --help", line) for command in COMMANDS for line in _examples(command)]
    once: dict[tuple[str, ...], Shown] = {}
    for shown in result:
        if shown.words:
            once.setdefault(shown.words, shown)
    return list(once.values())


def _of_document(document: Path) -> Iterator[Shown]:
    for block in _blocks(document):
        if block.language in _SHELL:
            yield from _of_block(block)
    prose = _BLOCK.sub("", document.read_text(encoding="utf-8"))
    yield from (_shown(document.name, code) for code in _INLINE.findall(prose))


def _of_block(block: Block) -> Iterator[Shown]:
    """Yield the commands of a block; in a console block a prompt stands before each, and an error below it is its
    answer."""
    lines = block.text.replace("\\\n", " ").splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if block.language != "console":
            yield _shown(block.name, line)
        elif line.startswith("$ "):
            refusal = following.removeprefix("error: ") if following.startswith("error: ") else ""
            yield _shown(block.name, line.removeprefix("$ "), refusal)


def _examples(command: str) -> Iterator[str]:
    """Two spaces part an example from what is said of it."""
    text = getattr(import_module(f"headtohead.cli.{COMMANDS[command][0]}"), "_EXAMPLES", "")
    for line in text.splitlines():
        yield re.split(r"\s{2,}", line.strip())[0]


def _shown(where: str, line: str, refusal: str = "") -> Shown:
    return Shown(where, command_of(line), refusal)


def command_of(line: str) -> tuple[str, ...]:
    """The words from h2h, make, python benchmarks/... or pytest on, whatever starts them; none where there is none.

    `...` stands for more of the same, and a single word is the name of a program rather than a command.
    """
    try:
        words = [word for word in shlex.split(line, comments=True) if word != "..."]
    except ValueError:  # an apostrophe of a sentence
        return ()
    if ">" in words:  # where its output goes is not a part of a command
        words = words[: words.index(">")]
    for index, word in enumerate(words):
        if word in ("&&", "||", "|", ";"):
            return ()
        program = word.rpartition("/")[2]
        rest = words[index + 1 :]
        if program == "headtohead" and words[index - 1] == "-m":
            program = "h2h"
        known = program in ("h2h", "make", "pytest") or (program == "python" and rest[:1] != ["-m"])
        if known and rest and (index == 0 or words[0] in ("srun", "torchrun")):
            return (program, *rest)
    return ()


def links(document: Path) -> list[str]:
    """Targets within this repository, in the order in which they stand."""
    prose = _BLOCK.sub("", document.read_text(encoding="utf-8"))
    return [link for link in _LINK.findall(prose) if not re.match(r"[a-z]+:", link)]


def broken_link(document: Path, link: str) -> str:
    """Return why a link leads nowhere; nothing if it leads to a file, and to a heading of it if it names one."""
    path, _, anchor = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    if not target.exists():
        return f"{link}: there is no {path}"
    return f"{link}: {target.name} has no heading {anchor}" if anchor and anchor not in anchors(target) else ""


def anchors(document: Path) -> set[str]:
    """Headings as GitHub names them: small letters, no punctuation, hyphens for spaces; a second of a name is -1."""
    result: list[str] = []
    prose = _BLOCK.sub("", document.read_text(encoding="utf-8"))
    for heading in re.findall(r"^#+ +(.+?) *$", prose, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        result.append(f"{slug}-{result.count(slug)}" if slug in result else slug)
    return set(result)
