"""Where a run happened, as far as it can change results: packages, Python, platform, code version, device."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
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


def collect_environment(device: Mapping[str, Any], *, code: Path | None = None) -> Environment:
    """`device` is what training knows of its devices; `code` is the folder whose git commit counts.

    None: that of this package, or, where it was installed outside of any repository, the working directory.
    """
    commit, dirty = git_state(code or Path(__file__).parent)
    if commit is None and code is None:
        commit, dirty = git_state(Path.cwd())
    return Environment(
        packages=package_versions(),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        device=dict(device),
        git_commit=commit,
        git_dirty=dirty,
    )


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
