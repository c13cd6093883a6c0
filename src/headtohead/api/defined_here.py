"""Classes and functions that were written in a notebook or a script: known by their source, built in this process.

A configuration names what it builds, and workers import it by that name. What stands in a notebook has no module that
another process could import, so it gets one here whose name is made of its source: the same text is the same run, an
edited one another.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from headtohead.data.cache.paths import cache_root
from headtohead.errors import UsageError
from headtohead.files.atomic_write import replace_text

PREFIX = "defined_here_"
_DIGITS = 10
Made = type | Callable[..., object]
_files: dict[str, Path] = {}
"""The saved sources, by module."""


def target_of(made: Made) -> str:
    """Return the name by which a configuration builds a class or a factory: where it is imported from, or the module
    that stands for its source."""
    name = getattr(made, "__qualname__", "")
    module = getattr(made, "__module__", "")
    if "<locals>" not in name and module != "__main__" and _is_importable(module, name, made):
        return f"{module}.{name}"
    if not name.isidentifier():
        raise UsageError(f"{name or made!r} has no name of its own: define it at the top level of a cell or a file")
    return f"{_registered(made)}.{name}"


def is_defined_here(overrides: Sequence[str]) -> bool:
    """Return whether some override names what only this process can build."""
    return any(PREFIX in override for override in overrides)


def own_choice(made: Made, options: Mapping[str, object]) -> str | None:
    """Return the override that puts a component of the user's own into its slot, and write the choice that it names;
    None for what is not a component."""
    import yaml

    from headtohead.diagnostics.laws.class_check import KINDS

    kind = next((kind for kind, base in KINDS.items() if isinstance(made, type) and issubclass(made, base)), None)
    if kind is None:
        return None
    target = target_of(made)
    content = {"_target_": target, "_partial_": True, **options}
    digest = hashlib.sha256(repr(sorted(content.items(), key=str)).encode()).hexdigest()[:_DIGITS]
    name = f"{target.replace('.', '_')}_{digest}" if options else target.replace(".", "_")
    file = _own_choices() / "model" / kind / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, f"# {made.__qualname__}, a class of your own.\n{yaml.safe_dump(content, sort_keys=False)}")
    return f"model/{kind}={name}"


def own_choices_in(overrides: Sequence[str]) -> Path | None:
    """Return the folder of choices of the user's own, where some override names one of them."""
    folder = _own_choices()
    named = (override.partition("=") for override in overrides)
    return folder if any((folder / group / f"{name}.yaml").is_file() for group, _, name in named) else None


def _own_choices() -> Path:
    return cache_root() / "own_choices"


def _is_importable(module: str, name: str, made: Made) -> bool:
    try:
        known = find_spec(module) is not None
    except (ImportError, ValueError):
        return False
    return known and getattr(sys.modules.get(module), name, None) is made


def _registered(made: Made) -> str:
    source = "\n\n".join(_sources(made, set()))
    module = f"{PREFIX}{hashlib.sha256(source.encode()).hexdigest()[:_DIGITS]}"
    if module not in _files:
        file = cache_root() / "defined_here" / f"{module}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, source + "\n")
        _files[module] = file
        if _Sources not in map(type, sys.meta_path):
            sys.meta_path.append(_Sources())
    module_of_source = ModuleType(module)
    module_of_source.__file__ = str(_files[module])
    setattr(module_of_source, made.__name__, made)
    sys.modules[module] = module_of_source
    return module


class _Sources:
    """Says where the sources are, to whoever reads a constructor's arguments without importing it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target
        file = _files.get(name)
        return None if file is None else ModuleSpec(name, None, origin=str(file))


def _sources(made: Made, seen: set[str]) -> Iterator[str]:
    """Yield the source of what it names in the same notebook, then its own: all of it makes the run what it is."""
    tree, text = _definition(made)
    scope = vars(sys.modules[made.__module__]) if made.__module__ in sys.modules else {}
    for name in sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - seen):
        seen.add(name)
        value = scope.get(name)
        if value is made or value is None:
            continue
        if getattr(value, "__module__", None) == made.__module__ and isinstance(value, type | FunctionType):
            yield from _sources(value, seen)
        else:
            yield from _line_for(name, value)
    yield text


def _line_for(name: str, value: object) -> Iterator[str]:
    """Yield the line that gives a name of the notebook its value: an import, or a constant."""
    module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if isinstance(value, ModuleType):
        yield f"import {value.__name__} as {name}"
    elif isinstance(value, int | float | str | bool | tuple):
        yield f"{name} = {value!r}"
    elif isinstance(module, str) and own.isidentifier():
        yield f"from {module} import {own} as {name}"


def _definition(made: Made) -> tuple[ast.AST, str]:
    for file, line in _locations(made):
        text = "".join(linecache.getlines(file))
        nodes = [
            node
            for node in ast.walk(ast.parse(_without_magics(text)))
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
            and node.name == made.__name__
            and (line is None or node.lineno <= line <= (node.end_lineno or node.lineno))
        ]
        if nodes:
            first = min([nodes[-1].lineno, *(each.lineno for each in nodes[-1].decorator_list)])
            return nodes[-1], "\n".join(text.splitlines()[first - 1 : nodes[-1].end_lineno])
    raise UsageError(f"the source of {made.__name__} cannot be read: write it into a file and import it from there")


def _locations(made: Made) -> Iterator[tuple[str, int | None]]:
    """Yield where its source may be: where its code says, or, for a class without methods, every cell that has run,
    the latest first."""
    code = _code_of(made)
    if code is not None:
        yield code.co_filename, code.co_firstlineno
        return
    for file, entry in reversed(list(linecache.cache.items())):
        if len(entry) == 4 and any(f"class {made.__name__}" in line for line in entry[2]):
            yield file, None


def _code_of(made: Made) -> Any:
    if isinstance(made, FunctionType):
        return made.__code__
    methods = [value for value in vars(made).values() if isinstance(value, FunctionType)]
    return methods[0].__code__ if methods else None


def _without_magics(text: str) -> str:
    """Return a cell as Python reads it: lines of the notebook's own commands are blank."""
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in text.split("\n"))
