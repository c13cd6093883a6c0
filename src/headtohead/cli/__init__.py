"""The command `h2h`: finds the command that was typed, and says errors in one sentence.

Every command is a module here with `run(arguments) -> exit code`; it is imported when it is called for.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from headtohead.building.errors import unknown
from headtohead.cli.terminal import error_line, out
from headtohead.errors import UsageError

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("train", "one run: compose, train, record"),
    "study": ("study", "many runs, one question: plan, run or resume, verdicts"),
    "sweep": ("sweep", "the trials of a W&B sweep file, here: plan, run or resume, the best one"),
    "inspect": ("inspection", "no training: shapes, parameters, FLOPs, state and memory per component"),
    "compare": ("comparison", "records side by side: result, costs, speed"),
    "dashboard": ("dashboard", "browse and compare runs in a local web page that follows them live"),
    "match": ("match", "arms of equal cost: what each must be for equal parameters, FLOPs, tokens, state or time"),
    "bench": ("bench", "time and peak memory over length, batch, precision, checkpointing, attention"),
    "doctor": ("doctor", 'the checks for "it does not learn", each with a verdict and what to do'),
    "check": ("check", "the laws of components held over a class of your own"),
    "coordinates": ("coordinates", "whether a step of training changes as much at every width"),
    "probe": ("probe", "look inside: attention maps, data as the model sees it, positional encodings"),
    "evaluate": ("evaluation", "finished runs measured again: other splits, data, lengths; strided windows"),
    "embed": ("embedding", "finished runs as retrievers of texts: index, search, recall@k beside BM25"),
    "generate": ("generation", "what a finished run writes: greedy, drawn, by beams; for one prompt or many"),
    "export": ("export", "a finished run as safetensors, torch.export program or ONNX, checked and timed"),
    "sync": ("sync", "upload the runs that the W&B server has not seen yet, each once"),
    "list": ("listing", "every group, and every choice with one line"),
}
INTERRUPTED = 130
REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: done; 1: the run failed; 2: refused; 130: interrupted."""
    if arguments is None:
        _collect_rarely()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "help"):
        out(_overview())
        return 0
    if given[0] == "--version":
        out(_version())
        return 0
    if given[0] not in COMMANDS:
        error_line(unknown(f"h2h {given[0]} is no command", given[0], list(COMMANDS)))
        return REFUSED
    return _guarded(given[0], given[1:])


def _collect_rarely() -> None:
    """Save a third of a short command's processor time: what imports make lives to the end, and Python's collector
    would go through all of it again and again, at the exit too."""
    gc.set_threshold(100_000, 50, 100)
    atexit.register(gc.freeze)


def _guarded(command: str, rest: list[str]) -> int:
    # Like `python -m`: a user's own classes are found from the folder they stand in, after everything installed.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        return int(import_module(f"headtohead.cli.{COMMANDS[command][0]}").run(rest))
    except KeyboardInterrupt:
        error_line("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing is left to be told, and Python must not try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, FileNotFoundError) as error:
        if os.environ.get("HEADTOHEAD_DEBUG"):
            raise
        error_line(_sentence(error))
        return REFUSED


def _sentence(error: Exception) -> str:
    """Our own errors say what to do; of others, the place may matter."""
    where = "" if isinstance(error, UsageError) else " (HEADTOHEAD_DEBUG=1 shows where)"
    return " ".join(str(error).split()) + where


def _overview() -> str:
    lines = [f"  {name:<13}{description}" for name, (_, description) in COMMANDS.items()]
    return "\n".join(
        [
            "h2h: settle questions about neural-network architectures",
            "",
            "Usage: h2h COMMAND [field=value] [group=choice] ...",
            "",
            *lines,
            "",
            "h2h COMMAND --help says more; h2h list shows what can be chosen.",
        ]
    )


def _version() -> str:
    from importlib.metadata import version

    return f"headtohead {version('headtohead')}"
