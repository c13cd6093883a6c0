"""What `h2h list data` tells of published sets: their size, licence and task, and whether they are cached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from headtohead.building.choices import Choice
from headtohead.data.hub.remembering import is_fetched


@dataclass(frozen=True)
class PublishedSet:
    """As its YAML says."""

    task: str
    size: str
    licence: str
    card: str
    is_cached: bool
    """Whether its files were fetched, and still lie in the cache."""

    @property
    def line(self) -> str:
        """For a person."""
        return f"{self.task}; {self.size}; licence {self.licence}; {'cached' if self.is_cached else 'not cached'}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def published_sets(choices: Iterable[Choice]) -> dict[str, PublishedSet]:
    """Those among the choices of a group, by name."""
    return {choice.name: found for choice in choices if (found := _published_set(choice)) is not None}


def _published_set(choice: Choice) -> PublishedSet | None:
    text = choice.path.read_text(encoding="utf-8")
    if "\nabout:\n" not in text:
        return None
    import yaml

    content = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    about: dict[str, Any] = content["about"]
    is_cached = is_fetched(str(content.get("name")), content.get("subset"), content.get("revision"))
    task, size, licence, card = (str(about.get(part) or "unknown") for part in ("task", "size", "licence", "card"))
    return PublishedSet(task, size, licence, card, is_cached)
