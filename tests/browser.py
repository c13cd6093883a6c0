"""A headless Chromium driven over its debugging pipe, with nothing but the standard library: what a page does, says on
its console and asks of the network."""

from __future__ import annotations

import base64
import json
import os
import re
import select
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from waiting import PATIENCE, until

CHROMIUM = next(
    (result for name in ("chromium", "chromium-browser", "google-chrome") if (result := shutil.which(name))), None
)

_LEAVE = 10
"""Seconds that the browser may take to end by itself."""


class Browser:
    """Use it as a context manager; one page at a time."""

    def __init__(self, profile: Path, *, width: int = 1400, height: int = 900) -> None:
        assert CHROMIUM is not None, "ask for CHROMIUM first"
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        own = [f"--window-size={width},{height}", f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        # Chromium reads from file 3 and writes to file 4.
        command = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, *flags, *own, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._rest, self._session = 0, b"", ""
        self.trouble: list[str] = []
        """Errors and warnings of the console, exceptions, and dialogs, which are sent away."""
        self.requests: list[str] = []
        """Addresses that were requested, the page's own included."""

    def __enter__(self) -> Browser:
        targets = self._send("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self._send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._send(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._to)  # Chromium ends with its pipe
        try:
            self._process.wait(timeout=_LEAVE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)

    def open(self, page: Path | str) -> None:
        """A file, or an address."""
        self._send("Page.navigate", url="about:blank")  # whose last requests are not of this page
        until(lambda: self.run("location.href") == "about:blank", otherwise="the last page stays")
        self.trouble.clear()
        self.requests.clear()
        self._send("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        until(lambda: self.run("document.readyState") == "complete", otherwise=f"{page} does not load")
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        """Wait until the page has drawn its data."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        answer = self._send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point(self, x: float, y: float, *, press: bool = False) -> None:
        """Moves the pointer there; presses and lets go on request."""
        self._send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if press:
            for event in ("mousePressed", "mouseReleased"):
                self._send("Input.dispatchMouseEvent", type=event, x=x, y=y, button="left", clickCount=1)
        self.wait_until_idle()

    def click(self, selector: str) -> None:
        x, y = self.run(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)}); node.scrollIntoView("
            "{ block: 'center' }); const box = node.getBoundingClientRect(); "
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self.point(x, y, press=True)

    def key(self, key: str, *, shift: bool = False) -> None:
        text = {"text": key} if len(key) == 1 else {}
        for event in ("keyDown", "keyUp"):
            own = text if event == "keyDown" else {}
            self._send("Input.dispatchKeyEvent", type=event, key=key, modifiers=8 if shift else 0, **own)
        self.wait_until_idle()

    def look(self, *, width: int, height: int, dark: bool = False) -> None:
        """Another size of the window, another preference of colours."""
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        preference = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", media="", features=[preference])
        self.wait_until_idle()

    def print_look(self, *, width: int) -> None:
        """Render the page as on paper of this width."""
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self._send("Emulation.setEmulatedMedia", media="print")
        self.wait_until_idle()

    def num_printed_pages(self) -> int:
        """Return how many pages of A4 the page is on paper."""
        printed = self._send("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"])))

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        taken = self._send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _send(self, method: str, **parameters: Any) -> Any:
        number = self._tell(method, **parameters)
        while (answer := self._read()).get("id") != number:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _tell(self, method: str, **parameters: Any) -> int:
        """Not waiting for the answer to the number that is returned."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        return self._number

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], PATIENCE)
            assert ready, "the browser does not answer"
            read = os.read(self._from, 2**20)
            assert read, "the browser has ended"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, event: dict[str, Any]) -> None:
        method, message = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.trouble.append(str(message["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and message["type"] in ("error", "warning"):
            self.trouble.append(str(message["args"]))
        elif method == "Log.entryAdded" and message["entry"]["level"] in ("error", "warning"):
            self.trouble.append(message["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.trouble.append(f"a dialog: {message['message']}")
            self._tell("Page.handleJavaScriptDialog", accept=False)
        elif method == "Network.requestWillBeSent":
            self.requests.append(message["request"]["url"])
