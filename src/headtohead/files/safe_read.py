"""Small files and archives of arrays that anybody may have written are read here; every kind of damage is reported in
one sentence, and nothing in them is executed."""

from __future__ import annotations

import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zipfile import BadZipFile

from headtohead.errors import UsageError

if TYPE_CHECKING:
    from numpy.lib.npyio import NpzFile
    from yaml.constructor import SafeConstructor
    from yaml.nodes import Node


MOST_BYTES = 64 * 2**20
"""The largest file that is read as a whole; what the package writes takes a thousandth of it."""
MOST_LEVELS = 100
"""The deepest nesting of lists and mappings; a configuration has about ten levels."""
MOST_VALUES = 10**6
"""The most values of a YAML file with its aliases expanded."""


MOST_UNPACKED = 2**33
"""The most bytes that the arrays of a file take in memory: a thousandth of them may be enough to write zeros down."""
_MERGED = "tag:yaml.org,2002:merge"
"""The tag of <<, which takes over the keys of another mapping."""
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
"""The way in which JSON writes one of the two codes of which rare characters are made."""


class DamagedFile(UsageError):  # noqa: N818 - says what a file is, like the errors that other rooms raise of it
    """A file that cannot be read; the message begins with its path."""

    def __init__(self, path: Path | str, what: str, way_out: str = "") -> None:
        super().__init__(f"{path} {what}" + (f": {way_out}" if way_out else ""))
        self.path, self.what = path, what


def lines_of(text: str) -> list[str]:
    """Return the lines of a text as editors number them: they end with a newline, with or without a carriage return
    before it; in a text without a newline, with a carriage return.

    Form feeds, U+2028 and what else `str.splitlines` cuts at are signs within a line: files that are aligned line by
    line, and ids that are the numbers of lines, would fall apart.
    """
    whole = text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")
    return whole.removesuffix("\n").split("\n") if whole else []


def read_text(path: Path, *, most: int = MOST_BYTES, way_out: str = "") -> str:
    """Return the text of a regular file in UTF-8; FileNotFoundError where there is none, DamagedFile for all else."""
    try:
        with open_regular(path) as file:
            is_small = os.fstat(file.fileno()).st_size <= most  # to read up to a size takes memory of that size
            content = file.read() if is_small else file.read(most + 1)
    except FileNotFoundError:
        raise
    except DamagedFile as damage:
        raise DamagedFile(path, damage.what, way_out) from None
    except OSError as error:
        raise DamagedFile(path, f"cannot be read ({error.strerror})", way_out) from None
    if len(content) > most:
        raise DamagedFile(path, f"is larger than {most // 2**20} MiB, and is not read", way_out)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DamagedFile(path, f"is not UTF-8 text (byte {error.start})", way_out) from None


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; DamagedFile for a folder, or for a pipe, which would be waited for."""
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - Path.open takes no opener
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise DamagedFile(path, "is not a regular file")
    return file


def read_json(path: Path, *, way_out: str = "") -> Any:
    """Return what a JSON file holds, nested no deeper than MOST_LEVELS."""
    return parse_json(read_text(path, way_out=way_out), path, way_out=way_out)


def read_object(path: Path, *, way_out: str = "") -> dict[str, Any]:
    """Return the object that a JSON file holds."""
    content = read_json(path, way_out=way_out)
    if not isinstance(content, dict):
        raise DamagedFile(path, f"is {type(content).__name__}, where an object is expected", way_out)
    return content


def parse_json(text: str, where: Path | str, *, way_out: str = "") -> Any:
    """Return what a JSON text holds; `where` names its file in errors."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise DamagedFile(where, "is empty" if not text.strip() else f"is not valid JSON: {error}", way_out) from None
    except RecursionError:
        raise DamagedFile(where, f"is nested deeper than {MOST_LEVELS} levels", way_out) from None
    except ValueError as error:  # a number of thousands of digits
        raise _unreadable_value(where, error, way_out) from None
    if _is_deep(content):
        raise DamagedFile(where, f"is nested deeper than {MOST_LEVELS} levels", way_out)
    if _HALF_CHARACTER.search(text) and (half := _half_character_in(content)):
        raise DamagedFile(where, f"holds half a character ({half}), which cannot be written as text", way_out)
    return content


def _half_character_in(content: object) -> str | None:
    """Return the first half of a pair of codes that stands alone: Python reads it, and nothing can write it."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return ascii(error.object[error.start])[1:-1]
    return None


def read_yaml(path: Path, *, way_out: str = "") -> Any:
    """Return what a YAML file holds: plain values only, with no more aliases and levels than a configuration has."""
    return parse_yaml(read_text(path, way_out=way_out), path, way_out=way_out)


def parse_yaml(text: str, where: Path | str, *, way_out: str = "") -> Any:
    """Return what a YAML text holds; `where` names its file in errors."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if why := _why_too_large(yaml.parse(text, Loader=loader)):
            raise DamagedFile(where, why, way_out)
        reader = loader(text)
        document = reader.get_single_node()
        if why := _repeated_key(reader, document):
            raise DamagedFile(where, why)
        return None if document is None else reader.construct_document(document)
    except yaml.YAMLError as error:
        why = " ".join(str(error).split())
        if "maximum nesting depth" in why:  # newer libyaml counts by itself, before it hands out the first event
            raise DamagedFile(where, f"is nested deeper than {MOST_LEVELS} levels", way_out) from None
        raise DamagedFile(where, f"is not YAML: {why}", way_out) from None
    except (ValueError, TypeError, OverflowError, AttributeError, RecursionError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise _unreadable_value(where, error, way_out) from None


def _why_too_large(events: Iterator[Any]) -> str | None:
    """Return what exceeds the limits in a YAML text, from its events, before anything is built from it."""
    from yaml import events as kinds

    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    values = 0
    for event in events:
        if isinstance(event, kinds.CollectionStartEvent):
            open_nodes.append((event.anchor, values))
            values += 1
            if len(open_nodes) > MOST_LEVELS:
                return f"is nested deeper than {MOST_LEVELS} levels"
        elif isinstance(event, kinds.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor is not None:
                sizes[anchor] = values - before
        elif isinstance(event, kinds.ScalarEvent):
            values += 1
        elif isinstance(event, kinds.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_nodes):
                return f"holds itself (*{event.anchor})"
            values += sizes.get(str(event.anchor), 1)
        if values > MOST_VALUES:
            return f"holds more than {MOST_VALUES} values, with its aliases written out"
    return None


def _repeated_key(loader: SafeConstructor, document: Node | None) -> str | None:
    """Return the key that a mapping has twice: the first of the two would be lost unseen."""
    from yaml import CollectionNode, MappingNode, ScalarNode

    open_nodes, seen = [document], {id(None)}
    while open_nodes:
        node = open_nodes.pop()
        if id(node) in seen or not isinstance(node, CollectionNode):
            continue
        seen.add(id(node))
        if not isinstance(node, MappingNode):
            open_nodes += node.value
            continue
        open_nodes += [value for _, value in node.value]
        known: dict[object, str] = {}
        for key, _ in node.value:
            if not isinstance(key, ScalarNode) or key.tag == _MERGED:
                continue
            plain = loader.construct_object(key)
            if plain in known:
                both = key.value if known[plain] == key.value else f"{known[plain]} and {key.value}, the same key,"
                line = key.start_mark.line + 1
                return f"has {both} twice, the second in line {line}: remove one, or give it another name"
            known[plain] = key.value
    return None


def _unreadable_value(where: Path | str, error: Exception, way_out: str) -> DamagedFile:
    return DamagedFile(where, f"holds a value that cannot be read ({str(error).partition(';')[0]})", way_out)


def _is_deep(content: Any) -> bool:
    level = [content]
    for _ in range(MOST_LEVELS):
        level = [
            item
            for held in level
            for item in (held.values() if isinstance(held, dict) else held if isinstance(held, list) else ())
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without blocking: a pipe that nobody writes to would block for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


_DAMAGE = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, NotImplementedError, MemoryError, BadZipFile,
    zlib.error, OverflowError,
)  # fmt: skip
"""The errors that NumPy and zipfile raise for bytes that are not an archive, and those of arrays of another shape."""


@contextmanager
def open_archive(path: Path) -> Iterator[NpzFile]:
    """Open a file of arrays; DamagedFile where it, or what is read of it inside, is not as it was written."""
    import numpy as np

    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            packed = archive.zip
            if packed is not None and sum(part.file_size for part in packed.infolist()) > MOST_UNPACKED:
                raise DamagedFile(path, f"would take more than {MOST_UNPACKED // 2**30} GiB of memory, and is not read")
            yield archive
    except (FileNotFoundError, UsageError):
        raise
    except _DAMAGE as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise DamagedFile(path, f"is not a whole file of arrays ({why})") from None
