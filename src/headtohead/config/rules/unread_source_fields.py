"""Refuse overrides of a source's fields where the data made of it read texts in their own way: nothing would read
them, and an arm that sets one would be its baseline under another name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.run_config import Node
from headtohead.config.schema.source_code import class_value


def refuse_unread_of_sources(overrides: Sequence[str], config: Mapping[str, object]) -> None:
    """Raise ConfigurationError for an override of a field that the data made of this source do not read."""
    by_key = {key_of(override): override for override in overrides if not override.startswith("~")}
    if not any(key.startswith("data.") for key in by_key):
        return
    view = ConfigView(config)
    for path, choice, node in view.data_nodes():
        for unread, instead in _unread(path, node):
            if unread in by_key:
                raise ConfigurationError(
                    f"{by_key[unread]} has no effect, since {choice} reads all its texts by {instead}: set that, or "
                    "leave it out"
                )


def _unread(path: str, node: Node) -> Iterator[tuple[str, str]]:
    """Yield each field of a source that these data do not read, and the field that they read instead."""
    for field in class_value(node["_target_"], "own_fields") or ():
        for name, part in _sources(node).items():
            if field in part:
                yield f"{path}.{name}.{field}", f"{path}.{field}"
    first, *others = _sources(node).items() or [("", {})]
    for field in class_value(node["_target_"], "fields_of_first") or ():
        for name, part in others:
            if part.get(field) != first[1].get(field):
                yield f"{path}.{name}.{field}", f"{path}.{first[0]}.{field}"


def _sources(node: Node) -> dict[str, Node]:
    """Return the nodes that some data are made of, by their path within it."""
    parts = {"of": node.get("of"), **{f"sources.{name}": part for name, part in (node.get("sources") or {}).items()}}
    return {name: part for name, part in parts.items() if isinstance(part, Mapping)}
