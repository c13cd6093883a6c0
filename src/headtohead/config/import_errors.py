"""Refusals of a file of the user's that cannot be imported; they name where this package has what it looked for."""

from __future__ import annotations

import re
from pathlib import Path

from headtohead.config.errors import ConfigurationError

_PACKAGE = Path(__file__).parent.parent
_MISSING = re.compile(rf"cannot import name '(\w+)' from '{_PACKAGE.name}\b")


def import_refusal(target: str, module: str, error: BaseException) -> ConfigurationError:
    """Return the refusal of a class whose module raises on import."""
    missing = _MISSING.match(str(error)) if isinstance(error, ImportError) else None
    homes = _homes_of(missing[1]) if missing else []
    remedy = f"import it from {' or '.join(homes)}" if homes else "correct the file"
    return ConfigurationError(
        f"{target} is refused: importing {module} raises {type(error).__name__}: {_without_path(error)}; {remedy}"
    )


def _homes_of(name: str) -> list[str]:
    """Return the modules of this package that define a class or a function of this name; their source is searched,
    since importing all of them takes seconds."""
    defines = re.compile(rf"^(?:class|def) {name}\b", re.MULTILINE)
    files = [file for file in _PACKAGE.rglob("*.py") if defines.search(file.read_text(encoding="utf-8"))]
    return sorted(".".join(file.relative_to(_PACKAGE.parent).with_suffix("").parts) for file in files)


def _without_path(error: BaseException) -> str:
    """Leave out the file that Python names behind a module's name."""
    return re.sub(r" \([^()]*\.pyc?\)$", "", str(error))
