"""Each option of a command is an argument of the function behind it, or stands below with the reason why it is none."""

from __future__ import annotations

import argparse
import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterator, Sequence

import pytest

import headtohead as h2h
from headtohead.api.comparing import ComparedRuns, ReportedResults
from headtohead.api.coordinate_check import CheckedCoordinates
from headtohead.api.error_translation import speech_of
from headtohead.api.finished import EvaluatedRun
from headtohead.api.run_lists import FoundRuns
from headtohead.api.studies import StudyResults
from headtohead.api.training import load_run
from headtohead.cli import COMMANDS
from headtohead.cli.options import LIST_OPTIONS, OptionsListed, Parser
from headtohead.errors import UsageError
from headtohead.finished_runs.loaded_run import LoadedRun
from headtohead.ranges import Range

Function = Callable[..., object]
BELOW = {"study new": ("study_new", []), "list runs": ("listing", ["runs"])}
"""Commands below others: the module, and the words that choose them."""
FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "train": (h2h.train, h2h.train_many),
    "data": (h2h.describe_data,),
    "probe": (h2h.probe, h2h.probe_data, h2h.probe_positions),
    "evaluate": (h2h.evaluate, h2h.lm_eval),
    "embed": (h2h.search, h2h.measure_retrieval),
    "study new": (h2h.new_study,),
    "list": (h2h.choices,),
    "list runs": (h2h.runs,),
    "runs": (h2h.runs, h2h.verify_runs),
    "dashboard": (h2h.dashboard, h2h.wandb_page),
}
"""The functions behind a command, where they are not the one of its name."""
RENAMED: dict[tuple[str, str], tuple[Function, str]] = {
    ("train", "--multirun"): (h2h.train_many, "overrides"),
    ("study", "--plan"): (h2h.study, "run"),
    ("study", "--on"): (StudyResults.plan_on, "on"),
    ("study", "--price"): (StudyResults.plan_on, "price"),
    ("plan", "--study"): (StudyResults.plan_on, "on"),
    ("sweep", "--plan"): (h2h.sweep, "run"),
    ("match", "--arm"): (h2h.match, "arms"),
    ("match", "--move"): (h2h.match, "movable"),
    ("doctor", "--check"): (h2h.doctor, "checks"),
    ("check", "--twin"): (h2h.check, "reference"),
    ("evaluate", "--length"): (h2h.evaluate, "lengths"),
    ("evaluate", "--places"): (h2h.evaluate, "by_position"),
    ("evaluate", "--lm-eval"): (h2h.lm_eval, "tasks"),
    ("evaluate", "--lm-eval-tasks"): (h2h.lm_eval, "folder"),
    ("probe", "--data"): (h2h.probe_data, "run"),
    ("probe", "--positions"): (h2h.probe_positions, "run"),
    ("embed", "--query"): (h2h.search, "queries"),
    ("generate", "--prompt"): (h2h.generate, "prompts"),
    ("generate", "--tokens"): (h2h.generate, "prompts"),
    ("generate", "--stop-token"): (h2h.generate, "stop_tokens"),
    ("study new", "--from"): (h2h.new_study, "start"),
    ("study new", "--arm"): (h2h.new_study, "arms"),
    ("study new", "--force"): (h2h.new_study, "replace_file"),
    ("compare", "--html"): (ReportedResults.report, "file"),
    **{("compare", f"--{name}"): (h2h.compare, "columns")
       for name in ("arm", "seed", "task", "step", "parameters", "flops", "tokens", "seconds")},
    ("list runs", "--columns"): (FoundRuns.to_frame, "columns"),
    ("runs", "--add"): (FoundRuns.tag, "add"),
    ("runs", "--remove"): (FoundRuns.tag, "remove"),
    ("runs", "--text"): (FoundRuns.note, "text"),
    ("runs", "--keep"): (FoundRuns.prune, "keep"),
    ("runs", "--top"): (FoundRuns.prune, "top"),
    ("runs", "--disk"): (FoundRuns.prune, "disk"),
    ("dashboard", "--wandb"): (h2h.wandb_page, "project"),
}  # fmt: skip
"""The argument that an option is under another name, of the function or of a method of its result."""
METHODS: dict[tuple[str, str], Function] = {
    ("coordinates", "--plot"): CheckedCoordinates.plot,
    ("evaluate", "--plot"): EvaluatedRun.plot,
    ("compare", "--latex"): ComparedRuns.to_latex,
    ("compare", "--csv"): ReportedResults.to_frame,
    ("list runs", "--csv"): FoundRuns.to_frame,
}
"""The method of a result that does what the option does, without arguments of its own."""
_OF_MAPS = "--text --second --target --image --fields --against"
NOT_TAKEN: dict[tuple[str, Function], tuple[str, str]] = {
    ("train", h2h.train): ("--multirun --workers --threads --retry", "trains one run, in this process"),
    ("train", h2h.train_many): ("--resumable --take-over", "resumes by the same call, and takes no run over"),
    ("probe", h2h.probe): ("--data --positions --config-dir", "shows attention maps of a run, which has its choices"),
    ("probe", h2h.probe_data): (f"{_OF_MAPS} --positions", "shows rows of data, and no attention maps"),
    ("probe", h2h.probe_positions): (f"{_OF_MAPS} --data --rows --split", "shows encodings, which are of no row"),
    ("evaluate", h2h.evaluate): ("--lm-eval --lm-eval-tasks", "measures on the run's own task"),
    ("evaluate", h2h.lm_eval): (
        "--split --length --lengths --stride --places --config-dir", "has data, splits and lengths of the harness"),
    ("embed", h2h.search): ("--relevant --k --against", "knows no judgements to measure by"),
    ("runs", h2h.verify_runs): (
        "--where --add --remove --text --keep --top --disk", "checks folders, those without a record too"),
    ("runs", h2h.runs): ("--add --remove --text --keep --top --disk --repair", "finds runs, whose methods change them"),
    ("dashboard", h2h.dashboard): ("--wandb", "serves a page of this machine"),
    ("dashboard", h2h.wandb_page): ("--port --open", "makes a page that W&B serves"),
    ("embed", h2h.measure_retrieval): ("--query --top", "ranks for the queries of a file, as deep as is measured"),
}  # fmt: skip
"""The options that one of several functions of a command does not take, and why."""
SHOWN = "says how a terminal or a program sees the result, which is an object"
PRINTED = "prints a configuration, which h2h.compose returns as a dictionary"
REASONS: dict[str | tuple[str, str], str] = {
    "--help": "help(h2h.train)",
    "--json": SHOWN,
    "--cfg": PRINTED,
    "--package": PRINTED,
    "--resolve": PRINTED,
    "--info": PRINTED,
    "--worker": "makes a process a worker of a study, which functions start by themselves",
    ("study", "--watch"): "follows another process on a terminal; h2h.study(..., run=False) says how far it is",
    ("sweep", "--wandb"): "hands a sweep over to W&B's server, whose agents call commands",
    ("sweep", "--join"): "hands a sweep over to W&B's server, whose agents call commands",
    ("plan", "--devices"): "prints names; a device that nobody knows is refused with all that are known",
    ("bench", "--peers"): "compares this package with others, and asks nothing of the user's own model",
    ("bench", "--rounds"): "compares this package with others, and asks nothing of the user's own model",
    ("embed", "--generate"): "writes a small set to try the command on",
    ("compare", "--where"): "prints paths, which h2h.runs has",
    ("runs", "--yes"): "answers a question, which a function does not ask",
}  # fmt: skip
"""The reason why an option of every command, or of one, is no argument."""


def options_of(command: str) -> list[str]:
    module, words = BELOW.get(command, (COMMANDS.get(command, ("",))[0], []))
    with pytest.raises(OptionsListed) as listed:
        importlib.import_module(f"headtohead.cli.{module}").run([*words, LIST_OPTIONS])
    return [option for option in listed.value.options if option.startswith("--")]


def functions_of(command: str) -> Sequence[Function]:
    return FUNCTIONS.get(command) or (getattr(h2h, command),)


def options() -> Iterator[tuple[str, str]]:
    for command in (*COMMANDS, *BELOW):
        yield from ((command, option) for option in options_of(command))


def ranges() -> Iterator[tuple[str, str, Range]]:
    """Yield each option that takes numbers of a range, with the range."""
    for command in (*COMMANDS, *BELOW):
        for action in actions_of(command):
            limits = [one for one in getattr(action.type, "args", ()) if isinstance(one, Range)]
            yield from ((command, option, limit) for option in action.option_strings[:1] for limit in limits)


def actions_of(command: str) -> list[argparse.Action]:
    module, words = BELOW.get(command, (COMMANDS.get(command, ("",))[0], []))
    parsers: list[Parser] = []
    listed = Parser._list_options

    def noted(self: Parser, words: Sequence[str]) -> None:
        parsers.append(self)
        listed(self, words)

    with pytest.MonkeyPatch.context() as patched, pytest.raises(OptionsListed):
        patched.setattr(Parser, "_list_options", noted)
        importlib.import_module(f"headtohead.cli.{module}").run([*words, LIST_OPTIONS])
    return parsers[-1]._actions


def outside(limit: Range) -> int | float:
    """Return the first number below a range."""
    if limit.above:
        return limit.low
    return limit.low - 1 if isinstance(limit.low, int) else math.nextafter(limit.low, -math.inf)


def arguments(function: Function) -> set[str]:
    return set(inspect.signature(function).parameters)


def is_argument(command: str, option: str) -> bool:
    name = option.removeprefix("--").replace("-", "_")
    return any(name in arguments(function) for function in functions_of(command))


EVERY = list(options())


@pytest.mark.parametrize(("command", "option"), EVERY, ids=lambda text: text.replace(" ", "_"))
def test_an_option_is_an_argument_or_has_a_reason(command: str, option: str) -> None:
    function, argument = RENAMED.get((command, option), (None, ""))
    is_renamed = function is not None and argument in arguments(function)
    has_reason = option in REASONS or (command, option) in REASONS or (command, option) in METHODS
    assert is_argument(command, option) or is_renamed or has_reason


@pytest.mark.parametrize(("command", "option"), [one for one in RENAMED if getattr(h2h, RENAMED[one][0].__name__, 0)])
def test_a_refusal_names_the_argument_that_an_option_is(command: str, option: str) -> None:
    """A name that the function does not take would send its caller looking for it."""
    function, argument = RENAMED[command, option]
    for sentence in (f"{option} is refused", f"{option} 3 is refused", f"give {option}, or leave it out"):
        spoken = speech_of(function).of(sentence)
        assert option not in spoken
        assert re.match(rf"(give )?({argument}[=\[]|h2h\.{function.__name__}\()", spoken), spoken


RANGES = list(ranges())


@pytest.mark.parametrize(("command", "option", "limit"), RANGES, ids=lambda one: str(one).replace(" ", "_"))
def test_the_range_of_an_option_is_that_of_its_argument(command: str, option: str, limit: Range) -> None:
    """A function that may be called with what its command refuses answers with a wrong table, or fails deep inside."""
    name = option.removeprefix("--").replace("-", "_")
    renamed = [RENAMED[command, option]] if (command, option) in RENAMED else []
    taken = renamed or [(each, name) for each in functions_of(command) if name in arguments(each)]
    assert taken
    for function, argument in taken:
        of = inspect.signature(function).parameters
        value = [outside(limit)] if "Sequence" in str(of[argument].annotation) else outside(limit)
        required = [one for one in of.values() if one.default is one.empty and one.name != argument]
        others: dict[str, object] = {
            one.name: [] if str(one.annotation).startswith(("Sequence", "Mapping")) else "x" for one in required
        }
        with pytest.raises(UsageError, match=rf"^{argument}=\[?{re.escape(str(outside(limit)))}\]? must be "):
            function(**{**others, argument: value})


def test_options_with_a_range_are_many() -> None:
    assert len(RANGES) > 25


SEVERAL = [(command, function) for command, functions in FUNCTIONS.items() for function in functions[1:] and functions]


@pytest.mark.parametrize(("command", "function"), SEVERAL, ids=lambda one: getattr(one, "__name__", one))
def test_each_of_several_functions_takes_all_options_but_those_with_a_reason(command: str, function: Function) -> None:
    words, reason = NOT_TAKEN[command, function]
    has_reason = {option for _, option in EVERY if option in REASONS or (command, option) in {*REASONS, *METHODS}}
    taken = {option for option in options_of(command) if option[2:].replace("-", "_") in arguments(function)}
    renamed = {option for (one, option), (other, _) in RENAMED.items() if (one, other) == (command, function)}
    assert set(words.split()) == {*options_of(command)} - has_reason - taken - renamed and reason


def test_no_exception_is_left_over() -> None:
    known = {*EVERY, *(option for _, option in EVERY)}
    named = [*RENAMED, *REASONS, *METHODS]
    assert [name for name in named if name not in known] == []
    assert [name for name in named if isinstance(name, tuple) and is_argument(*name)] == []
    assert all(REASONS.values())


def test_a_loaded_run_generates_as_the_function_does() -> None:
    assert arguments(h2h.generate) - {"run", "trust"} == arguments(LoadedRun.generate) - {"self", "show"}
    assert arguments(load_run) == {"path", "trust"}
