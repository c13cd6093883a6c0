"""The groups and their choices, read from the file names and first comment lines of `conf/`, without Hydra."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from headtohead.config.compose.replacements import file_of
from headtohead.config.errors import ConfigurationError, unknown
from headtohead.files.safe_read import DamagedFile, read_text, read_yaml

FOUND_BY_ITSELF = Path("headtohead") / "conf"
"""Below the working folder: a user's own YAML files, by group."""


@lru_cache(maxsize=1)
def config_folder() -> Path:
    """Return `conf/`: inside the package when installed from a wheel, at the top of the checkout otherwise."""
    package = Path(__file__).resolve().parents[2]
    candidates = (package / "conf", package.parents[1] / "conf")
    for candidate in candidates:
        if (candidate / "train.yaml").is_file():
            return candidate
    raise ConfigurationError(f"no train.yaml in {' or '.join(map(str, candidates))}: install headtohead again")


def config_folders(config_dir: str | Path | None = None) -> tuple[Path, ...]:
    """Return where configurations are looked for: the package's own folder, the one that --config-dir names, and
    headtohead/conf in the working folder."""
    folders_ = [config_folder()]
    if config_dir is not None:
        folder = Path(config_dir).expanduser().resolve()
        if not folder.is_dir():
            raise ConfigurationError(
                f"--config-dir {config_dir} is not a folder: give one that holds YAML files by group"
            )
        folders_.append(folder)
    if FOUND_BY_ITSELF.is_dir():
        folders_.append(FOUND_BY_ITSELF.resolve())
    return tuple(dict.fromkeys(folders_))


@lru_cache(maxsize=8)
def root_fields(root: str) -> frozenset[str]:
    """Return the names that every configuration of a root has: the groups that it chooses from, and its own fields."""
    content = read_yaml(config_folder() / f"{root}.yaml")
    names = set(content) - {"defaults"}
    for entry in content["defaults"]:
        if isinstance(entry, dict):
            names |= {group for group in entry if not group.startswith(("optional ", "override "))}
        elif entry != "_self_":
            names |= root_fields(entry)
    return frozenset(names)


@dataclass(frozen=True)
class Choice:
    """One YAML file of a group."""

    group: str
    name: str
    path: Path

    @property
    def description(self) -> str:
        """Its first comment line that is not a header for the composition."""
        for line in read_text(self.path).splitlines():
            if not line.startswith("#"):
                return ""
            text = line.lstrip("#").strip()
            if text and not text.startswith(("@package", "replaces:")):
                return text
        return ""

    @property
    def target(self) -> str:
        """Return the class that it names in its first `_target_` line, if any."""
        for line in read_text(self.path).splitlines():
            key, _, rest = line.partition(":")
            if key == "_target_":
                return rest.partition("#")[0].strip()
        return ""


STUDY = "study"
"""A folder beside the groups: its files are questions about many runs, and no part of one."""


def folders(config_dir: str | Path | None = None) -> list[str]:
    """Every folder that holds a YAML file: the groups, and the studies. Every composition asks, and paths as objects
    would take ten times as long."""
    paths = set()
    for folder in config_folders(config_dir):
        parents = {os.path.dirname(entry.path) for entry in yaml_files(folder)}  # noqa: PTH120
        paths |= {Path(parent).relative_to(folder).as_posix() for parent in parents}
    return sorted(paths - {"."})


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
    """Return the choices of one group; the package's own come before a user's of the same name, unless that replaces
    it."""
    searched = config_folders(config_dir)
    names = {path.stem for folder in searched for path in (folder / group).glob("*.yaml")}
    by_name = {name: Choice(group, name, path) for name in names if (path := file_of(group, name, searched))}
    if not by_name:
        raise ConfigurationError(unknown(f"{group} is not a group", group, folders(config_dir)))
    return sorted(by_name.values(), key=lambda choice: choice.name)


def listed_choices(group: str, name: str, config_dir: str | Path | None = None) -> list[str]:
    """Return the groups, with their packages, of which a choice's file lists choices of its own; none where there is no
    such file."""
    path = file_of(group, name, config_folders(config_dir))
    listed = [] if path is None else (read_yaml(path) or {}).get("defaults", [])
    return [str(key) for entry in listed if isinstance(entry, dict) for key in entry]


def choice_names(group: str, config_dir: str | Path | None = None) -> list[str]:
    return [choice.name for choice in choices(group, config_dir)]


def check_chosen(overrides: Sequence[str], folders: Sequence[Path]) -> None:
    """Raise DamagedFile for a choice of a user's folder, group=choice, whose file holds no fields."""
    for folder in folders:
        for path in _chosen(overrides, folder):
            if os.path.lexists(path):
                _check(path)


def check_all(folders: Sequence[Path]) -> None:
    """Raise DamagedFile for the first file of a user's folders that is damaged, chosen by name or by another file."""
    for folder in folders:
        for path in sorted(folder.rglob("*.yaml")):
            _check(path)


def _chosen(overrides: Sequence[str], folder: Path) -> Iterator[Path]:
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        for name in value.strip("[]").split(","):
            yield folder / key.partition("@")[0] / f"{name.strip()}.yaml"


def _check(path: Path) -> None:
    content = read_yaml(path)
    if content is not None and not isinstance(content, dict):
        raise DamagedFile(path, f"is {type(content).__name__}, where fields are expected", "write them as field: value")
