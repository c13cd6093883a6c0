"""Runs that this user made are known again by signatures of their configurations, under a key that only the user has.

A signature is an HMAC over the content of a configuration: it moves with its folder, and it fits no edited one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from headtohead.files.atomic_write import replace_text
from headtohead.files.safe_read import read_json

SIGNATURES = "signatures.json"
"""The file in the folder of a run, beside the configurations that it speaks of."""
_KEY = "key"
_KEY_BYTES = 32


def settings_folder() -> Path:
    """Return the folder of the user's own settings; it need not exist, and without a home it cannot."""
    chosen = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    with suppress(RuntimeError):
        return (chosen if chosen.is_absolute() else Path("~/.config").expanduser()) / "headtohead"
    return Path(os.devnull) / "headtohead"


def sign(run: Path, configs: Iterable[Mapping[str, object]]) -> None:
    """Add the signatures of these configurations to a run's folder; without a key there are none, and nothing is lost
    but comfort."""
    key = _key(create=True)
    if key is not None:
        known = {*_signatures(run), *(_signature(key, config) for config in configs)}
        replace_text(run / SIGNATURES, json.dumps(sorted(known), indent=1) + "\n")


def is_signed(run: Path, config: Mapping[str, object]) -> bool:
    """Return whether this user made a run of exactly this configuration in this folder, wherever the folder was."""
    key, known = _key(create=False), _signatures(run)
    if key is None or not known:
        return False
    own = _signature(key, config)
    return any(hmac.compare_digest(own, one) for one in known)


def _signature(key: bytes, config: Mapping[str, object]) -> str:
    content = json.dumps(dict(config), sort_keys=True, default=str)
    return hmac.new(key, content.encode(), hashlib.sha256).hexdigest()


def _signatures(run: Path) -> list[str]:
    """Whatever is not a list of ASCII texts holds no signature."""
    try:
        content = read_json(run / SIGNATURES)
    except (OSError, ValueError):
        return []
    return [one for one in content if isinstance(one, str) and one.isascii()] if isinstance(content, list) else []


def _key(*, create: bool) -> bytes | None:
    """Return None where there is no key, none can be written, or others could know it."""
    path = settings_folder() / _KEY
    with suppress(OSError):
        if not path.exists() and create:
            _create(path)
        with path.open("rb") as file:
            known = os.fstat(file.fileno())
            content = file.read(_KEY_BYTES + 1)
        is_secret = sys.platform == "win32" or (
            known.st_uid == os.getuid() and not known.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        )
        return content if is_secret and len(content) == _KEY_BYTES else None
    return None


def _create(path: Path) -> None:
    """Create the key by linking a written file, so that of several processes one is first and the others find it
    whole."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(prefix=".key.", dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
