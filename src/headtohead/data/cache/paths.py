"""The folders of caches on this machine, and the hub's address; listings read them too, so nothing heavy is
imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HUB = "https://huggingface.co"


def cache_root() -> Path:
    """Return HEADTOHEAD_CACHE, else the platform's folder for caches."""
    if chosen := os.environ.get("HEADTOHEAD_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "headtohead"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "headtohead" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headtohead"


def hub_cache() -> Path:
    """Return the folder of the Hugging Face libraries' downloads: HF_HUB_CACHE, else below HF_HOME."""
    if chosen := os.environ.get("HF_HUB_CACHE"):
        return Path(chosen).expanduser()
    home = os.environ.get("HF_HOME")
    above = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return (Path(home).expanduser() if home else above) / "hub"


def hub_endpoint() -> str:
    """Return the hub's address; HF_ENDPOINT names a mirror."""
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def is_offline() -> bool:
    """Return whether the environment forbids asking the hub: HF_HUB_OFFLINE=1."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
