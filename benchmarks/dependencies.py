"""Measure what an installation costs: the size of each package that pyproject names, with its own dependencies apart,
and the processor time of importing it alone: `python benchmarks/dependencies.py`, which docs/install.md quotes."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

_MEGABYTE = 1e6
_TIMER = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"
_OWN = "headtohead"


def size_of(package: str) -> float:
    """Return the megabytes of a package's own files, without what Python compiles of them."""
    files = distribution(package).files or []
    paths = (Path(str(file.locate())) for file in files if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.is_file()) / _MEGABYTE


def import_seconds(module: str, repeats: int = 3) -> float:
    """Return the least processor time of importing a module in a new interpreter."""
    command = [sys.executable, "-W", "ignore", "-c", _TIMER.format(module)]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
               for _ in range(repeats))  # fmt: skip


def requirement_name(requirement: str) -> str:
    """Return the package that a requirement names."""
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None, requirement
    return match[0]


def lines(group: str, requirements: Iterable[str]) -> Iterable[str]:
    """Yield a line for each package of a group, the largest first."""
    names = [name for name in map(requirement_name, requirements) if name != _OWN]
    known = []
    for name in names:
        try:
            known.append((size_of(name), name))
        except PackageNotFoundError:
            yield f"| {group} | `{name}` | not installed | |"
    for size, name in sorted(known, reverse=True):
        module = _MODULES.get(name, name.replace("-", "_"))
        yield f"| {group} | `{name}` | {size:,.1f} MB | {import_seconds(module):.2f} s |"


_MODULES = {
    "hydra-core": "hydra",
    "pillow": "PIL",
    "scikit-learn": "sklearn",
    "pyyaml": "yaml",
    "lm-eval": "lm_eval",
}
"""The modules of packages that have another name."""


def main() -> None:
    """Print the table."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    groups.pop("dev")
    print("| installed by | package | its own files | import |")
    print("| --- | --- | --- | --- |")
    for group, requirements in groups.items():
        for line in lines(group, requirements):
            print(line, flush=True)


if __name__ == "__main__":
    main()
