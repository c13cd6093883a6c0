"""A library calls methods by the names that its classes give them: a method under another name is called by nobody."""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any

import pytest

import headtohead

PLAIN = {"abc", "builtins", "collections", "collections.abc", "contextlib", "enum", "typing"}
"""Modules whose classes call no method by a name of their own."""
SOUGHT = {"do_GET", "do_HEAD", "do_POST", "exec_module", "find_spec"}
"""Methods that a library looks for, although no class of it has them."""
OWN = {
    "Dashboard": "address",
    "TensorMeter": "add bytes called",
    "WorkMeter": "added turns unseen_like",
    "_LazyLoader": "run",
    "AttentionLogger": "at_end",
    "ProgressLogHandler": "begin end",
    "StepLogger": "finish throughput",
    "TrainingModule": "ask_to_stop begin begin_alone read_losses",
    "ScheduleFree": "averages",
    "RunLogger": "check_lease write write_pictures write_tables",
}
"""Methods of such classes that this package calls itself, by class."""


def package_classes() -> set[type]:
    """Return every class of the package, of modules that can be imported here."""
    classes = set()
    for entry in pkgutil.walk_packages(headtohead.__path__, "headtohead."):
        if entry.name.endswith("__main__"):
            continue
        with suppress(ImportError):  # of an extra that is not installed
            module = importlib.import_module(entry.name)
            classes |= {one for one in vars(module).values() if isinstance(one, type) and one.__module__ == entry.name}
    return classes


def calls_methods(base: type) -> bool:
    """Return whether the class is one of a library whose methods are called by their names; those of torch.nn.Module,
    which are ours but for forward, are left to the tests of every model."""
    of_module = base.__module__.startswith("torch.nn.modules")
    return base.__module__.partition(".")[0] != "headtohead" and base.__module__ not in PLAIN and not of_module


def is_method(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, property | cached_property | staticmethod | classmethod)


def methods_of_no_base(classes: Iterable[type]) -> Iterator[tuple[str, str]]:
    """Yield class and name of each public method that overrides none, of classes that a library calls."""
    for one in classes:
        bases = one.__mro__[1:]
        for name, value in vars(one).items() if any(map(calls_methods, bases)) else ():
            is_public = is_method(value) and not name.startswith("_")
            if is_public and not any(name in vars(base) for base in bases):
                yield one.__name__, name


@pytest.mark.slow
def test_a_method_of_a_class_that_a_library_calls_overrides_one_or_is_known_to_be_ours() -> None:
    classes = package_classes()
    assert len(classes) > 1000
    ours = {(one, name) for one, names in OWN.items() for name in names.split()}
    unknown = {pair for pair in methods_of_no_base(classes) if pair[1] not in SOUGHT}
    assert unknown - ours == set(), "was a method renamed that a library calls? If it is ours, list it above"
    assert ours - unknown == set(), "no longer there, or the library's own by now: take it off the list"


def test_the_law_sees_a_handler_that_writes_nothing() -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None: ...

    class Renamed(logging.Handler):
        def project_output(self, record: logging.LogRecord) -> None: ...

    assert list(methods_of_no_base([Handler, Renamed])) == [("Renamed", "project_output")]
