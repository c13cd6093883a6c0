"""The way to the pages of a W&B project: the package that makes them, the project meant, and trouble in a sentence."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headtohead.tracking import connection
from headtohead.tracking.connection import TrackingSettings
from headtohead.tracking.wandb import reading_api
from headtohead.tracking.wandb_addresses import WandbError
from headtohead.tracking.wandb_runs import reason_of

PACKAGE = "wandb_workspaces"


@dataclass(frozen=True)
class Project:
    """Of which a page is made."""

    entity: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.entity}/{self.name}"


@contextlib.contextmanager
def opened() -> Iterator[Any]:
    """W&B's client for reading; whatever goes wrong with it or with the package is a WandbError."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise WandbError("pages in W&B are made by a package that is not here: pip install 'headtohead[dashboards]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pydantic, about the package's own code
        importlib.import_module(f"{PACKAGE}.workspaces")
    try:
        yield reading_api()
    except Exception as error:  # the client's own kinds, those of requests and pydantic, and plain ValueErrors
        raise WandbError(reason_of(error)) from None


def project_of(api: Any, typed: str = "", *, settings: TrackingSettings | None = None) -> Project:
    """ENTITY/PROJECT, PROJECT of the default entity, or, where nothing is typed, as runs are sent to."""
    parts = [part for part in typed.split("/") if part]
    if len(parts) > 2:
        raise WandbError(f"{typed} is no project of W&B: write ENTITY/PROJECT, or PROJECT alone")
    sent_to = settings or TrackingSettings()
    name = parts[-1] if parts else connection.project_of(sent_to)
    entity = parts[0] if len(parts) == 2 else connection.entity_of(sent_to) or api.default_entity
    if not entity:
        raise WandbError("W&B tells no default entity for the key in use: write ENTITY/PROJECT")
    return Project(entity, name)


def name_of_view(what: str) -> str:
    """Always the same for the same page, by which it is found again; letters that W&B's addresses carry."""
    return f"nw-{hashlib.sha256(what.encode()).hexdigest()[:11]}-v"
