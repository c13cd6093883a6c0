"""Find out quickly whether a run can use a Weights & Biases server: a login, and a server that can be reached."""

from __future__ import annotations

import configparser
import netrc
import os
import socket
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from headtohead.errors import UsageError
from headtohead.ranges import NotNegative, Seconds

Mode = Literal["auto", "online", "offline", "none"]
MODES: tuple[Mode, ...] = ("auto", "online", "offline", "none")
ARTIFACTS = ("record", "checkpoint")
_DEFAULT_PROJECT = "headtohead"
_DEFAULT_SERVER = "https://api.wandb.ai"


@dataclass(frozen=True)
class TrackingSettings:
    """Tracking settings are the fields of conf/tracking."""

    mode: Mode = "auto"
    project: str | None = None
    """The project; None means as W&B's settings say, and headtohead where they say nothing."""
    entity: str | None = None
    """The entity; None means as W&B's settings say, and the user's default where they say nothing."""
    connect_timeout: Seconds = 3.0
    """Seconds for a first TCP connection, before W&B's client, which waits for minutes, is asked to try."""
    init_timeout: Seconds = 20.0
    finish_timeout: Seconds = 15.0
    """Seconds after the last step for what is not uploaded yet; the rest stays on disk."""
    job_type: str | None = None
    """The job type; None means as W&B's settings say, and train where they say nothing; parts of a study have their
    own."""
    system_metrics: bool = True
    console: bool = True
    """Whether W&B shows what the run prints and which packages are installed; secrets are masked."""
    artifacts: Sequence[str] = ()
    """The artifacts, `record` and `checkpoint`, that are uploaded when the run is over."""
    artifact_megabytes: NotNegative = 500.0
    artifact_days: Seconds | None = 90.0
    """W&B drops artifacts after so many days; None for never."""
    workspace: bool = False
    """Whether a study makes a page and a report in W&B at its end."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"tracking.mode is {self.mode!r}; choose from {', '.join(MODES)}")
        for name in ("connect_timeout", "init_timeout", "finish_timeout"):
            if getattr(self, name) <= 0:
                raise UsageError(f"tracking.{name} is {getattr(self, name)}; give seconds above 0")
        if unknown := [kind for kind in self.artifacts if kind not in ARTIFACTS]:
            raise UsageError(f"tracking.artifacts has {unknown[0]!r}; choose from {', '.join(ARTIFACTS)}")
        if self.artifact_megabytes <= 0:
            raise UsageError(f"tracking.artifact_megabytes is {self.artifact_megabytes}; give a size above 0")
        if self.artifact_days is not None and self.artifact_days <= 0:
            raise UsageError(
                f"tracking.artifact_days is {self.artifact_days}; give a number of days above 0, or null to keep them"
            )


@dataclass(frozen=True)
class TrackingDecision:
    """The mode in force, and why, in words for the user."""

    mode: Literal["online", "offline", "none"]
    why: str


def decide(settings: TrackingSettings) -> TrackingDecision:
    """Online where requested and possible; a login is demanded only of those who ask for `online` by name."""
    mode, why = _requested_mode(settings)
    if mode == "none" or mode == "offline":
        return TrackingDecision(mode, why)
    if not logged_in():
        if mode == "online":
            raise UsageError(
                f"tracking=online needs a login at {server_url()}: run `wandb login` or set WANDB_API_KEY, "
                "or use tracking=auto or tracking=offline"
            )
        return TrackingDecision("offline", "not logged in: run `wandb login`")
    trouble = unreachable(server_url(), timeout=settings.connect_timeout)
    if trouble:
        return TrackingDecision("offline", f"{server_url()} cannot be reached: {trouble}")
    return TrackingDecision("online", "logged in")


def _requested_mode(settings: TrackingSettings) -> tuple[Mode, str]:
    """Return the mode, and who requested it: what is configured here, and for `auto` W&B's own settings."""
    if settings.mode != "auto":
        return settings.mode, "requested"
    by_wandb: dict[str, Mode] = {"offline": "offline", "dryrun": "offline", "disabled": "none"}
    value = setting("mode") or ""
    source = "WANDB_MODE" if os.environ.get("WANDB_MODE") else "wandb/settings"
    return by_wandb.get(value, "auto"), f"{source} says {value}"


def project_of(settings: TrackingSettings) -> str:
    """Return the project that runs go to."""
    return settings.project or setting("project") or _DEFAULT_PROJECT


def entity_of(settings: TrackingSettings) -> str | None:
    """Return the entity that runs go to; None for the default one of the key in use."""
    return settings.entity or setting("entity")


def server_url() -> str:
    """W&B's server, as W&B's settings name it, else the public one."""
    return (setting("base_url") or _DEFAULT_SERVER).rstrip("/")


def logged_in() -> bool:
    """Return whether W&B's client would find credentials for its server without asking for them."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlsplit(server_url()).netloc
    candidates = [os.environ["NETRC"]] if os.environ.get("NETRC") else ["~/.netrc", "~/_netrc"]
    for candidate in candidates:
        try:
            entry = netrc.netrc(str(Path(candidate).expanduser())).authenticators(host)
        except (OSError, netrc.NetrcParseError):
            continue
        if entry and entry[2]:
            return True
    return False


def unreachable(url: str, *, timeout: float) -> str | None:
    """Return the error that keeps a TCP connection to the server (or to the proxy before it) from opening, or None."""
    target = urlsplit(url)
    proxy = urllib.request.getproxies().get(target.scheme)
    if proxy and not urllib.request.proxy_bypass(target.hostname or ""):
        target = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    port = target.port or (443 if target.scheme == "https" else 80)
    try:
        socket.create_connection((target.hostname or "", port), timeout=timeout).close()
    except OSError as error:
        return str(error) or type(error).__name__
    return None


Name = Literal[
    "mode", "project", "entity", "base_url",
    "run_name", "run_group", "run_tags", "run_notes", "run_job_type", "root_dir",
]  # fmt: skip
VARIABLES: dict[Name, str] = {
    "mode": "WANDB_MODE",
    "project": "WANDB_PROJECT",
    "entity": "WANDB_ENTITY",
    "base_url": "WANDB_BASE_URL",
    "run_name": "WANDB_NAME",
    "run_group": "WANDB_RUN_GROUP",
    "run_tags": "WANDB_TAGS",
    "run_notes": "WANDB_NOTES",
    "run_job_type": "WANDB_JOB_TYPE",
    "root_dir": "WANDB_DIR",
}
"""The variables by the name that a settings file has for them."""


def setting(name: Name) -> str | None:
    """Return what the user has set for W&B's client, `wandb offline` in this folder among it; None where nothing is."""
    if value := os.environ.get(VARIABLES[name]):
        return value
    root = Path(os.environ.get("WANDB_DIR") or ".").expanduser()
    folder = root / (".wandb" if (root / ".wandb").exists() else "wandb")
    own = Path(os.environ.get("WANDB_CONFIG_DIR") or "~/.config/wandb").expanduser()
    return next((value for file in (folder, own) if (value := _read(file / "settings", name))), None)


def _read(file: Path, name: str) -> str | None:
    """A file that W&B's client could not read either says nothing."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(file, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None
    return parser.get("default", name, fallback=None)
