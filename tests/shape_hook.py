"""Tests check at run time the shapes and types in the signatures of all modules that declare shapes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from beartype import BeartypeConf, beartype

Name = tuple[str, str]
"""The module and the qualified name of a function."""
DECLARED: dict[Name, dict[str, Any]] = {}
"""The types of each hooked function's arguments and of what it returns, as the hook understood them."""
CALLED: set[Name] = set()
"""The hooked functions whose arguments or results have been checked in this process."""
_TYPED = beartype(conf=BeartypeConf(is_pep484_tower=True))
"""An int is a float, as the type checker says."""


def source_root() -> Path:
    """Return the folder of the package, which is not imported for that."""
    spec = find_spec("headtohead")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def annotated_modules() -> dict[str, Path]:
    """Return every module that uses jaxtyping, by name."""
    root = source_root()
    files = {path: path.relative_to(root.parent).with_suffix("").parts for path in sorted(root.rglob("*.py"))}
    return {
        ".".join(parts).removesuffix(".__init__"): path
        for path, parts in files.items()
        if "jaxtyping" in path.read_text(encoding="utf-8")
    }


def hooked_modules() -> list[str]:
    """Return what the import hook is installed for: two folders whose plain types are checked too, and every module
    that declares a shape."""
    return ["headtohead.components", "headtohead.architectures", *annotated_modules()]


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what checks the calls of `function` with beartype, which reads the signature at the first of them: a test
    pays for the functions that it calls and not for all that it imports."""
    name = (function.__module__, function.__qualname__)
    understood = {argument: hint for argument, hint in function.__annotations__.items() if hint is not Any}
    DECLARED.setdefault(name, {}).update(understood)
    checks: list[Callable[..., Any]] = []

    @wraps(function)
    def check(*args: Any, **kwargs: Any) -> Any:
        if not checks:
            checks.append(_TYPED(function))
            CALLED.add(name)
        return checks[0](*args, **kwargs)

    return check
