"""The devices that a plan may name. Nothing here imports torch, so that a wrong name is refused at once."""

from __future__ import annotations

import re

from headtohead.components.processor import cpu_name
from headtohead.config.errors import ConfigurationError, unknown
from headtohead.training.parallel.device_sheets import device_sheets


def speeds() -> dict[str, str]:
    """Return all devices that a plan may name, with their titles."""
    return {**{name: sheet.title for name, sheet in device_sheets().items()}, "cpu": f"this machine's {cpu_name()}"}


def parsed_devices(text: str | None) -> tuple[str, int]:
    """Return the name of a device and how many: "h100-sxm", "h100-sxm x 8" and "h100x8" are all understood."""
    if not text:
        raise ConfigurationError("a plan needs devices: --on h100x8, --on cpu; h2h plan --devices lists them")
    known = speeds()
    aliases = {"h100": "h100-sxm", "a100": "a100-80gb", "here": "cpu"}
    word = text.lower().replace(" ", "").replace("_", "-")
    match = None if word in known or word in aliases else re.fullmatch(r"(.+?)x([1-9]\d{0,6})", word)
    name, count = (match[1], int(match[2])) if match else (word, 1)
    name = aliases.get(name, name)
    if name not in known:
        raise ConfigurationError(unknown(f"--on {text} names no device", name, list(known)))
    return name, count
