"""The groups and their choices, read from the file names and first comment lines of `conf/`, without Hydra."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from headtohead.building.errors import ConfigurationError, unknown
from headtohead.files.reading import read_text

FOUND_BY_ITSELF = Path("headtohead") / "conf"
"""Below the working folder: a user's own YAML files, by group."""


@lru_cache(maxsize=1)
def config_folder() -> Path:
    """`conf/`: inside the package when installed from a wheel, at the top of the checkout otherwise."""
    package = Path(__file__).resolve().parents[1]
    candidates = (package / "conf", package.parents[1] / "conf")
    for candidate in candidates:
        if (candidate / "train.yaml").is_file():
            return candidate
    raise ConfigurationError(f"no train.yaml in {' or '.join(map(str, candidates))}: install headtohead again")


def config_folders(config_dir: str | Path | None = None) -> tuple[Path, ...]:
    """Return where configurations are looked for: the package's own folder, the one that --config-dir names, and
    headtohead/conf in the working folder."""
    found = [config_folder()]
    if config_dir is not None:
        folder = Path(config_dir).expanduser().resolve()
        if not folder.is_dir():
            raise ConfigurationError(
                f"--config-dir {config_dir} is not a folder: give one that holds YAML files by group"
            )
        found.append(folder)
    if FOUND_BY_ITSELF.is_dir():
        found.append(FOUND_BY_ITSELF.resolve())
    return tuple(dict.fromkeys(found))


def refuse_shadowed(group: str, name: str, config_dir: str | Path | None = None) -> None:
    """Refuse a user's file of the name of another choice, which Hydra would pass over in silence."""
    files = [path for folder in config_folders(config_dir) if (path := folder / group / f"{name}.yaml").is_file()]
    if len({file.read_bytes() for file in files}) > 1:
        first, *others = map(str, files)
        raise ConfigurationError(
            f"{group}={name} is a choice of {first}, and {' and '.join(others)} would be passed over: "
            f"give yours another name"
        )


@dataclass(frozen=True)
class Choice:
    """One YAML file of a group."""

    group: str
    name: str
    path: Path

    @property
    def description(self) -> str:
        """Its first comment line that is no package header."""
        for line in read_text(self.path).splitlines():
            if not line.startswith("#"):
                return ""
            text = line.lstrip("#").strip()
            if text and not text.startswith("@package"):
                return text
        return ""

    @property
    def target(self) -> str:
        """The class that it names in its first `_target_` line, if any."""
        for line in read_text(self.path).splitlines():
            key, _, rest = line.partition(":")
            if key == "_target_":
                return rest.partition("#")[0].strip()
        return ""


STUDY = "study"
"""A folder beside the groups: its files are questions about many runs, and no part of one."""


def folders(config_dir: str | Path | None = None) -> list[str]:
    """Every folder that holds a YAML file: the groups, and the studies."""
    found = set()
    for folder in config_folders(config_dir):
        parents = {Path(entry.path).parent for entry in yaml_files(folder)}
        found |= {parent.relative_to(folder).as_posix() for parent in parents}
    return sorted(found - {"."})


def yaml_files(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    """Yield every YAML file below a folder; `Path.rglob` takes six times as long, and every composition asks."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from yaml_files(entry.path)
            elif entry.name.endswith(".yaml"):
                yield entry


def groups(config_dir: str | Path | None = None) -> list[str]:
    """Every group that has a choice for a run: `data`, `model`, `model/mixer` ..."""
    return [name for name in folders(config_dir) if name != STUDY]


def choices(group: str, config_dir: str | Path | None = None) -> list[Choice]:
    """The choices of one group; the package's own come before a user's of the same name, as they do for Hydra."""
    found: dict[str, Choice] = {}
    for folder in config_folders(config_dir):
        for path in sorted((folder / group).glob("*.yaml")):
            found.setdefault(path.stem, Choice(group, path.stem, path))
    if not found:
        raise ConfigurationError(unknown(f"{group} is not a group", group, folders(config_dir)))
    return sorted(found.values(), key=lambda choice: choice.name)


def choice_names(group: str, config_dir: str | Path | None = None) -> list[str]:
    return [choice.name for choice in choices(group, config_dir)]
