"""The samples that people read do what they say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SERVER = ROOT / "target/release/undercroft"


def run(*arguments: str | Path) -> str:
    """Run a Python program and return what it prints; it must not fail."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_workers_share_one_store(path: str) -> None:
    printed = run(ROOT / "examples/python/workers.py", f"undercroft://{path}")
    assert printed == (
        "4 workers served 1000 pages; 50 are in the cache\n"
        "every page was made at least once: True\n"
    )


def test_the_typed_program_does_what_its_types_say(path: str, server_socket: str) -> None:
    for url in (f"undercroft://{path}", f"unix://{server_socket}?db=9"):
        assert run(ROOT / "examples/python/typed.py", url) == (
            "[True, True, False]\n"
            "['https://example.org/shop', 'https://example.org/docs', "
            "'https://example.org/shop', None]\n"
            "['docs', 'shop']\n"
            "['shop']\n"
        )


BOARD = "[7.0, 2]\n['ada', 'grace']\n2 visitors\n{'ada': '2', 'grace': '2'}\n"


def test_one_program_works_on_every_url(path: str, server_socket: str) -> None:
    for url in (f"undercroft://{path}", f"unix://{server_socket}?db=5"):
        assert run(ROOT / "examples/python/anywhere.py", url) == BOARD


def test_the_same_program_works_on_a_served_store(path: str) -> None:
    if not SERVER.exists():
        pytest.skip(f"{SERVER} is not built: no store is served")
    socket = f"{path}.socket"
    command = [SERVER, "serve", "--store", path, "--port", "0", "--unixsocket", socket]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        if not any(" serves " in line for line in iter(server.stdout.readline, "")):
            pytest.fail(f"the store is not served; exit status {server.wait()}")
        assert run(ROOT / "examples/python/anywhere.py", f"unix://{socket}") == BOARD
    finally:
        server.terminate()
        server.communicate()


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "clients/python/README.md",
        "docs/caching.md",
        "docs/objects.md",
        "docs/channels.md",
        "docs/django.md",
        "docs/feeds.md",
        "docs/flask.md",
        "docs/fastapi.md",
    ],
)
def test_the_samples_of_a_page_print_what_it_says(page: str) -> None:
    assert "0 differ" in run(ROOT / "scripts/readme.py", ROOT / page)
