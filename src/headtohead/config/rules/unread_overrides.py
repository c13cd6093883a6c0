"""Refuse overrides of a model's parts that no layer is made of: an arm that sets one would be its baseline under
another name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from headtohead.config.compose.layer_patterns import PATTERNS
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.config_view import STACK_SLOTS, ConfigView

_ANEW = ("model", "experiment")
"""The choices that bring a whole model: overrides before them are of another one."""
_UNSET = {"num_early_layers": ("0", "null")}
"""The values by which a field of the model is left empty, where these are others than those of the rest."""
_EARLY = ("num_early_layers", "early_feedforward")
_PART = re.compile(
    r"model(?:\.(?P<side>encoder|decoder))?\.(?:(?P<slot>"
    + "|".join([*STACK_SLOTS, "num_layers", *(one.field for one in PATTERNS), *_EARLY])
    + r")|(?P<parts>"
    + "|".join(one.parts for one in PATTERNS)
    + r")\.\w+)(?:\.|$)"
)
_OF_SLOT = {name: one.slot for one in PATTERNS for name in (one.field, one.parts)} | dict.fromkeys(
    _EARLY, "feedforward"
)
"""The slot that other fields fill, too."""


def refuse_unread(overrides: Sequence[str], config: Mapping[str, object]) -> None:
    """Raise ConfigurationError for an override of a part that no layer has, unless a later one took its place, as a
    choice for its slot, a pattern or a feed-forward of early layers does, and no field of one."""
    view, later = ConfigView(config), set[str]()
    in_force = _in_force(view)
    for override in reversed(overrides if in_force else ()):
        field = _field_of(override)
        if field in _ANEW:
            return
        part = _PART.match(field)
        is_whole = part is not None and part.end() == len(field)
        if part is None or override.startswith("~") or (is_whole and _is_unset(part, override)):
            continue
        path, slot = part[0].rstrip("."), _slot_of(part)
        if slot not in later and path not in in_force[slot]:
            raise ConfigurationError(_sentence(override, slot, in_force[slot], view))
        if is_whole and not part["parts"]:
            later.add(slot)


def _field_of(override: str) -> str:
    """Return the field that an override sets, which a choice names before or after its group's @."""
    group, _, package = key_of(override).partition("@")
    return package or group.replace("/", ".")


def _is_unset(part: re.Match[str], override: str) -> bool:
    return override.partition("=")[2].strip() in _UNSET.get(part["slot"], ("null", "[]"))


def _slot_of(part: re.Match[str]) -> str:
    name = part["parts"] or part["slot"]
    return _OF_SLOT.get(name, name)


def _in_force(view: ConfigView) -> dict[str, dict[str, None]]:
    """Return the fields that the layers of all stacks come from, by slot."""
    fields: dict[str, dict[str, None]] = {}
    for side in view.stacks():
        for slot in STACK_SLOTS:
            fields.setdefault(slot, {})[side.paths[slot]] = None
        for name, path in view.fields_of(side.path).items():
            fields.setdefault(_OF_SLOT.get(name, name), {})[path] = None
    return fields


def _sentence(override: str, slot: str, in_force: Mapping[str, None], view: ConfigView) -> str:
    fields = (*(one.field for one in PATTERNS), *_EARLY)
    parts = [path for path in in_force if not path.endswith(tuple(f".{name}" for name in fields))]
    pattern = next((one for one in PATTERNS if one.slot == slot), None)
    paths = [path for path in in_force if pattern and path.endswith(f".{pattern.field}") and view.at(path)]
    if pattern and paths and all(path.startswith(f"model.{pattern.parts}.") for path in parts):
        names = " and ".join(paths)
        return (
            f"{override} has no effect, since {names} {'name' if len(paths) > 1 else 'names'} the {pattern.noun}s of "
            f"all layers: set the fields of {', '.join(sorted(parts))}, or give {paths[0]}=null too"
        )
    where = (
        "the layers are counted by"
        if slot == "num_layers"
        else f"all layers take their {pattern.noun if pattern else slot} from"
    )
    instead = "that" if len(parts) == 1 else "one of them"
    return f"{override} has no effect, since {where} {' and '.join(sorted(parts))}: set {instead}, or leave it out"
