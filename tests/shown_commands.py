"""Commands as documents show them, held without being run: they parse, and what they say composes.

One rule for what a reader fills in, which is a word in capitals (RUN, OWNER/SET) or a name of the reader's (my_conf,
mine, ours): the option or the field that takes it must exist, and the rest of the command must compose, with it or
without it. A run or a checkpoint that a command starts from is always left out, since composing would open it.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NoReturn
from unittest.mock import patch

from documents import ROOT
from headtohead.cli import COMMANDS
from headtohead.cli.completion import INSTALL, SHOW
from headtohead.cli.listing import PRETRAINED
from headtohead.config.compose.choices import choice_names, groups
from headtohead.config.compose.composition import compose_checked
from headtohead.config.compose.overrides import key_of, override_combinations
from headtohead.config.errors import ConfigurationError
from headtohead.execution.launchers.worker_commands import launcher_choice
from headtohead.studies.definition.read_study_file import read_study
from headtohead.studies.definition.study_fields import FIELDS
from headtohead.sweeps.read_sweep_file import read_sweep

_READERS = re.compile(r"\b(?:[A-Z][A-Z_]*|my_\w+|mine|ours)\b")
_OPENED = ("init_from", "resume_from")
_TARGET = re.compile(r"^([a-z][a-z-]*(?: [a-z][a-z-]*)*):(?!=)", re.MULTILINE)
Overrides = Sequence[str]


class _ParsedError(Exception):
    """Carries what a command was given, before it does anything."""

    def __init__(self, provided: argparse.Namespace) -> None:
        self.options = provided


def hold(words: Sequence[str]) -> None:
    """Raises ValueError, with the command's own refusal, where the command cannot be right."""
    program, *rest = words
    {"h2h": _hold_h2h, "make": _hold_make, "python": _hold_script, "pytest": _hold_pytest}[program](rest)


def parsed(command: str, arguments: Sequence[str]) -> argparse.Namespace:
    """The options and words of a command as its own parser reads them; the command itself is not run."""
    if command not in COMMANDS:
        raise ValueError(f"h2h {command} is not a command")
    whole = {"parse_args": argparse.ArgumentParser.parse_args,
             "parse_intermixed_args": argparse.ArgumentParser.parse_intermixed_args}  # fmt: skip

    def stop(parse: Callable[..., argparse.Namespace]) -> Callable[..., NoReturn]:
        def parse_and_stop(self: argparse.ArgumentParser, provided: Sequence[str]) -> NoReturn:
            raise _ParsedError(parse(self, provided))

        return parse_and_stop

    module = import_module(f"headtohead.cli.{COMMANDS[command][0]}")
    stops: dict[str, Any] = {name: stop(parse) for name, parse in whole.items()}
    with patch.multiple(argparse.ArgumentParser, **stops):
        try:
            module.run(list(arguments))
        except _ParsedError as found:
            return found.options
    raise AssertionError(f"h2h {command} has ended without reading its arguments")


def is_readers(value: object) -> bool:
    return isinstance(value, str) and bool(_READERS.search(value))


def _hold_h2h(words: Sequence[str]) -> None:
    command, *arguments = words
    if words == ["--version"]:
        return
    if command in (INSTALL, SHOW) and set(arguments) <= {"bash", "zsh", "fish"}:
        return
    provided = parsed(command, arguments)
    for option, value in vars(provided).items():
        if is_readers(value):
            setattr(provided, option, None)
    if command in _COMPOSED:
        _COMPOSED[command](provided)


def _train(provided: argparse.Namespace) -> None:
    sorted_out = launcher_choice(provided.overrides)
    _compose("launch", sorted_out.of_launcher)
    points = override_combinations(sorted_out.of_runs) if provided.multirun else [sorted_out.of_runs]
    for point in points[:1]:
        _compose("train", point)


def _root(name: str) -> Callable[[argparse.Namespace], None]:
    return lambda provided: _compose(name, provided.overrides)


def _after_a_run(provided: argparse.Namespace) -> None:
    """Check choices and fields only by themselves, since the parts of a finished run are not known here."""
    overrides = [word for word in provided.words if "=" in word]
    if len(overrides) == len(provided.words):
        _compose("train", overrides)
        return
    choices = [word for word in overrides if key_of(word) in groups()]
    _compose("train", choices)
    parts = {group.partition("/")[0] for group in groups()}
    for word in overrides:
        if word not in choices and key_of(word).partition(".")[0] not in parts:
            raise ValueError(f"{word}: no part of a run has such a field")


def _new_study(provided: argparse.Namespace) -> None:
    """Arms compose beside the overrides of the data; a path is the reader's, and what it holds is not known here."""
    if provided.start is not None:
        read_study(provided.start)
    words = [word for word in provided.words or () if "=" in word]
    own = [word for word in words if key_of(word) in FIELDS]
    for arm in provided.arm:
        overrides = shlex.split(arm.partition("=")[2])
        groups_of_arm = [word for word in overrides if key_of(word) in groups()]
        if any("=" not in word for word in provided.words or ()):  # a file of the reader's, whose task is not known
            groups_of_arm = [word for word in groups_of_arm if key_of(word) != "model"]
        _compose("train", [*(word for word in words if word not in own), *groups_of_arm])


def _study(provided: argparse.Namespace) -> None:
    if hasattr(provided, "start"):
        _new_study(provided)
        return
    if provided.name is None or provided.name.endswith(".yaml"):  # a file of the reader's
        return
    sorted_out = launcher_choice(provided.overrides)
    _compose("launch", sorted_out.of_launcher)
    study = read_study(provided.name, sorted_out.of_runs)
    _compose("train", (*study.base, *study.arms.get(study.baseline, ())))


def _match(provided: argparse.Namespace) -> None:
    if provided.overrides and "=" not in provided.overrides[0]:
        read_study(provided.overrides.pop(0))
    budget = [word for word in provided.overrides if word.startswith("budget.")]
    _compose("match", [*([f"budget={provided.budget}"] if provided.budget else []), *budget])
    shared = [word for word in provided.overrides if word not in budget]
    for arm in provided.arm:
        _compose("train", [*shared, *shlex.split(arm.partition("=")[2])])


def _sweep(provided: argparse.Namespace) -> None:
    if provided.file is not None:
        sorted_out = launcher_choice(provided.overrides)
        _compose("launch", sorted_out.of_launcher)
        _compose("train", read_sweep(ROOT / provided.file, sorted_out.of_runs).fixed_fields)


def _list(provided: argparse.Namespace) -> None:
    if "where" in provided:  # h2h list runs
        return
    for group in provided.groups:
        if group != PRETRAINED:  # families of published weights, which are no files of conf/
            choice_names(group)


def _plan(provided: argparse.Namespace) -> None:
    if provided.study is None:
        _root("train")(provided)
    else:
        read_study(provided.study, provided.overrides)


_COMPOSED: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "train": _train,
    "inspect": _root("train"),
    "plan": _plan,
    "doctor": _root("train"),
    "coordinates": _root("train"),
    "bench": _root("bench"),
    "probe": _after_a_run,
    "evaluate": _after_a_run,
    "study": _study,
    "match": _match,
    "sweep": _sweep,
    "list": _list,
}


def _compose(root: str, overrides: Overrides) -> None:
    stays = tuple(word for word in overrides if key_of(word) not in _OPENED)
    sure = tuple(word for word in stays if not is_readers(word.partition("=")[2]))
    try:
        config = _composed(root, stays)
    except ConfigurationError:
        if sure == stays:
            raise
        config = _composed(root, sure)
    for word in {*overrides} - {*sure}:
        _find(word, config)


@cache
def _composed(root: str, overrides: tuple[str, ...]) -> Mapping[str, Any]:
    return compose_checked(root, overrides)


def _find(override: str, config: Mapping[str, Any]) -> None:
    """A group, a field, or one that a plus sign adds."""
    key = key_of(override)
    if key in groups() or override.startswith("+"):
        return
    inner: Any = config
    for name in key.split("."):
        if not isinstance(inner, Mapping) or name not in inner:
            raise ValueError(f"{override}: {key} is neither a group nor a field")
        inner = inner[name]


def _hold_make(words: Sequence[str]) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {name for line in _TARGET.findall(text) for name in line.split()}
    for word in words:
        variable, sign, _ = word.partition("=")
        if sign and not re.search(rf"^{variable} *[?:]?=", text, re.MULTILINE):
            raise ValueError(f"make {word}: the Makefile has no variable {variable}")
        if not sign and word not in targets:
            raise ValueError(f"make {word}: the Makefile has no such target")


def _hold_script(words: Sequence[str]) -> None:
    script = ROOT / words[0]
    if not script.is_file():
        raise ValueError(f"python {words[0]}: there is no such file")
    for word in words[1:]:
        if word.startswith("--") and f'"{word}"' not in script.read_text(encoding="utf-8"):
            raise ValueError(f"python {words[0]} {word}: the script has no such option")


def _hold_pytest(words: Sequence[str]) -> None:
    for word in words:
        if word.startswith("tests") and not (ROOT / word.partition("::")[0]).exists():
            raise ValueError(f"pytest {word}: there is no such folder")
