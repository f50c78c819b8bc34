"""A headless Chromium that the tests drive, through its debugging protocol on a pair of pipes.

Nothing else is needed for it: no driver, no port. Every wait has an end.
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
# Seconds that any one answer, or any page, may take.
LIMIT = 30.0
# Chromium reads descriptor 3 and writes descriptor 4, whatever these are here.
EXECUTE = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])"""
KEYS = {"Enter": 13, "Tab": 9, "Escape": 27}


def _pipes() -> tuple[int, int, tuple[int, int]]:
    """Return our ends of two pipes, to write to and to read from, and Chromium's two."""
    theirs, write = os.pipe()
    read, answers = os.pipe()
    # Out of the way of the descriptors that they become.
    ends = tuple(fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs, answers))
    os.close(theirs)
    os.close(answers)
    return write, read, (ends[0], ends[1])


class Browser:
    """One page of one browser."""

    def __init__(self, profile: Path) -> None:
        """Start Chromium with a profile of its own."""
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
        """End it."""
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
        """Call a method of the protocol, and return what it answers."""
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
        """Do something, and wait until the page is there to which it leads."""
        before, until = self._loaded, time.monotonic() + LIMIT
        action()
        while self._loaded == before:
            self._message(until)

    def go(self, address: str) -> None:
        """Open an address."""
        self.loading(lambda: self.call("Page.navigate", url=address))

    def size(self, width: int, height: int, phone: bool = False, dark: bool = False) -> None:
        """Make the window so large, and a phone's or not."""
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
        """Return the text of what a selector finds first."""
        found: str = self.js(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all that a selector finds."""
        every = f"[...document.querySelectorAll({json.dumps(selector)})]"
        found: list[str] = self.js(f"{every}.map((each) => each.innerText)")
        return found

    def click(self, selector: str) -> None:
        """Click on the middle of what a selector finds first, as a mouse does."""
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
        """Press a key, and let it go."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = KEYS.get(key, ord(key[0].upper()))
        words: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **words)
        self.call("Input.dispatchKeyEvent", type="keyUp", **words)

    def type(self, text: str) -> None:
        """Write a text where the focus is."""
        self.call("Input.insertText", text=text)

    def picture(self, path: Path, whole: bool = False) -> None:
        """Save what is seen, or the whole page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))
