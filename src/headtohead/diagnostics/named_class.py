"""A class by its dotted name; what there is to say of a name that is none is said without importing torch."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from headtohead.config.errors import ConfigurationError, unknown
from headtohead.config.import_errors import import_refusal

_SUFFIX = ".py"


def named_class(target: str) -> type:
    """Return the class; raise ConfigurationError where there is none of this name."""
    module, _, name = target.rpartition(".")
    if not module or target.endswith(_SUFFIX):
        own = _classes_in(target.removesuffix(_SUFFIX).replace("/", "."))
        raise ConfigurationError(f"{target} names no class: give {' or '.join(own) or 'package.module.Class'}")
    namespace = _imported(target, module)
    defined = getattr(namespace, name, None)
    if not isinstance(defined, type):
        raise ConfigurationError(unknown(f"{module} has no class {name}", name, _defined_in(namespace)))
    return defined


def _imported(target: str, module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{target} is refused: there is no module {error.name}; give one that Python finds (PYTHONPATH)"
        ) from None
    except Exception as error:  # whatever the user's own file does wrong
        raise import_refusal(target, module, error) from error


def _classes_in(module: str) -> list[str]:
    """Return the classes of a file, where one was named in place of a class."""
    try:
        return [f"{module}.{name}" for name in _defined_in(import_module(module))]
    except Exception:  # it may be anything
        return []


def _defined_in(namespace: ModuleType) -> list[str]:
    """Return the classes that a module defines itself, else all that it knows."""
    known = {name: value for name, value in vars(namespace).items() if isinstance(value, type)}
    return [name for name, value in known.items() if value.__module__ == namespace.__name__] or list(known)
