"""`h2h dashboard`: a local web page over the runs of a folder, which follows them while they train."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from headtohead.cli.options import command_parser, within
from headtohead.cli.terminal import note, out
from headtohead.ranges import Port

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
    parser = command_parser(
        "dashboard", "Browse and compare runs in a local web page that follows them live.", _EXAMPLES
    )
    parser.add_argument(
        "folder", nargs="?", metavar="FOLDER", default=_FOLDER, help=f"runs below it; default {_FOLDER}"
    )
    parser.add_argument(
        "--port",
        type=within(Port),
        default=_PORT,
        help=f"default {_PORT}; 0 takes any free one",
    )
    parser.add_argument("--open", action="store_true", help="open a browser there")
    parser.add_argument(
        "--wandb", nargs="?", const="", metavar="ENTITY/PROJECT", help="make the project's page in W&B instead"
    )
    options = parser.parse_args(list(arguments))
    from headtohead import api

    if options.wandb is not None:
        out(api.wandb_page(options.wandb))
        note("runs by arm, in four sections: quality, cost, attention, system; the same command brings it up to date")
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell that starts it in the background has Ctrl-C ignored
        signal.signal(number, signal.default_int_handler)
    with api.dashboard(options.folder, port=options.port) as served:
        out(served.address)
        sys.stdout.flush()  # whoever reads it through a pipe waits for it
        note(f"runs below {options.folder}; Ctrl-C ends it")
        if options.open:
            served.open()
        try:
            served.wait()
        except KeyboardInterrupt:
            note("ended")
    return 0
