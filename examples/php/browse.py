"""Visits the guest book in a headless Chromium, as ``browse.py URL``; fails on a wrong page."""

import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "forum" / "tests"))

from browser import Browser

LIMIT = 30.0


def profile() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary directory for a browser's profile."""
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


def wait_for(site: str) -> None:
    """Wait until the site answers."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            urllib.request.urlopen(site, timeout=LIMIT).close()
            return
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def write(browser: Browser, text: str) -> None:
    """Write an entry as a visitor does."""
    browser.js(f"document.querySelector('input[name=text]').value = {text!r}")
    browser.loading(lambda: browser.click("button"))


def main() -> None:
    """Visit the site as two different visitors."""
    site = sys.argv[1]
    wait_for(site)
    # Ignore errors, because some of a browser's processes may still write after it has exited.
    with profile() as first, profile() as second:
        ada, bob = Browser(Path(first)), Browser(Path(second))
        try:
            ada.go(site)
            assert ada.text("h1") == "Guest book", ada.text("h1")
            assert ada.text("#own") == "1", ada.text("#own")
            ada.js("document.querySelector('input[name=name]').value = 'Ada <3'")
            write(ada, "first & foremost")
            write(ada, "second")
            assert ada.texts("#entries li") == ["Ada <3 second", "Ada <3 first & foremost"]
            assert ada.text("#own") == "3", "a session counts its visits"
            assert ada.js("document.querySelector('input[name=name]').value") == "Ada <3"
            bob.go(site)
            assert bob.text("#own") == "1", "another visitor has another session"
            assert bob.texts("#entries li") == ["Ada <3 second", "Ada <3 first & foremost"]
            write(bob, "third")
            ada.go(site)
            assert ada.texts("#entries li")[0] == "somebody third"
            assert ada.texts("#writers li") == ["Ada <3: 2", "somebody: 1"]
            # The count includes the first visit, which this program made to check whether the site
            # answers.
            assert int(ada.text("#visits")) >= 6
        finally:
            ada.close()
            bob.close()
    print("guest book: visited")


if __name__ == "__main__":
    main()
