"""Headless Chromium over its debugging pipe: no port, no driver program, no package."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any

BINARY = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
WAIT_S = 60.0


@dataclass(slots=True)
class Browser:
    """One page of one browser. Protocol: https://chromedevtools.github.io/devtools-protocol/"""

    to_fd: int
    from_fd: int
    session: str | None = None
    events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    """Name and parameters of all that the page reported."""
    _rest: bytes = b""
    _last_id: int = 0

    def call(self, method: str, **params: Any) -> Mapping[str, Any]:
        """One command, and its result; events that come meanwhile are kept."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to_fd, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if "method" in answer:
                self.events.append((answer["method"], answer["params"]))
            elif answer.get("id") == self._last_id:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def _read(self) -> Mapping[str, Any]:
        end_s = time.monotonic() + WAIT_S
        while b"\0" not in self._rest:
            ready, _, _ = select([self.from_fd], [], [], max(0.0, end_s - time.monotonic()))
            part = os.read(self.from_fd, 1 << 16) if ready else b""
            assert part, "Chromium said nothing more"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def open(self, path: Path) -> None:
        """Load the file and wait until all of it is there."""
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self._wait_for("Page.loadEventFired")

    def _wait_for(self, event: str) -> None:
        while not any(name == event for name, _ in self.events):
            message = self._read()
            if "method" in message:
                self.events.append((message["method"], message["params"]))

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to. Runs beside the page's policy, not under it."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def look(self, *, width: int, scheme: str) -> None:
        """Show the page `width` pixels wide, "light" or "dark"."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def requests(self) -> list[str]:
        """Addresses of all that was asked for since `open`, besides what is inside the page itself."""
        urls = [str(event["request"]["url"]) for name, event in self.events if name == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]

    def complaints(self) -> list[str]:
        """What the console shows since `open`: errors, refusals of the policy, messages of scripts."""
        shown = []
        for name, event in self.events:
            if name == "Log.entryAdded":
                shown.append(str(event["entry"]["text"]))
            elif name in {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Audits.issueAdded"}:
                shown.append(json.dumps(event))
        return shown


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A fresh Chromium whose profile is the empty folder `profile`; it ends with the context."""
    assert BINARY is not None
    child_in, to_fd = os.pipe()
    from_fd, child_out = os.pipe()
    command = [
        BINARY,
        "--headless",
        "--no-sandbox",  # CI runs as root, where Chromium refuses its sandbox; only our own page is opened
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--remote-debugging-pipe",
        f"--user-data-dir={profile}",
        "about:blank",
    ]
    # Chromium reads commands from descriptor 3 and answers on 4; the shell puts ours there.
    wiring = f'exec 3<&{child_in} 4>&{child_out}; exec "$@"'
    process = subprocess.Popen(
        ["bash", "-c", wiring, "chromium", *command],
        pass_fds=(child_in, child_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(child_in)
    os.close(child_out)
    try:
        page = Browser(to_fd=to_fd, from_fd=from_fd)
        targets = page.call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        page.session = str(page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log", "Audits"):
            page.call(f"{domain}.enable")
        yield page
        page.session = None
        page.call("Browser.close")
        process.wait(WAIT_S)
    finally:
        process.kill()
        process.wait()
        os.close(to_fd)
        os.close(from_fd)
