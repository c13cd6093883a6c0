"""The options that every command with a configuration takes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, get_args

from headtohead.building.choices import FOUND_BY_ITSELF
from headtohead.building.epochs import refuse_both
from headtohead.building.errors import ConfigurationError, one_of
from headtohead.building.trust import trust
from headtohead.cli.terminal import note
from headtohead.ranges import range_of

_MULTIRUN = "a run for every combination of values: lr=1e-3,1e-4 seed=range(3) model/norm=glob(*)"

_LONGEST = 40
"""Characters of a value that a refusal repeats."""


_ELSEWHERE = {
    ("-cn", "--config-name"): "each command has a root of its own; --config-dir DIR experiment=NAME chooses your file",
    ("-cp", "--config-path"): "--config-dir DIR adds your YAML files to those of the package",
    ("-sc", "--shell-completion"): "h2h --install-completion sets completion up",
    ("--hydra-help",): "--help shows groups and fields, h2h list GROUP the choices of a group",
    ("--experimental-rerun",): "h2h train --from-run RUN runs a run again",
}
"""Options of Hydra, and what is typed here instead."""


class _Elsewhere(argparse.Action):
    """Refuses an option of Hydra and says what is typed instead."""

    def __call__(self, *given: object) -> NoReturn:
        del given
        raise ConfigurationError(f"{self.option_strings[-1]} is not taken here: {self.const}")


OPTIONS_ASKED = "--options-of-this-command"


class OptionsAsked(Exception):  # noqa: N818  an answer, no error
    """Carries the options of a command to who completes a line."""

    def __init__(self, options: list[str]) -> None:
        super().__init__()
        self.options = options


class Parser(argparse.ArgumentParser):
    """Says its errors as one sentence, like every other refusal."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if OPTIONS_ASKED in (args or ()):
            shown = [action for action in self._actions if action.help != argparse.SUPPRESS]
            raise OptionsAsked([option for action in shown for option in action.option_strings])
        return super().parse_known_args(args, namespace)

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


def add_trust(to: Parser) -> None:
    """Add --trust to a command that makes what a recorded configuration names."""
    to.add_argument(
        "--trust",
        action="append",
        default=[],
        metavar="NAME",
        help="a package or class that runs from elsewhere may name, though it does not come with Head to Head",
    )


def add_configuration(to: Parser, *, several: bool = False) -> None:
    """Overrides, --config-dir and --cfg, as Hydra spells them; several: for a command that may make many runs."""
    to.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="field=value or group=choice")
    to.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    shown = "print the composed configuration and stop"
    to.add_argument("-c", "--cfg", choices=["job", "all", "hydra"], metavar="job", help=shown)
    to.add_argument("-p", "--package", metavar="PART", help="with --cfg: this part of it, such as model.mixer")
    to.add_argument("--resolve", action="store_true", help="with --cfg: fill in references (they always are)")
    to.add_argument("--info", action="store_true", help="print the folders that are searched and the choices, and stop")
    to.add_argument("-r", "--run", action="store_true", help=argparse.SUPPRESS)  # one run, which is the default
    for options, instead in _ELSEWHERE.items():
        to.add_argument(*options, action=_Elsewhere, nargs="?", const=instead, help=argparse.SUPPRESS)
    to.add_argument("-m", "--multirun", action="store_true", help=_MULTIRUN if several else argparse.SUPPRESS)
    add_trust(to)


def parse(taken: Parser, arguments: Sequence[str], *, several: bool = False) -> argparse.Namespace:
    """Options may stand before, between and after overrides."""
    given = taken.parse_intermixed_args(list(arguments))
    if given.multirun and not several:
        raise ConfigurationError(
            f"{taken.prog} looks at one run, and --multirun makes many: leave it out, or h2h train --multirun"
        )
    refuse_both(getattr(given, "overrides", ()))
    if "config_dir" in vars(given) and FOUND_BY_ITSELF.is_dir():
        note(f"with the choices of {FOUND_BY_ITSELF}")
    if getattr(given, "cfg", None) == "hydra":
        raise ConfigurationError("Hydra only composes here, so that --cfg hydra has nothing to show: --cfg job")
    if getattr(given, "package", None) and not given.cfg:
        raise ConfigurationError("--package names a part of what --cfg job prints: give --cfg job too")
    if getattr(given, "info", False):
        given.cfg = given.cfg or "job"
    trust(getattr(given, "trust", ()))
    return given


def within(of: Any) -> Callable[[str], Any]:
    """Return what reads an option's number, of the type and in the range of an annotation: `type=within(Length)`."""
    kind, limit = get_args(of)[0], range_of(of)
    assert limit is not None, f"{of} has no range"

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{_shortened(text)} is refused: it must be {wanted}") from None
        if not limit.holds(value):
            raise argparse.ArgumentTypeError(f"{_shortened(text)} is refused: it must be {limit.wants()}")
        return value

    return read


def several(of: Any, example: str) -> Callable[[str], tuple[Any, ...]]:
    """Return what reads an option's numbers, with commas between them."""
    one = within(of)

    def read(text: str) -> tuple[Any, ...]:
        if not re.fullmatch(r"\s*[-+\d]+\s*(,\s*[-+\d]+\s*)*", text):
            raise argparse.ArgumentTypeError(f"{_shortened(text)!r} is no list of whole numbers such as {example}")
        return tuple(map(one, text.split(",")))

    return read


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def composed(given: argparse.Namespace, root: str = "train") -> dict[str, Any]:
    from headtohead.building.configuration import compose_checked

    return compose_checked(root, given.overrides, given.config_dir)


def configuration_text(given: argparse.Namespace, config: dict[str, Any]) -> str:
    """Return what --cfg and --info ask for."""
    if given.info:
        from headtohead.building.choices import config_folders

        folders = [f"  {folder}" for folder in config_folders(given.config_dir)]
        chosen = [f"  {group}: {choice}" for group, choice in config["choices"].items()]
        return "\n".join(["searched, in this order:", *folders, "choices:", *chosen])
    part: Any = config
    for name in filter(None, (given.package or "").removeprefix("_global_").split(".")):
        if not isinstance(part, dict) or name not in part:
            known = one_of(part) if isinstance(part, dict) else "it has no parts"
            raise ConfigurationError(f"--package {given.package} names no part of the configuration ({known})")
        part = part[name]
    return as_yaml(part) if isinstance(part, dict) else str(part)


def as_yaml(config: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(config, sort_keys=False, allow_unicode=True)).rstrip()
