"""Keeps keys, tokens and passwords out of everything that is recorded or sent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

MASK = "***"

_ALWAYS = {
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "apikey",
    "authorization",
}
_TEXT_ONLY = {"key", "token", "keys", "tokens"}
_VOCABULARY = {"pad", "mask", "bos", "eos", "unk", "cls", "sep", "special", "start", "end", "added"}
_URL_PASSWORD = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")
_YAML_LINE = re.compile(r"^(?P<head>\s*(?:- )?(?P<quote>['\"]?)(?P<key>[\w.-]+)(?P=quote):\s+)(?P<value>\S.*)$")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def is_secret(key: str, value: Any) -> bool:
    """Whether the value under this key looks like a secret.

    Passwords and secrets always do. A key or a token does where it is text (`api_key`, `hf_token`), since numbers
    are counts (`max_tokens`), and where it is no entry of a vocabulary (`pad_token`).
    """
    if value is None or value == "" or isinstance(value, dict):
        return False
    words = [word.lower() for word in _WORDS.findall(key)]
    if _ALWAYS & set(words):
        return True
    if not words or words[-1] not in _TEXT_ONLY or _VOCABULARY & set(words):
        return False
    return isinstance(value, str) or (isinstance(value, list) and any(isinstance(item, str) for item in value))


def mask_secrets(value: Any) -> Any:
    """The same nested value with every secret replaced by MASK."""
    if isinstance(value, dict):
        return {key: MASK if is_secret(str(key), item) else mask_secrets(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mask_secrets(item) for item in value]
    return _URL_PASSWORD.sub(MASK, value) if isinstance(value, str) else value


def mask_yaml(text: str) -> str:
    """YAML text with the secrets of its `key: value` lines masked; all else is kept to the letter."""
    return "".join(_mask_line(line) for line in text.splitlines(keepends=True))


def _mask_line(line: str) -> str:
    match = _YAML_LINE.match(line)
    if match is None:
        return _URL_PASSWORD.sub(MASK, line)
    value = match["value"]
    is_number = re.fullmatch(r"[-+\d._e]+|null|~|true|false|\{\}|\[\]|''|\"\"", value.strip(), re.IGNORECASE)
    if is_secret(match["key"], 0 if is_number else value) and value.strip() not in ("null", "~", "''", '""'):
        return f"{match['head']}'{MASK}'\n"
    return _URL_PASSWORD.sub(MASK, line)


def without_home(value: Any) -> Any:
    """The same nested value with the path of the home folder, which holds the user's name, written as ~."""
    if isinstance(value, dict):
        return {key: without_home(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_home(item) for item in value]
    home = str(Path.home())
    if isinstance(value, str) and len(home) > 1:
        return re.sub(rf"{re.escape(home)}(?=/|$)", "~", value)
    return value
