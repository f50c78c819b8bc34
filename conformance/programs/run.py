"""Runs third-party programs on redis-server, on `undercroft serve`, and embedded.

`programs.toml` in this directory lists the programs. Each is a small file that does real work with
a package at a given URL, and fails if any result is wrong. The table in docs/programs.md records
the results. A run fails if its results differ from the page; --write updates the page. A program
whose environment is missing is skipped, and its table row is left unchanged.
"""

import argparse
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / "target" / "programs"
# The directories from which Python programs import: the package, and `place`.
PYTHON_PATH = (ROOT / "clients" / "python", HERE / "python")
SERVER = ROOT / "target" / "debug" / "undercroft"
PAGE = ROOT / "docs" / "programs.md"
BEGIN, END = "<!-- programs: begin -->", "<!-- programs: end -->"
HEAD = [
    "| program | what the test does | `undercroft serve` | embedded store | passing the store |",
    "| --- | --- | --- | --- | --- |",
]
# A container's /tmp is often an overlay file system, which stores do not support.
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None
REDIS, SERVE, EMBEDDED = KINDS = ("redis-server", "undercroft serve", "embedded")
SECONDS = 60
# The number of programs that run concurrently, each on separate servers.
LANES = 2


@dataclass
class Program:
    """A program as listed in programs.toml."""

    name: str
    file: str
    environment: str
    packages: list[str]
    work: str
    told: str
    # Whether the program connects over TLS. Its URL then begins with rediss://, and it finds the
    # certificates in the directory PROGRAM_CERTIFICATES.
    encrypted: bool = False
    # The reasons, by kind, why the program does not work there, and why it does not run there.
    fails: dict[str, str] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)

    @property
    def language(self) -> str:
        """Return the program's language, which is the name of its directory."""
        return self.file.partition("/")[0]

    def versions(self) -> list[str]:
        """Return the pinned versions of the program's packages."""
        return [pinned(self.language, self.environment, package) for package in self.packages]

    def title(self) -> str:
        """Return the names and versions of the program and of the packages on which it depends."""
        first, *others = self.versions()
        theirs = {"python": "redis-py", "node": "node-redis"}.get(self.language, "redis")
        names = [
            theirs if name == "redis" else name.rpartition("/")[2] for name in self.packages[1:]
        ]
        named = [f"{name} {version}" for name, version in zip(names, others, strict=True)]
        return ", ".join([f"{self.name} {first}", *named])

    def command(self, url: str) -> list[str]:
        """Return the command that runs the program."""
        place, file = ENVIRONMENTS / self.environment, HERE / self.file
        match self.language:
            case "python":
                return [str(place / "bin/python"), "-W", "ignore", str(file), url]
            case "node":
                return ["node", str(file), url]
            case "go":
                return [str(place / file.name), url]
            case "ruby":
                return ["ruby", "-W0", str(file), url]
            case "php":
                return ["php", str(file), url]
            case _:
                classes = f"{place / 'classes'}{os.pathsep}{place / 'jars'}/*"
                return ["java", "-cp", classes, file.stem, url]

    def is_here(self) -> bool:
        """Return whether the environment is complete, as its stamp file shows."""
        return (ENVIRONMENTS / self.environment / "stamp").is_file()


# The file in which a language pins its packages, and the pattern of a package's line in that file.
PINS = {
    "python": ("python/requirements-{environment}.txt", r"^{package}==(\S+)$"),
    "node": ("node/package.json", r'"{package}": "([^"]+)"'),
    "go": ("go/go.mod", r"^\s*(?:require )?\S*{package}(?:/v\d+)? v(\S+)"),
    "ruby": ("ruby/Gemfile", r'^gem "{package}", "([^"]+)"'),
    "php": ("php/composer.json", r'"ext-{package}": "([^"]+)"'),
    "java": ("java/pom.xml", r"<artifactId>{package}</artifactId>\s*<version>([^<]+)<"),
}


def pinned(language: str, environment: str, package: str) -> str:
    """Return the pinned version of a package in an environment."""
    path, pattern = PINS[language]
    text = (HERE / path.format(environment=environment)).read_text(encoding="utf-8")
    pattern = pattern.format(package=re.escape(package))
    found = re.search(pattern, text, re.MULTILINE | re.IGNORECASE)
    if not found:
        raise SystemExit(f"{path}: expected a version of {package}")
    return found[1]


def programs() -> list[Program]:
    """Return all listed programs."""
    with (HERE / "programs.toml").open("rb") as file:
        return [Program(**entry) for entry in tomllib.load(file)["program"]]


def spare_port() -> int:
    """Return an unused port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


class Server:
    """A server of either kind, started without data."""

    def __init__(self, kind: str, directory: str) -> None:
        """Start the server, and wait until it answers."""
        self.port, self.tls_port = spare_port(), spare_port()
        self.log = Path(directory) / f"{kind.replace(' ', '-')}.log"
        commands = {
            REDIS: ["redis-server", "--save", "", "--appendonly", "no", "--dir", directory],
            SERVE: [str(SERVER), "serve", f"{directory}/store", "--maxmemory", "1gb"],
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*commands[kind], "--port", str(self.port), *self.encryption(directory)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(),
            )
        end = time.monotonic() + 20
        while not self.answers("PING", "+PONG"):
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise SystemExit(f"{kind} does not reply:\n{self.log.read_text(errors='replace')}")
            time.sleep(0.01)

    def encryption(self, directory: str) -> list[str]:
        """Return the options for a TLS port that only clients with a certificate may use."""
        files = Path(directory) / "certificates"
        options = {
            "port": self.tls_port,
            "cert-file": files / "server.pem",
            "key-file": files / "server.key",
            "ca-cert-file": files / "ca.pem",
        }
        return [word for name, value in options.items() for word in (f"--tls-{name}", str(value))]

    def answers(self, command: str, reply: str) -> bool:
        """Return whether the server answers a command with this reply."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 20) as sock:
            sock.sendall(f"{command}\r\n".encode())
            return sock.recv(100).decode().strip() == reply
        return False

    def empty(self) -> bool:
        """Remove all keys and scripts; return whether the server is still running."""
        return self.answers("FLUSHALL", "+OK") and self.answers("SCRIPT FLUSH", "+OK")

    def stop(self) -> None:
        """Stop the server."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def environment() -> dict[str, str]:
    """Return an environment for servers and programs, without the user's settings."""
    ours = ("UNDERCROFT_", "PROGRAM_", "PYTHON", "REDIS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@dataclass
class Seen:
    """The result of a program on one kind of server or store."""

    right: bool
    cell: str
    line: str
    output: str = ""


class Lane:
    """One server of each kind, on which programs run one after another."""

    def __init__(self, stack: ExitStack) -> None:
        """Start the servers, which stop when the exit stack closes."""
        self.directory = tempfile.mkdtemp(prefix="undercroft-programs-", dir=SCRATCH)
        stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        subprocess.run(
            [SERVER, "tls", "init", f"{self.directory}/certificates"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.servers = {}
        for kind in (REDIS, SERVE):
            self.servers[kind] = Server(kind, self.directory)
            stack.callback(self.servers[kind].stop)

    def run(self, program: Program, kind: str) -> Seen:
        """Run a program on one kind of server or store, which is emptied before and after."""
        if kind in program.without:
            return Seen(True, "-", f"{kind} -")
        store = Path(self.directory) / "embedded"
        server = self.servers.get(kind)
        if server is None:
            store.mkdir()
            url = f"undercroft://{store}/store"
        else:
            if not server.empty():
                return Seen(False, "", f"{kind} GONE", f"{kind} no longer replies")
            url = f"redis://127.0.0.1:{server.port}/0"
            if program.encrypted:
                url = f"rediss://localhost:{server.tls_port}/0"
        begun = time.monotonic()
        status, output = self.result(program, url)
        took = f"{time.monotonic() - begun:.1f} s"
        shutil.rmtree(store, ignore_errors=True)
        why = program.fails.get(kind)
        if why is None:
            right = status == 0
            return Seen(right, "works", f"{kind} {'ok' if right else 'FAILED'} {took}", output)
        if status == 0:
            wrong = f"works on {kind}, but programs.toml says that it does not: {why}\n"
            return Seen(False, "", f"{kind} WORKS {took}", wrong)
        return Seen(True, f"does not: {why}", f"{kind} fails as documented {took}")

    def result(self, program: Program, url: str) -> tuple[int | None, str]:
        """Return a program's exit status, or None after a timeout, and its output."""
        env = environment() | {
            "PYTHONPATH": os.pathsep.join(map(str, PYTHON_PATH)),
            "PROGRAM_CERTIFICATES": f"{self.directory}/certificates",
            "NODE_PATH": str(ENVIRONMENTS / program.environment / "node_modules"),
        }
        with tempfile.TemporaryFile() as output:
            running = subprocess.Popen(
                program.command(url),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=(HERE / program.file).parent,
                env=env,
                start_new_session=True,
            )
            status = None
            try:
                status = running.wait(SECONDS)
            except subprocess.TimeoutExpired:
                output.write(f"ended after its limit of {SECONDS} s\n".encode())
            finally:
                # Kill the processes that the program started and did not stop.
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
                running.wait()
            output.seek(0)
            return status, output.read().decode(errors="replace")


def rows(page: str) -> list[str]:
    """Return the rows of the page's table."""
    _, found, rest = page.partition(f"{BEGIN}\n")
    table, ended, _ = rest.partition(END)
    if not found or not ended:
        raise SystemExit(f"{PAGE}: expected a line {BEGIN} and after it a line {END}")
    return table.splitlines()[len(HEAD) :]


def row(program: Program, seen: dict[str, Seen]) -> str:
    """Return the table row of a program."""
    cells = [program.title(), program.work, seen[SERVE].cell, seen[EMBEDDED].cell, program.told]
    return f"| {' | '.join(cells)} |"


def row_of(program: Program, lines: list[str]) -> str | None:
    """Return a program's row on the page, which starts with its name without a version."""
    start = re.compile(rf"\| {re.escape(program.name)} \d")
    return next((line for line in lines if start.match(line)), None)


def table(everything: list[Program], found: dict[str, str], before: list[str]) -> list[str]:
    """Return the new rows, and the page's rows for programs that did not run."""
    lines = [found.get(program.name) or row_of(program, before) for program in everything]
    return [line for line in lines if line]


def compare(everything: list[Program], found: dict[str, str], write: bool) -> list[str]:
    """Write the page, or return the lines that differ from it."""
    page = PAGE.read_text(encoding="utf-8")
    before = rows(page)
    lines = table(everything, found, before)
    if lines == before:
        return []
    if not write:
        stale = [f"  page: {line}" for line in before if line not in lines]
        stale += [f"  seen: {line}" for line in lines if line not in before]
        return [
            f"{PAGE.relative_to(ROOT)} is stale; update it with scripts/programs.sh --write",
            *stale,
        ]
    head, _, rest = page.partition(f"{BEGIN}\n")
    _, _, tail = rest.partition(END)
    text = "\n".join([*HEAD, *lines])
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: table written")
    return []


def run_all(wanted: list[Program]) -> dict[str, dict[str, Seen]]:
    """Run programs, several at a time, and print and return their results."""
    waiting: queue.SimpleQueue[Program] = queue.SimpleQueue()
    for program in wanted:
        waiting.put(program)
    results: dict[str, dict[str, Seen]] = {}
    broken: list[BaseException] = []

    def work(lane: Lane) -> None:
        try:
            while not broken:
                program = waiting.get_nowait()
                seen = {kind: lane.run(program, kind) for kind in KINDS}
                results[program.name] = seen
                parts = ", ".join(each.line for each in seen.values())
                print(f"{program.title()}: {parts}", flush=True)
        except queue.Empty:
            pass
        except BaseException as error:
            broken.append(error)
            raise

    with ExitStack() as stack:
        lanes = [Lane(stack) for _ in range(min(LANES, len(wanted)))]
        threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as error:
            broken.append(error)
            raise
    if broken:
        raise broken[0]
    return results


def options() -> Any:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python conformance/programs/run.py --only rq --only celery",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only programs whose names contain this text",
    )
    parser.add_argument(
        "--write", action="store_true", help="write the results to the table in docs/programs.md"
    )
    return parser.parse_args()


def main() -> int:
    """Run the programs, and return the exit status."""
    arguments = options()
    begun = time.monotonic()
    everything = programs()
    names = [word.lower() for word in arguments.only]
    chosen = [
        program
        for program in everything
        if not names or any(name in program.name.lower() for name in names)
    ]
    if not chosen:
        print(f"no program's name contains any of: {', '.join(arguments.only)}")
        return 2
    wanted = [program for program in chosen if program.is_here()]
    missing = [program.name for program in chosen if program not in wanted]
    if missing:
        print(f"not installed, so their rows are unchanged: {', '.join(missing)}")
    results = run_all(wanted) if wanted else {}
    failed = 0
    found = {}
    for program in wanted:
        seen = results[program.name]
        wrong = {kind: each for kind, each in seen.items() if not each.right}
        failed += bool(wrong)
        if not wrong:
            found[program.name] = row(program, seen)
        for kind, each in wrong.items():
            print(f"\n== {program.title()} failed on {kind}")
            print(*each.output.splitlines()[-40:], sep="\n")
    stale = compare(everything, found, arguments.write)
    print(*stale, sep="\n", end="\n" if stale else "")
    works = len(wanted) - failed
    print(f"programs: {works} of {len(wanted)} as documented, in {time.monotonic() - begun:.0f} s")
    return int(bool(failed or stale))


if __name__ == "__main__":
    sys.exit(main())
