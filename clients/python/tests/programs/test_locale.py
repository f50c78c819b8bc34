"""Tests that a program's locale does not change how numbers are parsed and formatted."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CASES = Path(__file__).parents[4] / "conformance" / "cases"
# Case files with scripts, or with commands that print or parse numbers.
FILES = [
    *("strings-numbers", "hashes", "sorted", "sorted-range", "sorted-combine", "geo", "sort"),
    *("scripting", "scripting-lua", "scripting-filled", "scripting-functions"),
]
GERMAN = "de_DE.UTF-8"


@pytest.fixture(scope="module")
def locales(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which a German locale exists."""
    place = tmp_path_factory.mktemp("locales")
    make = shutil.which("localedef")
    if make is not None:
        made = [make, "--no-archive", "-i", "de_DE", "-f", "UTF-8", str(place / GERMAN)]
        # Ignore the exit status, because localedef reports an error even after mere warnings.
        subprocess.run(made, stderr=subprocess.DEVNULL, check=False)
    if not (place / GERMAN / "LC_NUMERIC").exists():
        pytest.skip("localedef or de_DE is not installed")
    return {**os.environ, "LOCPATH": str(place)}


@pytest.fixture
def served(path: str, locales: dict[str, str]) -> Iterator[str]:
    """Yield the URL of a server started in a German locale."""
    socket = f"{path}.sock"
    command = [sys.executable, "-m", "undercroft", "serve", "--store", f"{path}-served"]
    server = subprocess.Popen(
        [*command, "--port", "0", "--unixsocket", socket],
        env={**locales, "LC_ALL": GERMAN},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    for line in server.stdout:
        if socket in line:
            break
    yield f"unix://{socket}"
    server.terminate()
    server.communicate()


def ran(name: str, url: str, environment: dict[str, str]) -> tuple[list[str], str]:
    """Return the replies to the cases in a locale, and how that locale writes 1.5."""
    program = Path(__file__).with_name("locale_program.py")
    files = [str(CASES / f"{file}.case") for file in FILES]
    done = subprocess.run(
        [sys.executable, str(program), name, url, *files],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr.splitlines()[-1]


@pytest.mark.parametrize("kind", ["embedded", "served"])
def test_cases_have_the_same_replies_as_in_the_c_locale(
    kind: str, path: str, locales: dict[str, str], request: pytest.FixtureRequest
) -> None:
    url = f"undercroft://{path}" if kind == "embedded" else request.getfixturevalue("served")
    plain, told = ran("C", url, locales)
    assert told == "1.5 is 1.5"
    german, told = ran(GERMAN, url, locales)
    assert told == "1.5 is 1,5"
    assert len(plain) > 1500
    assert sum("->" in line and "Error(" not in line for line in plain) > 1000
    assert german == plain
