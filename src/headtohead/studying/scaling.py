"""The field scaling of a study: the families of arms whose losses follow a law each, and over what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headtohead.building.errors import ConfigurationError, show, unknown
from headtohead.building.kinds import Either, Kind, ListOf, MappingOf, MismatchError, OneOf, Text
from headtohead.comparing.scaling_fits import AXES, Axis

if TYPE_CHECKING:
    from headtohead.studying.study import Study

_PARTS: dict[str, Kind] = {
    "families": Either((MappingOf(ListOf(Text())), Text())),
    "axes": ListOf(OneOf(AXES)),
}


@dataclass(frozen=True)
class Scaling:
    """Which laws are fitted."""

    families: str | Mapping[str, tuple[str, ...]]
    """A factor of the ablation, each level of it a family; or families by name, with their arms."""
    axes: tuple[Axis, ...] = AXES


@dataclass(frozen=True)
class ScalingField(Kind):
    """Every key known; what is wrong is told with the key that holds it."""

    def read(self, value: Any) -> Scaling:
        if not isinstance(value, dict):
            raise self.refuse()
        for key in value:
            if key not in _PARTS:
                raise ConfigurationError(unknown(f"{key} is no field of scaling", str(key), list(_PARTS)))
        if "families" not in value:
            raise ConfigurationError("scaling has no families: name a factor of the ablation, or {family: [arms]}")
        families = _read("families", value["families"])
        if isinstance(families, dict):
            families = {family: tuple(arms) for family, arms in families.items()}
        return Scaling(families, tuple(_read("axes", value.get("axes", AXES))))

    def wants(self) -> str:
        return f"a mapping of families and axes ({', '.join(AXES)})"


def families_of(study: Study) -> dict[str, tuple[str, ...]]:
    """By family the arms that the study has; empty where no law is asked for."""
    if study.scaling is None:
        return {}
    families = study.scaling.families
    if not isinstance(families, str):
        return {family: tuple(arm for arm in arms if arm in study.arms) for family, arms in families.items()}
    assert study.ablation is not None, "a factor was named"
    design = study.ablation.design()
    return {
        level: tuple(arm for arm, levels in design.items() if levels[families] == level and arm in study.arms)
        for level in study.ablation.factors[families]
    }


def scaling_faults(study: Study) -> Iterator[str]:
    """Families that name what is not there, a sentence each."""
    if study.scaling is None:
        return
    families = study.scaling.families
    if not study.scaling.axes:
        yield f"scaling.axes=[] is refused: give one or more of {', '.join(AXES)}, or leave it out for all"
    if isinstance(families, str):
        factors = list(study.ablation.factors) if study.ablation is not None else []
        if families not in factors:
            yield unknown(f"scaling.families={families} is no factor of the ablation", families, factors)
    else:
        for family, arms in families.items():
            for arm in arms:
                if arm not in study.arms:
                    yield unknown(f"scaling.families.{family} names {arm}, which is no arm", arm, list(study.arms))
    if study.direction == "max":
        yield f"scaling fits laws to losses, which fall, and metric={study.metric} is to rise: take scaling out"


def _read(key: str, value: Any) -> Any:
    try:
        return _PARTS[key].read(value)
    except MismatchError as mismatch:
        raise ConfigurationError(f"scaling.{key}={show(value)} is refused: it must be {mismatch}") from None
