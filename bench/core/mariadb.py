"""Run MariaDB as a peer: a private server with tables of a forum's threads."""

import contextlib
import csv
import io
import os
import pwd
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from core import peers

# The timeout in seconds for one statement, such as filling a table with ten million threads.
LIMIT = 400.0
# The forum reads threads in the order of `place`; the index covers all columns of a page.
TABLE = """CREATE TABLE threads{power} (
    place DOUBLE NOT NULL, value CHAR(12) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
    board TINYINT UNSIGNED NOT NULL, hidden TINYINT UNSIGNED NOT NULL,
    a0 TINYINT UNSIGNED NOT NULL, a1 TINYINT UNSIGNED NOT NULL, a2 TINYINT UNSIGNED NOT NULL,
    KEY page (board, hidden, place, value)) ENGINE=InnoDB"""
FILTERED = "ALTER TABLE threads{power} ADD KEY filtered (board, hidden, a2, place, value)"
VALUE = "CONCAT(LPAD(seq * 7919 % 99999999977, 11, '0'), 'z')"
ROWS = f"""INSERT INTO threads{{power}} SELECT seq, {VALUE}, 1, 0,
    CRC32(seq) % 15, CRC32(seq) DIV 16 % 8, CRC32(seq) DIV 128 % 2
    FROM seq_1_to_{{items}} ORDER BY seq"""


class MariaDB:
    """A running MariaDB server and its unix socket."""

    def __init__(self, socket: Path, process: subprocess.Popen[bytes]) -> None:
        """Store a server process that was started on this socket."""
        self.socket = socket
        self.process = process

    def run(self, statement: str, limit: float = LIMIT) -> str:
        """Run SQL statements and return the result of the last one."""
        run = subprocess.run(
            ["mariadb", f"--socket={self.socket}", "--user=root", "--batch", "--skip-column-names"],
            input=f"CREATE DATABASE IF NOT EXISTS forum; USE forum; {statement};",
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
        )
        if run.returncode:
            raise RuntimeError(f"MariaDB: {run.stderr.strip()}")
        return run.stdout.strip()

    def fill(self, power: int) -> None:
        """Create the table of 10**power threads, with the index for its pages."""
        self.run(TABLE.format(power=power))
        self.run("SET unique_checks=0; " + ROWS.format(power=power, items=10**power))

    def index(self, power: int) -> None:
        """Add the index that serves a filtered page best."""
        self.run(FILTERED.format(power=power))

    def seconds(self, query: str, count: int, clients: int = 1, short: bool = False) -> float:
        """Return the seconds per query, measured by mariadb-slap."""
        words = [
            *("taskset", "--cpu-list", str(peers.CLIENT_CORE), "mariadb-slap"),
            *(f"--socket={self.socket}", "--user=root", "--create-schema=forum", "--no-drop"),
            *(f"--query={query}", f"--concurrency={clients}", f"--number-of-queries={count}"),
            *("--iterations=1", "--csv", *(["--detach=1"] if short else [])),
        ]
        run = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )
        (row,) = csv.reader(io.StringIO(run.stdout.strip()))
        return float(row[2]) / count


def page(power: int, start: int, count: int, where: str = "") -> str:
    """Return the SQL query for a page of a board; a negative start reads from the end."""
    order = "DESC" if start < 0 else "ASC"
    return (
        f"SELECT value FROM threads{power} WHERE board=1 AND hidden=0{where} "
        f"ORDER BY place {order} LIMIT {max(start, 0)},{count}"
    )


def insertion(power: int, place: str) -> str:
    """Return the SQL statement that inserts a thread at the head, middle or tail of a board."""
    at = {"head": "MIN(place)-1", "tail": "MAX(place)+1"}.get(place)
    chosen = f"{10**power // 2}+RAND()" if at is None else at
    source = "" if at is None else f" FROM threads{power} WHERE board=1 AND hidden=0"
    return f"INSERT INTO threads{power} SELECT {chosen},'inserted now',1,0,3,1,0{source}"


@contextlib.contextmanager
def server(directory: Path) -> Iterator[MariaDB]:
    """Run Debian's MariaDB in a private directory, without syncing, until the block ends."""
    data, socket, log = directory / "data", directory / "mariadb.sock", directory / "mariadb.log"
    user = f"--user={pwd.getpwuid(os.geteuid()).pw_name}"
    with log.open("wb") as output:
        subprocess.run(
            [
                *("mariadb-install-db", "--no-defaults", f"--datadir={data}", user),
                *("--auth-root-authentication-method=normal", "--skip-test-db"),
            ],
            stdout=output,
            stderr=output,
            check=True,
            timeout=LIMIT,
        )
        process = subprocess.Popen(
            [
                *("taskset", "--cpu-list", str(peers.SERVER_CORE), "mariadbd", "--no-defaults"),
                *(f"--datadir={data}", f"--socket={socket}", user, "--skip-networking"),
                *("--innodb-buffer-pool-size=3G", "--innodb-log-file-size=1G"),
                *("--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"),
                *("--skip-log-bin", "--performance-schema=OFF", "--back-log=1000"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    running = MariaDB(socket, process)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                running.run("SELECT 1", 10)
                break
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                if process.poll() is not None or time.monotonic() > until:
                    text = log.read_text(encoding="utf-8", errors="replace")
                    raise RuntimeError(f"MariaDB did not answer: {error}\n{text}") from error
                time.sleep(0.1)
        yield running
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
