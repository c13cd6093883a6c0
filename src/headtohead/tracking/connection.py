"""Whether a run may go to a Weights & Biases server: a login, and a server that can be reached, found out quickly."""

from __future__ import annotations

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
from headtohead.tracking.wandb_settings import setting

Mode = Literal["auto", "online", "offline", "none"]
MODES: tuple[Mode, ...] = ("auto", "online", "offline", "none")
ARTIFACTS = ("record", "checkpoint")
_DEFAULT_PROJECT = "headtohead"
_DEFAULT_SERVER = "https://api.wandb.ai"


@dataclass(frozen=True)
class TrackingSettings:
    """What conf/tracking sets."""

    mode: Mode = "auto"
    project: str | None = None
    """None means as W&B's settings say, and headtohead where they say nothing."""
    entity: str | None = None
    """None means as W&B's settings say, and the user's default where they say nothing."""
    connect_timeout: Seconds = 3.0
    """Seconds for a first TCP connection, before W&B's client, which waits for minutes, is asked to try."""
    init_timeout: Seconds = 20.0
    finish_timeout: Seconds = 15.0
    """Seconds after the last step for what is not uploaded yet; the rest stays on disk."""
    system_metrics: bool = True
    artifacts: Sequence[str] = ()
    """Of `record` and `checkpoint` what is uploaded when the run is over."""
    artifact_megabytes: NotNegative = 500.0
    artifact_days: Seconds | None = 90.0
    """W&B drops artifacts after so many days; None for never."""
    workspace: bool = False
    """Of a study: make a page and a report in W&B at its end."""

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
            raise UsageError(f"tracking.artifact_days is {self.artifact_days}; give days above 0, or null for ever")


@dataclass(frozen=True)
class Decision:
    """The mode in force, and why, in words for the user."""

    mode: Literal["online", "offline", "none"]
    why: str


def decide(settings: TrackingSettings) -> Decision:
    """Online where asked for and possible; a login is demanded only of those who ask for `online` by name."""
    asked, why = _asked(settings)
    if asked == "none" or asked == "offline":
        return Decision(asked, why)
    if not logged_in():
        if asked == "online":
            raise UsageError(
                f"tracking=online needs a login at {server_url()}: run `wandb login` or set WANDB_API_KEY, "
                "or use tracking=auto or tracking=offline"
            )
        return Decision("offline", "not logged in: `wandb login` changes that")
    trouble = unreachable(server_url(), timeout=settings.connect_timeout)
    if trouble:
        return Decision("offline", f"{server_url()} cannot be reached: {trouble}")
    return Decision("online", "logged in")


def _asked(settings: TrackingSettings) -> tuple[Mode, str]:
    """The mode, and who asked for it: what is configured here, and for `auto` W&B's own settings."""
    if settings.mode != "auto":
        return settings.mode, "asked for"
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
    """Whether W&B's client would find credentials for its server without asking for them."""
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
    """What keeps a TCP connection to the server (or to the proxy before it) from opening; None if nothing does."""
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
