"""The command `h2h`: finds the command that was typed, and says errors in one sentence.

Every command is a module here with `run(arguments) -> exit code`; it is imported when it is called for.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from headtohead.api.error_translation import for_typed_commands
from headtohead.cli.terminal import LostOutputError, drop_output, error_line, flush, open_closed_streams, out
from headtohead.components.processor import hold_threads_to_their_limit
from headtohead.config.errors import unknown
from headtohead.config.trust import trusting
from headtohead.errors import UsageError
from headtohead.execution.session_priority import keep_priority
from headtohead.lazy_packages import install
from headtohead.progress_lines import written_by_command

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("train", "one run: compose, train, record"),
    "study": ("study", "many runs for one question: plan, run or resume, verdicts"),
    "sweep": ("sweep", "the trials of a W&B sweep file: plan, run or resume, the best one"),
    "data": ("data", "look at a file of your own: what it holds, which task fits, the command to train on it"),
    "inspect": ("inspect", "no training: shapes, parameters, FLOPs, state and memory per component"),
    "compare": ("compare", "compare runs by their records: result, costs, speed"),
    "dashboard": ("dashboard", "browse and compare runs in a local web page that follows them live"),
    "match": ("match", "find sizes at which arms have equal parameters, FLOPs, tokens, state or time"),
    "plan": ("plan", "what fits on some devices, how fast and for how much, before anything is trained"),
    "bench": ("bench", "time and peak memory over length, batch, precision, checkpointing, attention"),
    "doctor": ("doctor", 'sixteen checks for "it does not learn", each with a verdict and a fix'),
    "check": ("check", "check a class of your own against the laws of components"),
    "coordinates": ("coordinates", "check whether training changes activations equally at every width"),
    "probe": ("probe", "look inside: attention maps, the model's input data, positional encodings"),
    "evaluate": ("evaluate", "evaluate finished runs on other splits, data, lengths; strided windows"),
    "embed": ("embed", "use finished runs as text retrievers: index, search, recall@k next to BM25"),
    "generate": ("generate", "generate text with a finished run: greedy, sampling or beam search; one prompt or many"),
    "export": ("export", "export a finished run as safetensors, torch.export program or ONNX, checked and timed"),
    "runs": ("runs", "manage finished runs: tag, note, archive, restore, delete, verify"),
    "sync": ("sync", "upload the runs that the W&B server does not have yet"),
    "schema": ("schema", "print a JSON schema with which editors complete and check your YAML files"),
    "list": (
        "listing",
        "list groups and choices in one line each; runs, filtered and sorted: h2h list runs",
    ),
}
is_own_process = False
"""Whether this process was started for a command, and does nothing else."""
INTERRUPTED = 130
FAILED = 1
REFUSED = 2
_WAITING = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}
"""The variables that say how threads of GNU OpenMP wait, torch's among them."""
_SPINS = "30000"
"""A tenth of its default."""
_LONGEST = 1500
"""Letters of a sentence: what somebody wrote into a file may be long, and the way out stands at the end."""
_PACKAGE = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: done; 1: the run failed; 2: refused; 130: interrupted."""
    global is_own_process
    if arguments is None:
        is_own_process = True
        _collect_garbage_rarely()
        _let_waiting_threads_sleep()
        hold_threads_to_their_limit()
        keep_priority()
        install()  # in processes of our own alone: who imports the package has everything as its makers wrote it
        open_closed_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _answer(words)
        flush()
    except LostOutputError as error:
        drop_output()
        if error.reader_has_gone:  # head and less read as much as they want
            return 0
        error_line(str(error))
        return FAILED
    return code


def _answer(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        out(_overview())
        return 0
    if words[0] == "--version":
        out(_version())
        return 0
    if words[0] in ("--complete", "--install-completion", "--show-completion"):
        return _guarded("completion", list(words))
    if words[0] not in COMMANDS:
        error_line(unknown(f"h2h {words[0]} is not a command", words[0], list(COMMANDS)))
        return REFUSED
    return _guarded(words[0], list(words[1:]))


def _collect_garbage_rarely() -> None:
    """Save a third of a short command's processor time: what imports make lives to the end, and Python's collector
    would go through all of it again and again, at the exit too."""
    gc.set_threshold(100_000, 50, 100)
    atexit.register(gc.freeze)


def _let_waiting_threads_sleep() -> None:
    """Let torch's threads sleep sooner where they wait for each other: they spin for milliseconds at every operation,
    and while another program has one of the cores, they wait for a thread that is not running. It is read when torch is
    imported (benchmarks/busy_core.py)."""
    if not _WAITING & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = _SPINS


def _guarded(command: str, rest: list[str]) -> int:
    try:
        _find_classes_here()
        with trusting(), for_typed_commands(), written_by_command():
            return int(import_module(f"headtohead.cli.{COMMANDS.get(command, (command,))[0]}").run(rest))
    except KeyboardInterrupt:
        error_line("interrupted")
        return INTERRUPTED
    except (ValueError, OSError) as error:
        if os.environ.get("HEADTOHEAD_DEBUG"):
            raise
        error_line(_sentence(error))
        return REFUSED
    except (RuntimeError, MemoryError) as error:
        from headtohead.training.run_outcome import is_out_of_memory

        if os.environ.get("HEADTOHEAD_DEBUG") or not is_out_of_memory(error):
            raise
        error_line(
            f"this needs more memory than is available: give shorter texts, fewer rows or a smaller model ({error})"
        )
        return REFUSED


def _find_classes_here() -> None:
    """Behave like `python -m`: a user's own classes are found from the working folder, after everything installed;
    never from the folder of a run, which may be a stranger's."""
    try:
        here = str(Path.cwd())
        is_run = Path("record.json").is_file()
    except FileNotFoundError as error:
        raise UsageError("the working folder has been deleted: cd to one that exists") from error
    if here not in sys.path and not is_run:
        sys.path.append(here)


def _sentence(error: Exception) -> str:
    """Return one line; an error that is not ours also says which file it is about, or where in the package it arose."""
    if isinstance(error, UsageError):
        text = " ".join(str(error).split())
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST * 2 // 3]} ... {text[-_LONGEST // 3 :]}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)][-1]
    where = f"{Path(ours.filename).relative_to(_PACKAGE.parent)}:{ours.lineno}"
    return f"{' '.join(str(error).split())} (in {where}; HEADTOHEAD_DEBUG=1 shows the whole)"


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
            "h2h COMMAND --help explains a command; h2h list shows the choices;",
            "h2h --install-completion lets bash, zsh and fish complete what you type.",
        ]
    )


def _version() -> str:
    from importlib.metadata import version

    return f"headtohead {version('headtohead')}"
