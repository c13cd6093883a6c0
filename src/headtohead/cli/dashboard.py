"""`h2h dashboard`: a local web page over the runs of a folder, which follows them while they train."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from headtohead.cli.options import parser, within
from headtohead.cli.terminal import note, out
from headtohead.config.errors import ConfigurationError
from headtohead.ranges import Range

if TYPE_CHECKING:
    from headtohead.comparison.dashboard.server import Dashboard

_FOLDER, _PORT = "outputs", 8765
_EXAMPLES = f"""\
examples:
  h2h dashboard                    every run below {_FOLDER}, at http://127.0.0.1:{_PORT}/
  h2h dashboard --open             also open a browser
  h2h dashboard sweeps --port 0    another folder, on any free port
  h2h dashboard --wandb team/project    no local server: create or update the page of a project in W&B
  ssh -L {_PORT}:127.0.0.1:{_PORT} HOST    to look from elsewhere: the page answers only this machine

The page follows runs while they train; stars and notes are all that it writes. Ctrl-C stops it.
"""


def run(arguments: Sequence[str]) -> int:
    taken = parser("dashboard", "Browse and compare runs in a local web page that follows them live.", _EXAMPLES)
    taken.add_argument("folder", nargs="?", metavar="FOLDER", default=_FOLDER, help=f"runs below it; default {_FOLDER}")
    taken.add_argument(
        "--port",
        type=within(Annotated[int, Range(0, 65_535)]),
        default=_PORT,
        help=f"default {_PORT}; 0 takes any free one",
    )
    taken.add_argument("--open", action="store_true", help="open a browser there")
    taken.add_argument(
        "--wandb", nargs="?", const="", metavar="ENTITY/PROJECT", help="make the project's page in W&B instead"
    )
    options = taken.parse_args(list(arguments))
    if options.wandb is not None:
        return _in_wandb(options.wandb)
    folder = Path(options.folder)
    if not folder.is_dir() and options.folder != _FOLDER:
        raise ConfigurationError(f"{folder} is not a folder: give one with runs below it, such as {_FOLDER}")
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell that starts it in the background has Ctrl-C ignored
        signal.signal(number, signal.default_int_handler)
    with _server(folder, options.port) as dashboard:
        out(dashboard.address)
        sys.stdout.flush()  # whoever reads it through a pipe waits for it
        note(f"runs below {folder}; Ctrl-C ends it")
        if options.open:
            import webbrowser

            webbrowser.open(dashboard.address)
        try:
            dashboard.serve_forever()
        except KeyboardInterrupt:
            note("ended")
    return 0


def _in_wandb(project: str) -> int:
    from headtohead.wandb_client.addresses import WandbError
    from headtohead.wandb_client.workspace_pages import build_project_workspace

    try:
        out(build_project_workspace(project))
    except WandbError as trouble:
        raise ConfigurationError(f"no page is made in W&B: {trouble}") from None
    note("runs by arm, in four sections: quality, cost, attention, system; the same command brings it up to date")
    return 0


def _server(folder: Path, port: int) -> Dashboard:
    from headtohead.comparison.dashboard.server import Dashboard

    try:
        return Dashboard(folder, port)
    except OverflowError:
        raise ConfigurationError(f"--port {port}: choose a number from 1 to 65535, or 0 for any free one") from None
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"is not available ({error.strerror})"
        raise ConfigurationError(f"--port {port} {why}: --port 0 takes any free one") from None
