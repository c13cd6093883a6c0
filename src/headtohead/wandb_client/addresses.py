"""Parse the addresses of runs in Weights & Biases: a project's, those of a sweep or a study, or a single run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headtohead.errors import UsageError

FORMS = "wandb:ENTITY/PROJECT, followed by nothing, /RUN, /sweeps/ID, /groups/NAME or /studies/NAME"
_FILTERS = {"sweeps": "sweep", "groups": "group", "studies": "group"}
"""W&B's name of what sets a folder of its page apart; a study is the group of its runs."""
_SERVER = re.compile(r"https?://[^/]+/")


class WandbError(UsageError):
    """W&B gave no runs; the message says why in a sentence."""


@dataclass(frozen=True)
class RunsAddress:
    """A runs address is the parsed text after `wandb:`."""

    typed: str
    entity: str
    project: str
    run: str | None = None
    filters: Mapping[str, str] = field(default_factory=dict)
    """The filters for W&B's client; empty for all of a project."""

    @property
    def path(self) -> str:
        """Return the path of the project, or of the run."""
        return "/".join(part for part in (self.entity, self.project, self.run) if part)


def address_of(typed: str) -> RunsAddress:
    """An address of a page in a browser is taken, too."""
    text, of_page = _SERVER.subn("", typed.partition("?")[0], count=1)
    parts = [part for part in text.split("/") if part]
    if of_page and len(parts) > 2 and parts[-1] in ("workspace", "overview", "table"):
        parts = parts[:-1]
    match parts:
        case [entity, project]:
            return RunsAddress(typed, entity, project)
        case [entity, project, run] if run not in (*_FILTERS, "runs"):
            return RunsAddress(typed, entity, project, run)
        case [entity, project, "runs", run]:
            return RunsAddress(typed, entity, project, run)
        case [entity, project, kind, name] if kind in _FILTERS:
            return RunsAddress(typed, entity, project, filters={_FILTERS[kind]: name})
        case [_, _, *_]:
            raise WandbError(f"wandb:{typed} is not an address of runs: write {FORMS}")
        case _:
            raise WandbError(f"wandb:{typed} names no project: write {FORMS}")
