"""Refusals in the words of whoever is refused: `against=` to a caller of a function, `--against` to one who types."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from inspect import unwrap
from typing import ParamSpec, TypeVar

from headtohead.api.argument_types import argument_types, checked_arguments, fits, takes_lists
from headtohead.components.processor import hold_threads_to_their_limit
from headtohead.errors import UsageError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_RENAMED: dict[Callable[..., object], Mapping[str, str]] = {}
_typed: ContextVar[bool] = ContextVar("whether the request was typed as a command", default=False)
_WORDS = (
    "a|the|one|several|another|how|to|of|on|in|at|as|by|for|with|where|and|or|only|also|again|is|are|must|cannot|would|"
    "does|names?|apply|ask|belong|show|[a-z]+s(?= [a-z])"
)
"""Words that continue a sentence about an option; a verb in -s before another word is none of its values."""
_VALUE = rf"(?!(?:{_WORDS})(?![\w./-]))('[^']*'|\"[^\"]*\"|[\w./,+-]*[\w/+-])"
_OPTION = re.compile(rf"(?<![\w-])--([a-z](?:[a-z-]*[a-z])?)(?: {_VALUE}(?:=(?:\"[^\"]*\"|[\w.]*))?)?")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
_LIST = re.compile(r"h2h list ([\w/]+)")
_DATA = re.compile(r"\bh2h data ('[^']+'|[^\s:;,]+)")
_COMMAND = re.compile(r"\bh2h ([a-z]+)\b(?: --help)?")
_ALONE = r"runs (?:tag|note|archive|restore|delete|prune|verify)|study new|list runs"
_NO_GROUP = _VALUE.replace("('", "(?:'")
_FILE = r"[\w.-]*/[\w./-]*[\w/]|[\w-]+\.[a-z]{2,5}\b"
_WORD = rf" (?:--(?!help\b)[a-z][a-z-]*(?: {_NO_GROUP})?|[A-Z]+\b(?:,[A-Z]+\b)*|{_FILE})"
_TYPED = re.compile(rf"(`h2h [^`]+`|\bh2h (?:(?:{_ALONE})\b(?:{_WORD})*|(?!data\b)[a-z]+(?:{_WORD})+))")
"""A command that no function stands for, or with options and words of its own: it is typed, whoever reads it."""


@contextmanager
def for_typed_commands() -> Iterator[None]:
    """Leave refusals in the words of the command line within the context."""
    token = _typed.set(True)
    try:
        yield
    finally:
        _typed.reset(token)


def _described(command: re.Match[str]) -> str:
    (path,) = shlex.split(command[1])
    return f'h2h.describe_data("{path}")'


@dataclass(frozen=True)
class Speech:
    """The arguments of a function, by which a refusal names what it refuses."""

    types: Mapping[str, object] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The name of the argument, or a call, for each option that is not called like its argument."""

    def of(self, text: str) -> str:
        """Return a sentence with arguments in place of options, and functions in place of commands that have one; a
        command that has none, or options, stays as it is typed."""
        parts = _TYPED.split(text)
        return "".join(_quoted(part) if index % 2 else self._spoken(part) for index, part in enumerate(parts))

    def _spoken(self, text: str) -> str:
        text = _DATA.sub(_described, _LIST.sub(r'h2h.choices("\1")', text))
        return _OPTION.sub(self._as_argument, _COMMAND.sub(r"h2h.\1(...)", text))

    def _as_argument(self, option: re.Match[str]) -> str:
        own, value = option[1].replace("-", "_"), option[2] or ""
        name = self.renamed.get(own, own)
        if "(" in name or "=" in name:
            return f"{name} {value}".rstrip()
        if name == "shard" and "/" in value:
            return f"{name}=({', '.join(value.split('/'))})"
        if value.isupper() or not value:
            return f"{name}={value if value == option[0].split(' ')[-1] else ''}"
        is_list = name == "trust" or (takes_lists(self.types.get(name)) and not fits(value, self.types[name]))
        values = value.split(",") if is_list else [value]
        shown = [one if _NUMBER.fullmatch(one) or one[0] in "'\"" else repr(one) for one in values]
        return f"{name}=[{', '.join(shown)}]" if is_list else f"{name}={shown[0]}"


def _quoted(command: str) -> str:
    return command if command.startswith("`") else f"`{command}`"


def python_errors(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let the refusals of a public function name its arguments, which are of the types that it says."""
    return python_errors_with()(function)


def python_errors_with(**renamed: str) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Do the same where options of the command are not called like their arguments."""

    def decorated(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def speaking(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            hold_threads_to_their_limit()  # whatever the caller's program has set since its start
            try:
                own_args, own_kwargs = checked_arguments(function, args, kwargs)
                return function(*own_args, **own_kwargs)  # type: ignore[arg-type]  # of the types they were checked for
            except UsageError as error:
                if not _typed.get() and error.args:
                    error.args = (speech_of(speaking).of(str(error.args[0])), *error.args[1:])
                raise

        _RENAMED[speaking] = renamed
        return speaking

    return decorated


def speech_of(function: Callable[..., object]) -> Speech:
    """Return how a public function speaks of its arguments."""
    return Speech(argument_types(unwrap(function)), _RENAMED[function])
