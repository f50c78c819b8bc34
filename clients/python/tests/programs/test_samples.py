"""Tests that the documentation's samples do what the documentation says."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
SERVER = ROOT / "target/debug/undercroft"
README = ROOT / "scripts/testing/readme.py"
# The languages of fenced code blocks. scripts/testing/readme.py runs the Python and console
# samples; the other clients' tests run their samples.
MARKS = {
    "c",
    "console",
    "php",
    "python",
    "python fragment",
    "rust",
    "text",
}


def run(*arguments: str | Path) -> str:
    """Run a Python program and return its output; it must succeed."""
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


def test_the_typed_program_behaves_as_its_types_say(path: str, server_socket: str) -> None:
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


COUNTS = """```python
import undercroft

print(undercroft.Redis("undercroft://demo").incr("visits"))
```

```text
1
```
"""
SETS = """```python
import undercroft

undercroft.Redis("undercroft://demo").set("visits", 7)
```
"""


def checked(*pages: Path) -> tuple[int, str]:
    """Check the samples on pages, and return the exit status and the output."""
    done = subprocess.run(
        [sys.executable, README, *pages], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_sample_whose_output_differs_on_the_second_run_is_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(COUNTS)
    status, printed = checked(page)
    assert status == 1
    assert "first run" not in printed
    assert f"--- {page}:1\n+++ second run" in printed
    assert "-1\n+2\n" in printed
    page.write_text(
        COUNTS.replace("print(", 'undercroft.Redis("undercroft://demo").flushdb()\nprint(')
    )
    assert checked(page) == (0, "1 samples of 1 pages run twice, 0 differ\n")


def test_samples_share_their_stores_across_pages(tmp_path: Path) -> None:
    pages = tmp_path / "a.md", tmp_path / "b.md"
    pages[0].write_text(SETS)
    pages[1].write_text(COUNTS)
    status, printed = checked(*pages)
    assert status == 1
    assert f"--- {pages[1]}:1\n+++ first run" in printed
    assert "2 samples of 2 pages run twice, 1 differ" in printed


def test_a_program_without_output_runs_and_prints_nothing(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(SETS)
    assert checked(page)[0] == 0
    page.write_text(SETS + "\n```python\nprint('more than the page says')\n```\n")
    assert checked(page)[0] == 1
    page.write_text(SETS + "\n```python\nraise SystemExit(3)\n```\n")
    status, printed = checked(page)
    assert status == 1
    assert "+exit status 3" in printed


def test_fragments_are_not_run_and_each_page_needs_a_sample(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python fragment\nvalue = await client.get('key')\n```\n")
    assert checked(page) == (
        1,
        f"{page}: found no sample to check\n0 samples of 0 pages run twice, 0 differ\n",
    )


def test_every_sample_in_the_repository_is_tested() -> None:
    script = runpy.run_path(str(README))
    pages = {page: page.read_text(encoding="utf-8") for page in script["every_page"]()}
    assert {ROOT / "README.md", ROOT / "docs/feeds.md"} <= pages.keys()
    fenced = re.compile(r"^[ >]*(?:```+|~~~+) *(\S[^`\n]*)$", re.MULTILINE)
    for page, text in pages.items():
        marks = fenced.findall(text)
        # Reject unknown languages such as `py` or `python3`, because no test runs their blocks.
        assert set(marks) <= MARKS, page
        found = list(script["samples_of"](page))
        programs = sum(sample.program is not None for sample in found)
        assert programs == marks.count("python"), page
        assert len(found) - programs == marks.count("console"), page
