"""A headless Chromium that the tests control through its debugging protocol over two pipes.

The connection needs neither a driver nor a port. Every wait has a timeout.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BINARY = shutil.which("chromium")
# The time limit in seconds for any reply and for loading any page.
LIMIT = 30.0
# Chromium reads from descriptor 3 and writes to descriptor 4; move the pipes there.
EXECUTE = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])"""
KEYS = {"Enter": 13, "Tab": 9, "Escape": 27}


def _pipes() -> tuple[int, int, tuple[int, int]]:
    """Return this process's writing and reading ends of two pipes, and Chromium's ends."""
    theirs, write = os.pipe()
    read, answers = os.pipe()
    # Duplicate Chromium's ends to numbers that do not collide with descriptors 3 and 4.
    ends = tuple(fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs, answers))
    os.close(theirs)
    os.close(answers)
    return write, read, (ends[0], ends[1])


class Browser:
    """A browser with one page."""

    def __init__(self, profile: Path) -> None:
        """Start Chromium with a separate profile."""
        assert BINARY is not None
        self._write, self._read, ends = _pipes()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        options += ["--hide-scrollbars", "--no-first-run", "--disable-background-networking"]
        options += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", EXECUTE, *map(str, ends), BINARY, *options],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in ends:
            os.close(end)
        self._unread = b""
        self._number = 0
        self._session: str | None = None
        self._loaded = 0
        self.errors: list[str] = []
        made = self.call("Target.createTarget", url="about:blank")
        attached = self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")

    def close(self) -> None:
        """Stop Chromium."""
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._write)
        os.close(self._read)

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError(f"Chromium did not answer in {LIMIT:g} s")
            data = os.read(self._read, 1 << 16)
            if not data:
                raise RuntimeError(f"Chromium ended with status {self.process.wait()}")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded += 1
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"].get("exception", params)))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        return message

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a protocol method, and return its result."""
        self._number += 1
        words: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            words["sessionId"] = self._session
        os.write(self._write, json.dumps(words).encode() + b"\0")
        until = time.monotonic() + LIMIT
        while (message := self._message(until)).get("id") != self._number:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        result: dict[str, Any] = message["result"]
        return result

    def loading(self, action: Callable[[], object]) -> None:
        """Perform an action, and wait until the resulting page has loaded."""
        before, until = self._loaded, time.monotonic() + LIMIT
        action()
        while self._loaded == before:
            self._message(until)

    def go(self, address: str) -> None:
        """Open an address."""
        self.loading(lambda: self.call("Page.navigate", url=address))

    def size(self, width: int, height: int, phone: bool = False, dark: bool = False) -> None:
        """Set the size of the window and whether it emulates a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def js(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of the first element that matches a selector."""
        found: str = self.js(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements that match a selector."""
        every = f"[...document.querySelectorAll({json.dumps(selector)})]"
        found: list[str] = self.js(f"{every}.map((each) => each.innerText)")
        return found

    def click(self, selector: str) -> None:
        """Click on the center of the first element that matches a selector, as a mouse does."""
        place = self.js(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            "found.scrollIntoView({block: 'center'});"
            "const box = found.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="left",
                clickCount=1,
            )

    def key(self, key: str) -> None:
        """Press and release a key."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = KEYS.get(key, ord(key[0].upper()))
        words: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **words)
        self.call("Input.dispatchKeyEvent", type="keyUp", **words)

    def type(self, text: str) -> None:
        """Type text into the focused element."""
        self.call("Input.insertText", text=text)

    def picture(self, path: Path, whole: bool = False) -> None:
        """Save a picture of the visible part or of the entire page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))
