"""Where a run happened, as far as it can change results: packages, Python, platform, code version, device."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from headtohead.tracking.record import Environment

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
    "einops",
    "numpy",
    "scikit-learn",
    "transformers",
    "triton",
    "flash-linear-attention",
    "mamba-ssm",
    "causal-conv1d",
)
"""What can change a result; one that is not installed is left out."""


def collect_environment(device: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Environment:
    """Return what is known of the machine and the code: that of the working folder, of this package, and of the user's
    own modules that the configuration names. `device` is what training knows of its devices."""
    commit, dirty = git_state(Path.cwd())
    package_commit, package_dirty = git_state(Path(__file__).parent)
    return Environment(
        packages=package_versions(),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        device=dict(device),
        git_commit=commit,
        git_dirty=dirty,
        package_commit=package_commit,
        package_dirty=package_dirty,
        modules=own_modules(config or {}),
    )


def own_modules(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the state of every imported module that a `_target_` names and that is neither ours nor installed."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")]
    installed.append(Path(__file__).resolve().parents[1])
    found = {}
    for name in sorted({target.rpartition(".")[0] for target in _targets(config)}):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None or any(Path(file).resolve().is_relative_to(folder) for folder in installed):
            continue
        content, folder = Path(file).read_bytes(), Path(file).resolve().parent
        changes = _git(folder, "status", "--porcelain", "--", file)
        found[name] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "commit": _git(folder, "rev-parse", "HEAD"),
            "dirty": None if changes is None else bool(changes),
        }
    return found


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(node.get("_target_"), str):
            yield node["_target_"]
        node = list(node.values())
    if isinstance(node, list | tuple):
        for item in node:
            yield from _targets(item)


def package_versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """The commit, and whether tracked files differ from it; None, None outside a repository or without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None, None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


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
