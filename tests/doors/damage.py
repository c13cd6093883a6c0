"""Ways in which a file comes to be another than the one that was written, drawn by a seed."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

_GROWN_BY = 500_000
CANARY = "somebody-was-here"
"""A file that appears in the working folder if a file's content is executed."""
_ODD_VALUES: tuple[Any, ...] = (None, True, -1, 10**400, 1e308, "", "x" * 3000, [], [[]], {}, {"_target_": "os.system"})
Rewrite = Callable[[bytes, random.Random, Path], bytes]


class _Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {CANARY}",))


def truncated(content: bytes, draw: random.Random, path: Path) -> bytes:
    del path
    return content[: draw.randrange(max(1, len(content)))]


def flipped(content: bytes, draw: random.Random, path: Path) -> bytes:
    del path
    changed = bytearray(content or b"x")
    start = draw.randrange(len(changed))
    for at in range(start, min(len(changed), start + 64)):
        changed[at] ^= 0xFF
    return bytes(changed)


def emptied(content: bytes, draw: random.Random, path: Path) -> bytes:
    del content, draw, path
    return b""


def a_text(content: bytes, draw: random.Random, path: Path) -> bytes:
    del content, draw, path
    return b"Dear reader,\nthis is: a letter, no such file.\n"


def zeros(content: bytes, draw: random.Random, path: Path) -> bytes:
    del draw, path
    return bytes(max(1, len(content)))


def a_pickle(content: bytes, draw: random.Random, path: Path) -> bytes:
    del content, draw, path
    return pickle.dumps(_Payload())


def a_tag(content: bytes, draw: random.Random, path: Path) -> bytes:
    del content, draw, path
    return f"!!python/object/apply:os.system ['touch {CANARY}']\n".encode()


def an_alias_bomb(content: bytes, draw: random.Random, path: Path) -> bytes:
    del content, draw, path
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    return "\n".join(lines).encode()


def nested(content: bytes, draw: random.Random, path: Path) -> bytes:
    del content, path
    depth = draw.choice([200, 5000, 100_000])
    return b"[" * depth + (b"]" * depth if draw.random() < 0.5 else b"")


def digits(content: bytes, draw: random.Random, path: Path) -> bytes:
    """A number of 5,000 digits in the place of one that is there, or alone."""
    del path
    numbers = [at for at in range(len(content)) if content[at : at + 1].isdigit()]
    if not numbers:
        return b"9" * 5000
    at = draw.choice(numbers)
    return content[:at] + b"9" * 5000 + content[at + 1 :]


def grown(content: bytes, draw: random.Random, path: Path) -> bytes:
    del path
    unit = draw.choice([b"x", b"[", b"\n", b"1,", content or b"y"])
    return content + unit * (_GROWN_BY // len(unit))


def utf_16(content: bytes, draw: random.Random, path: Path) -> bytes:
    del draw, path
    return content.decode("latin-1").encode("utf-16")


def latin_1(content: bytes, draw: random.Random, path: Path) -> bytes:
    del path
    at = draw.randrange(len(content) + 1)
    return content[:at] + b"\xe4\xf6\xff" + content[at:]


def another_type(content: bytes, draw: random.Random, path: Path) -> bytes:
    """The whole or one value somewhere in a JSON or YAML file becomes a value of another kind, or goes."""
    is_json = path.suffix == ".json"
    try:
        held = json.loads(content) if is_json else yaml.safe_load(content)
    except (ValueError, yaml.YAMLError):
        return b"[]"
    odd = draw.choice(_ODD_VALUES)
    positions = list(_positions(held))
    if draw.random() < 0.1 or not positions:
        held = odd
    else:
        parent, key = draw.choice(positions)
        if draw.random() < 0.25 and isinstance(parent, dict):
            del parent[key]
        else:
            parent[key] = odd
    return (json.dumps(held) if is_json else yaml.safe_dump(held)).encode()


def _positions(held: Any) -> list[tuple[Any, Any]]:
    result: list[tuple[Any, Any]] = []
    keys = held.keys() if isinstance(held, dict) else range(len(held)) if isinstance(held, list) else ()
    for key in keys:
        result.append((held, key))
        result += _positions(held[key])
    return result


def swapped(content: bytes, draw: random.Random, path: Path) -> bytes:
    """The content of a file of another kind that lies somewhere here."""
    del content
    others = sorted(
        file
        for file in Path().rglob("*")
        if file.is_file() and file.suffix != path.suffix and "cache" not in file.parts
    )
    return draw.choice(others).read_bytes()


REWRITES: tuple[Rewrite, ...] = (
    truncated, flipped, emptied, a_text, zeros, a_pickle, a_tag, an_alias_bomb, nested, digits, grown, utf_16, latin_1,
    another_type, another_type, another_type, swapped,
)  # fmt: skip


def removed(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def a_pipe(path: Path) -> None:
    """Nobody ever writes to it."""
    path.unlink()
    os.mkfifo(path)


REPLACEMENTS: tuple[Callable[[Path], None], ...] = (removed, a_folder, a_loop, a_pipe)


def damage(path: Path, draw: random.Random) -> str:
    """Do one thing to a file, and return its name."""
    if draw.random() < 0.2:
        replacement = draw.choice(REPLACEMENTS)
        replacement(path)
        return replacement.__name__
    rewrite = draw.choice(REWRITES)
    path.write_bytes(rewrite(path.read_bytes(), draw, path))
    return rewrite.__name__


def restore(files: dict[Path, bytes]) -> None:
    """Leave these files with these contents, and no others, below the working folder."""
    for path in sorted(Path().rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if path in files:
                shutil.rmtree(path)
        elif path not in files or path.is_symlink() or not path.is_file():
            path.unlink(missing_ok=True)
    for path, content in files.items():
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def snapshot() -> dict[Path, bytes]:
    """Every regular file below the working folder; what cannot be read stands as it is, by what it is."""
    return {path: path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}
