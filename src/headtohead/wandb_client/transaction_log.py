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

from headtohead.files.atomic_write import replace_bytes

ALL_ROWS = 2**63 - 1
"""The number of the last row on a server that has every row."""
_HEAD, _BLOCK = 7, 32768
_PIECE = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass(frozen=True)
class UploadTarget:
    """An upload target says where W&B stores the run; an empty entity is the user's own."""

    entity: str
    project: str
    id: str


def address_of(file: Path) -> UploadTarget | None:
    """Return the target that the file names, or None if the process was killed before writing it."""
    for record in _records(file.read_bytes()):
        message = _message(record)
        if message.HasField("run"):
            return UploadTarget(message.run.entity, message.run.project, message.run.run_id)
    return None


def artifacts_in(file: Path, *, aliases: Path) -> list[bytes]:
    """Return the records of artifacts, to be added to another file of the same run.

    The client sends the paths of the files along, which would leak the home directory: links in `aliases` replace them.
    """
    records: list[bytes] = []
    for record in _records(file.read_bytes()):
        message = _message(record)
        if message.HasField("artifact"):
            for number, entry in enumerate(message.artifact.manifest.contents):
                link = aliases / f"{len(records)}-{number}"
                link.symlink_to(entry.local_path)
                entry.local_path = str(link)
            records.append(message.SerializeToString())
    return records


def is_complete(file: Path) -> bool:
    """Return whether the file contains the end of the run."""
    return any(_message(record).HasField("exit") for record in _records(file.read_bytes()))


def messages_of(file: Path) -> Iterator[Any]:
    """Yield every record of the file, read."""
    return (_message(record) for record in _records(file.read_bytes()))


def write_rest(file: Path, target: Path, *, last_on_server: int, added: Sequence[bytes] = ()) -> None:
    """Copy the file without the rows that the server already has, and with records from elsewhere."""
    replace_bytes(target, with_records(file, added, last_on_server=last_on_server))


def with_records(file: Path, added: Sequence[bytes], *, last_on_server: int = -1) -> bytes:
    """Return the file's content with more records before its end, and without the rows up to the number
    `last_on_server`."""
    content = file.read_bytes()
    missing_records = [record for record in _records(content) if not is_on_server(_message(record), last_on_server)]
    ends = [index for index, record in enumerate(missing_records) if _message(record).HasField("exit")]
    index = ends[-1] if ends else len(missing_records)
    return content[:_HEAD] + _joined([*missing_records[:index], *added, *missing_records[index:]])


def is_on_server(message: Any, held: int) -> bool:
    holds: bool = message.HasField("history") and message.history.step.num <= held
    return holds


def _message(record: bytes) -> Any:
    from wandb.proto.wandb_internal_pb2 import Record

    return Record.FromString(record)


def _records(content: bytes) -> Iterator[bytes]:
    """Yield the records up to the first that is truncated: a kill can cut the last short."""
    offset, parts = _HEAD, b""
    while offset + _PIECE.size <= len(content):
        if (room := _BLOCK - offset % _BLOCK) < _PIECE.size:
            offset += room
            continue
        crc, length, kind = _PIECE.unpack_from(content, offset)
        piece = content[offset + _PIECE.size : offset + _PIECE.size + length]
        if len(piece) < length or zlib.crc32(piece, zlib.crc32(bytes([kind]))) != crc:
            return
        parts = piece if kind in (_WHOLE, _FIRST) else parts + piece
        offset += _PIECE.size + length
        if kind in (_WHOLE, _LAST):
            yield parts


def _joined(records: Iterable[bytes]) -> bytes:
    """Join the records into the file's format, which begins with a header."""
    content = bytearray(_HEAD)
    for record in records:
        is_first, left = True, memoryview(record)
        while is_first or left:
            room = _BLOCK - len(content) % _BLOCK - _PIECE.size
            if room < 0:
                content += bytes(room + _PIECE.size)
                continue
            piece, left = left[:room], left[room:]
            kind = (_FIRST if left else _WHOLE) if is_first else (_MIDDLE if left else _LAST)
            content += _PIECE.pack(zlib.crc32(piece, zlib.crc32(bytes([kind]))), len(piece), kind) + piece
            is_first = False
    return bytes(content[_HEAD:])
