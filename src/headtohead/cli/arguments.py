"""The options that every command with a configuration takes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from headtohead.building.epochs import refuse_both
from headtohead.building.errors import ConfigurationError

_MULTIRUN = "a run for every combination of values: lr=1e-3,1e-4 seed=range(3) model/norm=glob(*)"


class Parser(argparse.ArgumentParser):
    """Says its errors as one sentence, like every other refusal."""

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(f"{message}; {self.prog} --help shows what it takes")


def parser(command: str, description: str, epilog: str = "") -> Parser:
    return Parser(
        prog=f"h2h {command}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_configuration(to: Parser, *, several: bool = False) -> None:
    """Overrides, --config-dir and --cfg, as Hydra spells them; several: for a command that may make many runs."""
    to.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="field=value or group=choice")
    to.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    to.add_argument("--cfg", choices=["job"], help="print the composed configuration and stop")
    to.add_argument("--resolve", action="store_true", help="with --cfg: fill in references (they always are)")
    to.add_argument("-m", "--multirun", action="store_true", help=_MULTIRUN if several else argparse.SUPPRESS)


def parse(taken: Parser, arguments: Sequence[str], *, several: bool = False) -> argparse.Namespace:
    """Options may stand before, between and after overrides."""
    given = taken.parse_intermixed_args(list(arguments))
    if given.multirun and not several:
        raise ConfigurationError(
            f"{taken.prog} looks at one run, and --multirun makes many: leave it out, or h2h train --multirun"
        )
    refuse_both(getattr(given, "overrides", ()))
    return given


def composed(given: argparse.Namespace, root: str = "train") -> dict[str, Any]:
    from headtohead.building.configuration import compose_checked

    return compose_checked(root, given.overrides, given.config_dir)


def as_yaml(config: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(config, sort_keys=False, allow_unicode=True)).rstrip()
