"""Refusals in the words of whoever is refused: `against=` to a caller of a function, `--against` to one who types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from headtohead.api.argument_types import checked_arguments
from headtohead.errors import UsageError

Taken = ParamSpec("Taken")
Given = TypeVar("Given")
_typed: ContextVar[bool] = ContextVar("whether the request was typed as a command", default=False)
_WORDS = (
    "a|the|one|several|another|how|to|of|on|in|at|as|by|for|with|where|and|or|only|also|again|is|are|must|cannot|would|"
    "does|names?|apply|ask|belong|show|[a-z]+s(?= [a-z])"
)
"""Words that continue a sentence about an option; a verb in -s before another word is none of its values."""
_OPTION = re.compile(rf"(?<![\w-])--([a-z][a-z-]*[a-z])(?: (?!(?:{_WORDS})(?![\w./-]))([\w./,-]+))?")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_LIST = re.compile(r"h2h list ([\w/]+)")
_COMMAND = re.compile(r"\bh2h ([a-z]+)\b(?: --help)?")


@contextmanager
def for_typed_commands() -> Iterator[None]:
    """Leave refusals in the words of the command line within the context."""
    token = _typed.set(True)
    try:
        yield
    finally:
        _typed.reset(token)


def in_python_words(text: str) -> str:
    """Return a sentence with arguments in place of options, and functions in place of commands."""
    text = _LIST.sub(r'h2h.choices("\1")', text)
    text = _OPTION.sub(_as_argument, text)
    return _COMMAND.sub(r"h2h.\1(...)", text)


def _as_argument(option: re.Match[str]) -> str:
    name, value = option[1].replace("-", "_"), option[2] or ""
    shown = value if not value or value.isupper() or _NUMBER.fullmatch(value) else repr(value)
    return f"{name}={[value]}" if name == "trust" and value and not value.isupper() else f"{name}={shown}"


def speaks_python(function: Callable[Taken, Given]) -> Callable[Taken, Given]:
    """Let the refusals of a public function name its arguments, which are of the types that it says."""

    @wraps(function)
    def speaking(*args: Taken.args, **kwargs: Taken.kwargs) -> Given:
        try:
            own_args, own_kwargs = checked_arguments(function, args, kwargs)
            return function(*own_args, **own_kwargs)  # type: ignore[arg-type]  # of the types that they were checked for
        except UsageError as error:
            if not _typed.get() and error.args:
                error.args = (in_python_words(str(error.args[0])), *error.args[1:])
            raise

    return speaking
