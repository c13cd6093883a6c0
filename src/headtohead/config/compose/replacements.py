"""A user's file in the place of a shipped choice, which a line of its header asks for: `# replaces: model/norm/none`.

The line travels with the file, to every command, worker and agent, where an option would have to be typed each time;
and it names what it replaces, so that a copy under another name replaces nothing by accident.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headtohead.config.errors import ConfigurationError
from headtohead.files.safe_read import read_text, read_yaml

REPLACED = "replaced"
"""The field of a configuration that lists such choices, each with its file."""
_HEADER = re.compile(r"#\s*replaces:\s*(?P<choice>\S+)\s*")
_INCLUDED = re.compile(r"[\w.-]+")


def version_of(state: os.stat_result) -> tuple[int, ...]:
    """Tell one content of a file from another: two may have the same time of change."""
    return state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino


def is_choice(group: str, name: str, folders: Sequence[Path]) -> bool:
    """Return whether there is a file for a choice, in these letters: some disks find it by others too."""
    return any(f"{name}.yaml" in os.listdir(folder / group) for folder in folders if (folder / group).is_dir())  # noqa: PTH208


def header_choice(path: Path) -> str | None:
    """Return the choice, GROUP/NAME, that the comments at the top of a file say that it replaces."""
    for line in read_text(path).splitlines():
        if not line.startswith("#"):
            return None
        if match := _HEADER.fullmatch(line):
            return match["choice"]
    return None


def file_of(group: str, name: str, folders: Sequence[Path]) -> Path | None:
    """Return the file of a choice: a user's that asks to replace the shipped one, else the first that there is."""
    files = [path for folder in folders if (path := folder / group / f"{name}.yaml").is_file()]
    replacing = (path for path in files[1:] if header_choice(path) == f"{group}/{name}")
    return next(replacing, files[0] if files else None)


def replacements(folders: Sequence[Path]) -> dict[str, Path]:
    """Return the shipped choices, GROUP/NAME, that files of a user's folders replace."""
    replaced: dict[str, Path] = {}
    for folder in folders[1:]:
        for path in sorted(folder.rglob("*.yaml")):
            name = path.relative_to(folder).with_suffix("").as_posix()
            if (folders[0] / f"{name}.yaml").is_file() and path.parent != folder and header_choice(path) == name:
                replaced.setdefault(name, path)
    return replaced


def refuse_unasked(group: str, name: str, folders: Sequence[Path]) -> None:
    """Refuse a user's file that has the name of another one and does not say that it replaces it, or that says so of
    what it does not."""
    files = [path for folder in folders if (path := folder / group / f"{name}.yaml").is_file()]
    own = f"{group}/{name}"
    for path in files:
        target = header_choice(path)
        if target is not None and (target != own or not (folders[0] / f"{own}.yaml").is_file()):
            raise ConfigurationError(
                f"{path} says that it replaces {target}, and is {own}"
                + (
                    ": name the file's own group and choice, or remove the line"
                    if target != own
                    else ", and no such choice is shipped"
                )
            )
    others = [path for path in files[1:] if header_choice(path) is None and path.read_bytes() != files[0].read_bytes()]
    if others:
        raise ConfigurationError(
            f"{group}={name} is a choice of {files[0]}, and {' and '.join(map(str, others))} would be passed over: "
            f"give yours another name, or write `# replaces: {own}` at its top"
        )


def replaced_in(chosen: Mapping[str, str | None], folders: Sequence[Path]) -> dict[str, str]:
    """Return the replaced choices that a composition is made of, each with the user's file."""
    files = replacements(folders)
    if not files:
        return {}
    reached = {
        f"{group}/{name}"
        for key, choice in chosen.items()
        for group in [key.partition("@")[0]]
        for name in _with_included(group, str(choice).strip("[]").split(","), folders)
    }
    return {name: os.path.relpath(path) for name, path in sorted(files.items()) if name in reached}


def note_replaced(
    config: dict[str, Any], before: Mapping[str, Any], composed: Mapping[str, Any], groups: Collection[str]
) -> None:
    """Say of a run's configuration what is replaced in it: in these groups and below as they are composed now, in all
    others as the run had it `before`."""
    slots = tuple(f"{group.partition('@')[0]}/" for group in groups)
    others = {name: file for name, file in (before.get(REPLACED) or {}).items() if not name.startswith(slots)}
    new = {name: file for name, file in (composed.get(REPLACED) or {}).items() if name.startswith(slots)}
    config.pop(REPLACED, None)
    if replaced := {**others, **new}:
        config[REPLACED] = replaced


def _with_included(group: str, names: Iterable[str], folders: Sequence[Path]) -> set[str]:
    """Add the choices of the same group that these are made of."""
    included: set[str] = set()
    left = [name.strip() for name in names]
    while left:
        path = file_of(group, name := left.pop(), folders)
        if name in included or path is None:
            continue
        included.add(name)
        content = read_yaml(path)
        defaults = content.get("defaults") or [] if isinstance(content, dict) else []
        left += [one for one in defaults if isinstance(one, str) and _INCLUDED.fullmatch(one) and one != "_self_"]
    return included


@contextmanager
def searched_first(folders: Sequence[Path]) -> Iterator[None]:
    """Inside, Hydra, which is initialised already, finds the replacing files before those that they replace."""
    from hydra.core.global_hydra import GlobalHydra

    files = replacements(folders)
    if not files:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="h2h-") as first:
        for name, path in files.items():
            (copy := Path(first) / f"{name}.yaml").parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
        GlobalHydra.instance().config_loader().get_search_path().prepend("replaces", f"file://{first}")
        yield
