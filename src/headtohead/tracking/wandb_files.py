"""W&B's own file of a run: reading it record by record, and writing what is left of it when the server has the rest.

W&B's client uploads a file whole, after whatever the server already has of its run: rows that are there would be there
twice. The form is that of LevelDB's log (https://github.com/google/leveldb/blob/main/doc/log_format.md) with the CRC of
zlib and a head of seven bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ALL_ROWS = 2**63 - 1
"""The number up to which a server that has everything has the rows."""
_HEAD, _BLOCK = 7, 32768
_PIECE = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass(frozen=True)
class Address:
    """Where W&B keeps the run; an empty entity is the user's own."""

    entity: str
    project: str
    id: str


def address_of(file: Path) -> Address | None:
    """As the file says it; None where a kill came before it was written."""
    for record in _records(file.read_bytes()):
        message = _message(record)
        if message.HasField("run"):
            return Address(message.run.entity, message.run.project, message.run.run_id)
    return None


def artifacts_in(file: Path, *, aliases: Path) -> list[bytes]:
    """The records of artifacts, to be added to another file of the same run.

    The client sends the paths of the files along, which would tell the home folder: links in `aliases` stand for them.
    """
    found: list[bytes] = []
    for record in _records(file.read_bytes()):
        message = _message(record)
        if message.HasField("artifact"):
            for number, entry in enumerate(message.artifact.manifest.contents):
                link = aliases / f"{len(found)}-{number}"
                link.symlink_to(entry.local_path)
                entry.local_path = str(link)
            found.append(message.SerializeToString())
    return found


def is_whole(file: Path) -> bool:
    """Whether the end of the run is in it."""
    return any(_message(record).HasField("exit") for record in _records(file.read_bytes()))


def messages_of(file: Path) -> Iterator[Any]:
    """Every record of the file, read."""
    return (_message(record) for record in _records(file.read_bytes()))


def write_rest(file: Path, target: Path, *, held: int, added: Sequence[bytes] = ()) -> None:
    """The same file without the rows up to the number that the server holds, and with records from elsewhere."""
    target.write_bytes(with_records(file, added, held=held))


def with_records(file: Path, added: Sequence[bytes], *, held: int = -1) -> bytes:
    """Return the file's content with more records before its end, and without the rows up to the number `held`."""
    content = file.read_bytes()
    kept = [record for record in _records(content) if not _is_held(_message(record), held)]
    ends = [place for place, record in enumerate(kept) if _message(record).HasField("exit")]
    place = ends[-1] if ends else len(kept)
    return content[:_HEAD] + _joined([*kept[:place], *added, *kept[place:]])


def _is_held(message: Any, held: int) -> bool:
    holds: bool = message.HasField("history") and message.history.step.num <= held
    return holds


def _message(record: bytes) -> Any:
    from wandb.proto.wandb_internal_pb2 import Record

    return Record.FromString(record)


def _records(content: bytes) -> Iterator[bytes]:
    """Up to the first one that is torn: a kill can tear the last."""
    place, parts = _HEAD, b""
    while place + _PIECE.size <= len(content):
        if (room := _BLOCK - place % _BLOCK) < _PIECE.size:
            place += room
            continue
        crc, length, kind = _PIECE.unpack_from(content, place)
        piece = content[place + _PIECE.size : place + _PIECE.size + length]
        if len(piece) < length or zlib.crc32(piece, zlib.crc32(bytes([kind]))) != crc:
            return
        parts = piece if kind in (_WHOLE, _FIRST) else parts + piece
        place += _PIECE.size + length
        if kind in (_WHOLE, _LAST):
            yield parts


def _joined(records: Iterable[bytes]) -> bytes:
    """What follows the head."""
    content = bytearray(_HEAD)
    for record in records:
        begins, left = True, memoryview(record)
        while begins or left:
            room = _BLOCK - len(content) % _BLOCK - _PIECE.size
            if room < 0:
                content += bytes(room + _PIECE.size)
                continue
            piece, left = left[:room], left[room:]
            kind = (_FIRST if left else _WHOLE) if begins else (_MIDDLE if left else _LAST)
            content += _PIECE.pack(zlib.crc32(piece, zlib.crc32(bytes([kind]))), len(piece), kind) + piece
            begins = False
    return bytes(content[_HEAD:])
