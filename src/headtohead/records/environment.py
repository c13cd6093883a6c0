"""Describe the environment of a run as far as it can change results: packages, Python, platform, code version,
device."""

from __future__ import annotations

import functools
import hashlib
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from headtohead.records.record import Environment

PACKAGES = (
    "headtohead",
    "torch",
    "pytorch-lightning",
    "hydra-core",
    "omegaconf",
    "wandb",
    "torchmetrics",
    "datasets",
    "tokenizers",
    "numpy",
    "scikit-learn",
    "transformers",
    "triton",
    "flash-linear-attention",
    "mamba-ssm",
    "causal-conv1d",
)
"""The packages that can change a result; one that is not installed is left out."""


def collect_environment(device: Mapping[str, object], config: Mapping[str, object] | None = None) -> Environment:
    """Return what is known of the machine and the code: that of the working folder, of this package, and of the user's
    own modules that the configuration names. `device` is what training knows of its devices."""
    commit, dirty = git_state(Path.cwd())
    package_commit, package_dirty = _state_at_first(Path(__file__).parent)
    return Environment(
        packages=dict(package_versions()),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        device=dict(device),
        git_commit=commit,
        git_dirty=dirty,
        package_commit=package_commit,
        package_dirty=package_dirty,
        modules=own_modules(config or {}),
    )


def read_unchanging() -> None:
    """Read, once for all runs of this process and those forked from it, what none of them can change."""
    package_versions()
    _state_at_first(Path(__file__).parent)


def own_modules(config: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """Return the state of every imported module that a `_target_` names and that is neither ours nor installed."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")]
    installed.append(Path(__file__).resolve().parents[1])
    modules = {}
    for name in sorted({target.rpartition(".")[0] for target in target_names(config)}):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None or any(Path(file).resolve().is_relative_to(folder) for folder in installed):
            continue
        content, folder = Path(file).read_bytes(), Path(file).resolve().parent
        changes = _git(folder, "status", "--porcelain", "--", file)
        modules[name] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "commit": _git(folder, "rev-parse", "HEAD"),
            "dirty": None if changes is None else bool(changes),
        }
    return modules


def target_names(node: Any) -> Iterator[str]:
    """Yield the names of the classes that a configuration makes, in its order."""
    if isinstance(node, Mapping):
        if isinstance(node.get("_target_"), str):
            yield node["_target_"]
        node = list(node.values())
    if isinstance(node, list | tuple):
        for item in node:
            yield from target_names(item)


@functools.cache
def _state_at_first(folder: Path) -> tuple[str | None, bool | None]:
    """Return the state of the folder when it was first requested: imported code stays as it was."""
    return git_state(folder)


@functools.cache
def package_versions() -> Mapping[str, str]:
    """Return the version of each package that can change a result, read once, since what is imported stays."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Return the commit, and whether tracked files differ from it; None, None outside a repository or without git."""
    status = _git(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    lines = [] if status is None else status.splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid")), None)
    if commit is None or commit == "(initial)":
        return None, None
    return commit, any(not line.startswith("#") for line in lines)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
