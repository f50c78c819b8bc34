"""Fixtures: a new forum for each test, and one browser for all tests."""

import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import undercroft

sys.path.insert(0, str(Path(__file__).parents[1]))

from app import create_app
from boards import Forum
from browser import BINARY, Browser
from generate import fill
from werkzeug.serving import make_server

THREADS = 3_000


@pytest.fixture
def url() -> Iterator[str]:
    """Yield the URL of a store that does not exist yet."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield f"undercroft://{directory}/store"


@pytest.fixture
def forum(url: str) -> Iterator[Forum]:
    """Yield a forum with a few thousand threads."""
    with undercroft.Redis.from_url(url, decode_responses=True) as r:
        made = Forum(r)
        fill(made, THREADS)
        yield made


@pytest.fixture
def site(forum: Forum, url: str) -> Iterator[str]:
    """Yield the URL where the forum is served."""
    assert forum.is_there()
    server = make_server("127.0.0.1", 0, create_app(url), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Yield a running browser."""
    if BINARY is None:
        pytest.skip("chromium is not installed: pages are not rendered")
    # Ignore errors, because Chromium's child processes may still write there briefly after it has
    # exited.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        running = Browser(Path(profile))
        yield running
        running.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """Yield the browser, and check that it reported no errors on any page during the test."""
    chromium.size(1280, 900)
    chromium.errors.clear()
    yield chromium
    found = list(chromium.errors)
    # Leave the page, so that no request for it is pending when its server stops.
    chromium.go("about:blank")
    assert found == []
