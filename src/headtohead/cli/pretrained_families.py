"""`h2h list pretrained`: the families of published checkpoints, and which of their classes start which heads."""

from __future__ import annotations

from typing import Any

PRETRAINED = "pretrained"
TITLE = "pretrained, families that init_from=hf:NAME reads; docs/parity.md has what was compared with each"


def pretrained_families() -> dict[str, dict[str, Any]]:
    """Return, by model_type, a sentence on the family, its classes with the head that each starts, and whether models
    of ours are written in its form."""
    from headtohead.pretrained.families import FAMILIES
    from headtohead.pretrained.family import Family

    return {
        family.model_type: {
            "about": (family.__doc__ or "").partition("\n")[0],
            "heads": {name: head for name, head in family.architectures.items() if head is not None},
            "is_written": type(family).hub_config is not Family.hub_config,
        }
        for family in FAMILIES
    }


def family_lines(told: dict[str, Any]) -> list[str]:
    """Return the sentence on a family, and its classes with their heads below it."""
    heads = ", ".join(f"{name} ({head})" for name, head in told["heads"].items())
    return [told["about"], heads + ("; written by h2h export --to hub" if told["is_written"] else "")]
