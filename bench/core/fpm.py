"""Run PHP-FPM and send it FastCGI requests without a web server."""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

SITE = Path(__file__).parents[1] / "loops/fpm.php"
# The types of FastCGI records, and the role that every request names.
BEGIN, END, PARAMETERS, INPUT, OUTPUT = 1, 3, 4, 5, 6
RESPONDER = 1
# The timeout in seconds for starting PHP-FPM and for each request.
PATIENCE = 30.0


def program() -> str | None:
    """Return the path of PHP-FPM or None; on Debian the file name contains PHP's version."""
    names = sorted(each.name for each in Path("/usr/sbin").glob("php-fpm*"))
    return shutil.which("php-fpm") or (names and shutil.which(names[-1])) or None


def _record(kind: int, content: bytes) -> bytes:
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


def _pair(name: bytes, value: bytes) -> bytes:
    return struct.pack(">LL", 1 << 31 | len(name), 1 << 31 | len(value)) + name + value


class Pool:
    """A running PHP-FPM whose workers execute loops/fpm.php."""

    def __init__(self, process: "subprocess.Popen[bytes]", path: Path, store: str) -> None:
        """Store the master process, its socket and the path of the store that the script opens."""
        self.process = process
        self.path = path
        self.store = store

    def ask(self, query: str) -> str:
        """Send a request with this query string and return the response."""
        parameters = {
            "SCRIPT_FILENAME": str(SITE),
            "REQUEST_METHOD": "GET",
            "QUERY_STRING": query,
            "UNDERCROFT_STORE": self.store,
        }
        pairs = b"".join(_pair(name.encode(), value.encode()) for name, value in parameters.items())
        begin = struct.pack(">HB5x", RESPONDER, 0)
        request = _record(BEGIN, begin) + _record(PARAMETERS, pairs) + _record(PARAMETERS, b"")
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(PATIENCE)
            stream.connect(str(self.path))
            stream.sendall(request + _record(INPUT, b""))
            with stream.makefile("rb") as replies:
                output = b""
                while True:
                    head = replies.read(8)
                    if len(head) < 8:
                        raise RuntimeError(f"expected an answer to {query}, got {output!r}")
                    _, kind, _, length, padding = struct.unpack(">BBHHBx", head)
                    content = replies.read(length + padding)[:length]
                    if kind == OUTPUT:
                        output += content
                    elif kind == END:
                        break
        headers, _, body = output.partition(b"\r\n\r\n")
        if b"Status: " in headers:
            raise RuntimeError(f"expected an answer to {query}, got {headers!r} {body!r}")
        return body.decode()

    def workers(self) -> list[int]:
        """Return the process IDs of the workers."""
        master = self.process.pid
        text = Path(f"/proc/{master}/task/{master}/children").read_text(encoding="ascii")
        return [int(each) for each in text.split()]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the workers have used."""
        spent = 0
        for worker in self.workers():
            spent += int(Path(f"/proc/{worker}/schedstat").read_text(encoding="ascii").split()[0])
        return spent / 1e9


@contextlib.contextmanager
def serving(
    directory: Path, extension: Path, store: str, children: int, requests: int = 0
) -> Iterator[Pool]:
    """Run PHP-FPM; each worker exits after this number of requests, or never if it is 0."""
    found = program()
    assert found is not None
    path = directory / "fpm.sock"
    lines = [
        "[global]",
        "daemonize = no",
        f"error_log = {directory}/fpm.log",
        "[www]",
        f"listen = {path}",
        "pm = static",
        f"pm.max_children = {children}",
        f"pm.max_requests = {requests}",
        *(["user = root", "group = root"] if os.geteuid() == 0 else []),
    ]
    settings = directory / "fpm.conf"
    settings.write_text("\n".join([*lines, ""]), encoding="utf-8")
    options = [
        *("-n", "-d", "zend_extension=opcache.so", "-d", f"extension={extension}"),
        *("-d", "opcache.jit=tracing", "-d", "opcache.jit_buffer_size=32M"),
        *(["--allow-to-run-as-root"] if os.geteuid() == 0 else []),
    ]
    log = directory / "fpm.out"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [found, *options, "--fpm-config", str(settings)], stdout=output, stderr=output
        )
    try:
        end = time.monotonic() + PATIENCE
        while not path.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PHP-FPM did not start: {log.read_text(encoding='utf-8')}")
            time.sleep(0.01)
        yield Pool(process, path, store)
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)
