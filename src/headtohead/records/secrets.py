"""Keeps keys, tokens and passwords out of everything that is recorded or sent."""

from __future__ import annotations

import os
import re
import socket
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
    """Return whether the value under this key looks like a secret.

    Passwords and secrets always do. A key or a token does where it is text (`api_key`, `hf_token`), since numbers
    are counts (`max_tokens`), and where it is not an entry of a vocabulary (`pad_token`).
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
    """Return the same nested value with every secret replaced by MASK."""
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
    """Return the same nested value with the path of the home folder, which holds the user's name, written as ~."""
    if isinstance(value, dict):
        return {key: without_home(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_home(item) for item in value]
    home = str(Path.home())
    if isinstance(value, str) and len(home) > 1:
        return re.sub(rf"{re.escape(home)}(?=/|$)", "~", value)
    return value


_PAIR = re.compile(
    r"""(?<![\w.-])(?P<key>[\w.-]++)(?P<sign>['"]?\s{0,4}[:=]\s{0,4}['"]?)"""
    r"""(?P<value>(?<=')[^']+|(?<=")[^"]+|[^\s'",;&)}\]]+)"""
)
_BEARER = re.compile(r"(?<=\b[Bb]earer )\S+")
_KNOWN_KEY = re.compile(r"\b(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|wandb_v1_)[A-Za-z0-9_-]{12,}")
"""Keys that tell by their first letters what they are."""
_SHORTEST = 4
"""Letters of a value that is looked for anywhere in a text."""


def clean_text(text: str) -> str:
    """Return a printed line without secrets: `key=value` pairs whose key names one, values of environment variables
    that do, keys of known forms, the home folder, the working folder (as "."), and names of this machine and user."""
    for value in _values_of_the_environment():
        text = text.replace(value, MASK)
    text = _PAIR.sub(_masked_pair, _KNOWN_KEY.sub(MASK, _BEARER.sub(MASK, _URL_PASSWORD.sub(MASK, text))))
    cleaned: str = without_home(_without_working_folder(text))
    return re.sub(rf"(?<![\w.-])(?:{'|'.join(names)})(?![\w-])", MASK, cleaned) if (names := _own_names()) else cleaned


def _without_working_folder(text: str) -> str:
    """Return the text with paths below the working folder as they are from there."""
    try:
        folder = os.getcwd()  # noqa: PTH109 - asked for each line that is printed
    except FileNotFoundError:
        return text
    return text if folder == os.sep else re.sub(rf"{re.escape(folder)}(?![\w.-])", ".", text)


def _masked_pair(pair: re.Match[str]) -> str:
    is_number = re.fullmatch(r"[-+\d.,_e]+|None|null|true|false", pair["value"], re.IGNORECASE)
    masked = is_secret(pair["key"], 0 if is_number else pair["value"])
    return f"{pair['key']}{pair['sign']}{MASK}" if masked else pair.group()


def _values_of_the_environment() -> list[str]:
    """Longest first, so that none is masked in part."""
    secrets = {value for name, value in os.environ.items() if len(value) >= _SHORTEST and is_secret(name, value)}
    return sorted(secrets, key=len, reverse=True)


def _own_names() -> list[str]:
    """Return the machine's name and the user's, ready for a pattern; names that many machines and users share tell
    nobody apart."""
    names = {socket.gethostname(), os.environ.get("USER", ""), os.environ.get("LOGNAME", "")}
    return [re.escape(name) for name in sorted(names - _SHARED_NAMES) if len(name) >= _SHORTEST]


_SHARED_NAMES = {"localhost", "root", "user", "ubuntu", "admin", "train", "data", "model"}
