"""The pages that show runs, served and made from Python, and the schema that editors read."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headtohead.api.error_translation import python_errors, python_errors_with
from headtohead.config.errors import ConfigurationError
from headtohead.ranges import Port

if TYPE_CHECKING:
    from headtohead.comparison.dashboard.server import Dashboard

_FOLDER = "outputs"
"""The one folder that may come later: training makes it."""


@dataclass(frozen=True)
class ServedDashboard:
    """A dashboard that is served by a thread of this process until `close()`; also a context manager."""

    folder: Path
    """The folder whose runs are shown."""
    server: Dashboard
    """The server that answers the browser."""
    thread: Thread
    """The thread that the server runs in."""

    @property
    def address(self) -> str:
        """Return where a browser of this machine finds it."""
        return self.server.address

    def open(self) -> None:
        """Open a browser there."""
        import webbrowser

        with suppress(webbrowser.Error):  # the address is shown all the same
            webbrowser.open(self.address)

    def wait(self) -> None:
        """Wait until it is closed."""
        self.thread.join()

    def close(self) -> None:
        """End it."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def __enter__(self) -> ServedDashboard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"the runs below {self.folder} at {self.address}; .close() ends it"

    def _repr_html_(self) -> str:
        return (
            f'<p>The runs below {escape(str(self.folder))}: <a href="{self.address}">{self.address}</a> '
            "(<code>.close()</code> ends it)</p>"
        )


@python_errors
def dashboard(folder: str | Path = _FOLDER, *, port: Port = 0, open: bool = False) -> ServedDashboard:
    """Serve the runs below a folder to a browser of this machine: `dashboard("outputs").address`.

    The page follows runs while they train, and this process may go on. `port=0` takes any free port; `open` opens a
    browser. `.close()` ends it, and so does the end of this process.
    """
    if not Path(folder).is_dir() and str(folder) != _FOLDER:
        raise ConfigurationError(f"{folder} is not a folder: give one with runs below it, such as {_FOLDER}")
    from headtohead.comparison.dashboard.server import Dashboard

    try:
        server = Dashboard(Path(folder), port)
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"is not available ({error.strerror})"
        raise ConfigurationError(f"--port {port} {why}: --port 0 takes any free one") from None
    thread = Thread(target=server.serve_forever, name="dashboard", daemon=True)
    thread.start()
    served = ServedDashboard(Path(folder), server, thread)
    if open:
        served.open()
    return served


@python_errors_with(wandb="project")
def wandb_page(project: str = "") -> str:
    """Create a project's page in W&B, or bring it up to date, and return its address: `wandb_page("team/project")`.

    It shows runs by arm in four sections: quality, cost, attention and system.
    """
    from headtohead.wandb_client.addresses import WandbError
    from headtohead.wandb_client.workspace_pages import build_project_workspace

    try:
        return build_project_workspace(project)
    except WandbError as trouble:
        raise ConfigurationError(f"no page is made in W&B: {trouble}") from None


@python_errors
def schema() -> dict[str, Any]:
    """Return a JSON schema of the YAML files in conf/ and of your own, by which editors complete and check them."""
    from headtohead.config.schema.json_schema import json_schema
    from headtohead.studies.definition.study_fields import KINDS

    return json_schema(KINDS)
