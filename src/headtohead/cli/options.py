"""The options that every command with a configuration takes; and what commands with workers share: their options, the
workers' own command, and the display of progress."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from headtohead.cli.terminal import note
from headtohead.config.compose.choices import FOUND_BY_ITSELF, config_folders
from headtohead.config.compose.replacements import replacements
from headtohead.config.errors import ConfigurationError, one_of
from headtohead.config.run_config import RunConfig
from headtohead.config.trust import trust
from headtohead.ranges import Range, Threads, range_of

if TYPE_CHECKING:
    from headtohead.execution.launchers.worker_commands import Workers
    from headtohead.execution.monitor import RunStatus

_UNRECOGNIZED = "unrecognized arguments: "
"""The beginning of argparse's words for what no option takes."""
_MULTIRUN = "a run for every combination of values: lr=1e-3,1e-4 seed=range(3) model/norm=glob(*)"

_LONGEST = 40
"""Characters of a value that a refusal repeats."""
_PICTURES = (".png", ".svg", ".pdf")
_WORD = re.compile(rf"\S{{{2 * _LONGEST},}}")
"""A word so long that nobody reads it to its end."""


_ELSEWHERE = {
    ("-cn", "--config-name"): "each command has a root of its own; --config-dir DIR experiment=NAME chooses your file",
    ("-cp", "--config-path"): "--config-dir DIR adds your YAML files to those of the package",
    ("-sc", "--shell-completion"): "h2h --install-completion sets completion up",
    ("--hydra-help",): "--help shows groups and fields, h2h list GROUP the choices of a group",
    ("--experimental-rerun",): "h2h train --from-run RUN repeats a run",
}
"""Options of Hydra, and what is typed here instead."""


class _Elsewhere(argparse.Action):
    """Refuses an option of Hydra and says what is typed instead."""

    def __call__(self, *options: object) -> NoReturn:
        del options
        raise ConfigurationError(f"{self.option_strings[-1]} is not taken here: {self.const}")


LIST_OPTIONS = "--options-of-this-command"


class OptionsListed(Exception):  # noqa: N818  an answer, no error
    """Carries the options of a command to who completes a line."""

    def __init__(self, options: list[str]) -> None:
        super().__init__()
        self.options = options


class Parser(argparse.ArgumentParser):
    """Says its errors as one sentence, like every other refusal; an empty path is one, since it would be read as the
    working folder: `h2h compare "$RUN"` where RUN is not set."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._list_options(args)
        return self._refuse_empty_paths(*super().parse_known_args(args, namespace))

    def parse_known_intermixed_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as the other does, which Python 3.13 no longer calls from here."""
        self._list_options(args)
        return self._refuse_empty_paths(*super().parse_known_intermixed_args(args, namespace))

    def _list_options(self, args: Sequence[str] | None) -> None:
        if LIST_OPTIONS in (args or ()):
            visible = [action for action in self._actions if action.help != argparse.SUPPRESS]
            raise OptionsListed([option for action in visible for option in action.option_strings])

    def _refuse_empty_paths(self, options: argparse.Namespace, rest: list[str]) -> tuple[argparse.Namespace, list[str]]:
        for action in self._actions:
            typed = getattr(options, action.dest, None)
            typed = typed if isinstance(typed, list) else [typed]
            if not action.option_strings and "" in typed:
                self.error(f"{action.metavar or action.dest} is empty: is a variable of the shell not set?")
        return options, rest

    def error(self, message: str) -> NoReturn:
        if message.startswith(_UNRECOGNIZED):
            message = self._unrecognized(message)
        shortened = _WORD.sub(lambda word: f"{word[0][:_LONGEST]}...", message)
        raise ConfigurationError(f"{shortened}; {self.prog} --help shows what it takes")

    def _unrecognized(self, message: str) -> str:
        """Return the refusal of an option that there is not, with the one that was probably meant."""
        typed = message.removeprefix(_UNRECOGNIZED).lstrip().partition(" ")[0].partition("=")[0]
        visible = [action for action in self._actions if action.help != argparse.SUPPRESS]
        options = [name for action in visible for name in action.option_strings if name.startswith("--")]
        near = get_close_matches(typed, options, n=1, cutoff=0.75)
        return f"{typed} is not an option (did you mean {near[0]}?)" if near else message


def command_parser(command: str, description: str, epilog: str = "") -> Parser:
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
    to.add_argument("overrides", nargs="*", default=[], metavar="OVERRIDE", help="field=value or group=choice")
    to.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    help_text = "print the composed configuration and stop"
    to.add_argument("-c", "--cfg", choices=["job", "all", "hydra"], metavar="job", help=help_text)
    to.add_argument("-p", "--package", metavar="PART", help="with --cfg: this part of it, such as model.mixer")
    to.add_argument("--resolve", action="store_true", help="with --cfg: fill in references (they always are)")
    to.add_argument("--info", action="store_true", help="print the folders that are searched and the choices, and stop")
    to.add_argument("-r", "--run", action="store_true", help=argparse.SUPPRESS)  # one run, which is the default
    for options, instead in _ELSEWHERE.items():
        to.add_argument(*options, action=_Elsewhere, nargs="?", const=instead, help=argparse.SUPPRESS)
    to.add_argument("-m", "--multirun", action="store_true", help=_MULTIRUN if several else argparse.SUPPRESS)
    add_trust(to)


def check_runs(paths: Sequence[str]) -> None:
    """Raise for the first path that holds no run, before what opens runs is imported."""
    from headtohead.records.run_folder import load_run

    for path in paths:
        load_run(path)


def add_from_run(to: Parser, purpose: str) -> None:
    """Add the option by which a command takes the configuration of a run, with overrides on top."""
    to.add_argument("--from-run", metavar="PATH", help=f"a run to {purpose}: its folder, record.json or config.yaml")


def parse(parser: Parser, arguments: Sequence[str], *, several: bool = False) -> argparse.Namespace:
    """Options may stand before, between and after overrides."""
    options = parser.parse_intermixed_args(list(arguments))
    if options.multirun and not several:
        raise ConfigurationError(
            f"{parser.prog} looks at one run, and --multirun makes many: leave it out, or h2h train --multirun"
        )
    if "overrides" in vars(options):
        from headtohead.config.compose.steps_and_batches import refuse_both

        refuse_both(options.overrides)
    if "config_dir" in vars(options) and FOUND_BY_ITSELF.is_dir():
        note(f"with the choices of {FOUND_BY_ITSELF}")
    if "config_dir" in vars(options):
        for name, path in replacements(config_folders(options.config_dir)).items():
            note(f"{os.path.relpath(path)} replaces the shipped {name}")
    if getattr(options, "cfg", None) == "hydra":
        raise ConfigurationError("Hydra only composes here, so that --cfg hydra has nothing to show: --cfg job")
    if getattr(options, "package", None) and not options.cfg:
        raise ConfigurationError("--package names a part of what --cfg job prints: give --cfg job too")
    if getattr(options, "resolve", False) and not options.cfg:
        raise ConfigurationError("--resolve fills in the references of what --cfg job prints: give --cfg job too")
    if getattr(options, "info", False):
        options.cfg = options.cfg or "job"
    trust(getattr(options, "trust", ()))
    return options


def refuse_unread(parser: argparse.ArgumentParser, options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Refuse those of the named options that were given: nothing would read them, for the reason that `why` says."""
    typed = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name) != parser.get_default(name)]
    if typed:
        raise ConfigurationError(f"{' and '.join(typed)} would have no effect: {why}")


def within(of: Any) -> Callable[[str], Any]:
    """Return what reads an option's number, of the type and in the range of an annotation: `type=within(Length)`."""
    kind, limit = get_args(of)[0], range_of(of)
    assert limit is not None, f"{of} has no range"

    return partial(_number, kind, limit)


def _number(kind: Callable[[str], Any], limit: Range, text: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"{_shortened(text)} is refused: it must be {expected}") from None
    if not limit.holds(value):
        raise argparse.ArgumentTypeError(f"{_shortened(text)} is refused: it must be {limit.wants()}")
    return value


def several(of: Any, example: str) -> Callable[[str], tuple[Any, ...]]:
    """Return what reads an option's numbers, with commas between them."""
    limit = range_of(of)
    assert limit is not None, f"{of} has no range"
    return partial(_numbers, example, limit)


def _numbers(example: str, limit: Range, text: str) -> tuple[Any, ...]:
    if not re.fullmatch(r"\s*[-+\d]+\s*(,\s*[-+\d]+\s*)*", text):
        raise argparse.ArgumentTypeError(f"{_shortened(text)!r} is not a list of whole numbers such as {example}")
    return tuple(_number(int, limit, one) for one in text.split(","))


def picture(text: str) -> str:
    """Return the name of a file whose ending says what kind of picture it is."""
    if Path(text).suffix.lower() not in _PICTURES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a picture: end its name with {', '.join(_PICTURES)}")
    return text


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def composed(options: argparse.Namespace, root: str = "train") -> dict[str, Any]:
    """Return the configuration that was asked for: overrides of the defaults, or of a run's own."""
    if getattr(options, "from_run", None):
        from headtohead.config.origins.from_run import rerun

        return rerun(options.from_run, options.overrides, options.config_dir)
    from headtohead.config.compose.composition import compose_checked

    return compose_checked(root, options.overrides, options.config_dir)


def configuration_text(options: argparse.Namespace, config: dict[str, Any]) -> str:
    """Return what --cfg and --info ask for."""
    if options.info:
        folders = [f"  {folder}" for folder in config_folders(options.config_dir)]
        chosen = [f"  {group}: {choice}" for group, choice in RunConfig(config).choices.items()]
        return "\n".join(["searched, in this order:", *folders, "choices:", *chosen])
    part: Any = config
    for name in filter(None, (options.package or "").removeprefix("_global_").split(".")):
        if not isinstance(part, dict) or name not in part:
            known = one_of(part) if isinstance(part, dict) else "it has no parts"
            raise ConfigurationError(f"--package {options.package} names no part of the configuration ({known})")
        part = part[name]
    return as_yaml(part) if isinstance(part, dict) else str(part)


def as_yaml(config: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(config, sort_keys=False, allow_unicode=True)).rstrip()


INTERRUPTED = 130


def add_workers(to: Parser) -> None:
    add_processes(to)
    to.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    add_trust(to)


def add_processes(to: Parser) -> None:
    """Add the options of processes to a command that has --config-dir already."""
    to.add_argument("--workers", type=within(Threads), default=1, metavar="N", help="runs at once; default 1")
    to.add_argument(
        "--threads",
        type=within(Threads),
        metavar="N",
        help="of the processor for each run; default: all, shared by workers",
    )
    to.add_argument("--worker", action="store_true", help="only do runs, for a scheduler: no plan, no report")
    to.add_argument("--parent", type=int, help=argparse.SUPPRESS)


def has_launcher(overrides: Sequence[str]) -> bool:
    from headtohead.execution.launchers.worker_commands import launcher_choice

    return bool(launcher_choice(overrides).of_launcher)


def take_workers(options: argparse.Namespace) -> Workers:
    """Remove the overrides that choose the launcher, and return the workers that it starts."""
    from headtohead.execution.launchers.worker_commands import workers_for

    workers, options.overrides = workers_for(
        options.overrides, options.workers, options.threads, options.config_dir, options.trust
    )
    options.workers, options.threads = workers.number, workers.threads
    return workers


@contextmanager
def progress(total: Callable[[list[RunStatus]], int]) -> Iterator[Callable[[list[RunStatus]], None]]:
    """Show a bar on a terminal, else a line for every run that ends; `total` is how many runs there will be."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    known: set[str] | None = None
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    quiet = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as shown:
        bar = shown.add_task("")

        def show(statuses: list[RunStatus]) -> None:
            nonlocal known
            done = [run_status for run_status in statuses if run_status.is_done]
            running = [run_status.run.name for run_status in statuses if run_status.status == "running"]
            words = f"{len(done)} of {total(statuses)} runs" + (f", {' and '.join(running)}" if running else "")
            shares = sum(run_status.share for run_status in statuses)
            shown.update(bar, total=total(statuses), completed=shares, description=words)
            new = [run_status for run_status in done if known is not None and run_status.run.id not in known]
            for number, run_status in enumerate(new if quiet else (), start=len(done) - len(new) + 1):
                text = run_status.status.replace("_", " ")
                note(f"{run_status.run.name}: {text} ({number} of {total(statuses)})")
            known = {run_status.run.id for run_status in done}

        yield show
