"""Every combination of values that overrides sweep over, as Hydra writes them: a,b range(0,3) choice(a,b) glob(*)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.building.choices import choice_names, groups
from headtohead.building.errors import ConfigurationError
from headtohead.building.overrides import check_digits, key_of

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

MOST = 10_000


def combinations(overrides: Sequence[str], config_dir: str | Path | None = None) -> list[tuple[str, ...]]:
    """The overrides of every run, the last named field varying fastest; raises ConfigurationError.

    Of two values for one field the later counts.
    """
    points = {key_of(override): _points(override, config_dir) for override in overrides}
    number = prod(len(each) for each in points.values())
    if number > MOST:
        raise ConfigurationError(f"these are more than {MOST:,} combinations, the most: sweep over fewer values")
    return [tuple(point) for point in product(*points.values())]


def _points(override: str, config_dir: str | Path | None) -> list[str]:
    parsed = _parsed(override)
    if not parsed.is_sweep_override():
        return [override]
    if not parsed.is_discrete_sweep():
        raise ConfigurationError(
            f"{override} has no end of values: list them, as in {key_of(override)}=0.1,0.3, or let h2h sweep draw them"
        )
    values = _values(parsed, override, config_dir)
    if not values:
        raise ConfigurationError(f"{override} holds no value at all: list some, as in {key_of(override)}=0,1,2")
    return [f"{parsed.get_key_element()}={value}" for value in values]


def _values(parsed: Override, override: str, config_dir: str | Path | None) -> list[str]:
    from hydra.core.override_parser.types import Glob

    pattern = parsed.value()
    if not isinstance(pattern, Glob):
        return list(islice(parsed.sweep_string_iterator(), MOST + 1))
    group = key_of(override).partition("@")[0]
    if group not in groups(config_dir):
        raise ConfigurationError(f"{override} is refused: glob chooses among files of a group, and {group} is none")
    found: list[str] = pattern.filter(choice_names(group, config_dir))
    if not found:
        raise ConfigurationError(f"{override} fits none of {', '.join(choice_names(group, config_dir))}")
    return found


def _parsed(override: str) -> Override:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    check_digits(override)
    try:
        return OverridesParser.create().parse_override(override)
    except HydraException:
        raise ConfigurationError(
            f"an override could not be read ({override}): quote special characters, for example \"notes='a, b = c'\""
        ) from None
