"""`h2h list pretrained`: the families of published checkpoints, which of their classes start which heads, and what was
compared with their references."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

PRETRAINED = "pretrained"
TITLE = "pretrained, families that init_from=hf:NAME reads; docs/parity.md has what was compared with each"


def pretrained_families() -> dict[str, dict[str, Any]]:
    """Return, by model_type, a sentence on the family, its classes with the head that each starts, whether models of
    ours are written in its form, and the figures of its comparisons."""
    from headtohead.pretrained.evidence import evidence
    from headtohead.pretrained.families import FAMILIES
    from headtohead.pretrained.family import Family

    return {
        family.model_type: {
            "about": (family.__doc__ or "").partition("\n")[0],
            "heads": {name: head for name, head in family.architectures.items() if head is not None},
            "is_written": type(family).hub_config is not Family.hub_config,
            "compared": asdict(evidence()[family.model_type]),
        }
        for family in FAMILIES
    }


def family_lines(told: dict[str, Any]) -> list[str]:
    """Return the sentence on a family, and below it its classes with their heads, and what was compared."""
    from headtohead.pretrained.evidence import Evidence

    heads = ", ".join(f"{name} ({head})" for name, head in told["heads"].items())
    return [
        told["about"],
        heads + ("; written by h2h export --to hub" if told["is_written"] else ""),
        str(Evidence(**told["compared"])),
    ]
