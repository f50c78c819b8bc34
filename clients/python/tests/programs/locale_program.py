"""Runs case files in a locale, and prints the reply to each command.

Arguments: the locale, the URL of a store or server, and the files.
"""

import ctypes
import locale
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import undercroft

# Lines that need several connections, and commands whose replies differ between runs.
OTHERS = re.compile(r"\d: |<$")
VOLATILE = re.compile(
    r"TIME|TTL|RAND|random|SPOP|OBJECT|CLIENT|INFO|MEMORY|DEBUG|SHUTDOWN|CONFIG|SCAN|DUMP|INFO|"
    r"RESET|HELLO|QUIT|SELECT|MONITOR|SUBSCRIBE|SLOWLOG|LATENCY|ACL|COMMAND|STATS|KILL|EXPIRE",
    re.IGNORECASE,
)
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\*(\d+))?|(\S+)')
ESCAPE = re.compile(r"\\(?:x(..)|(.))")


def words_of(line: str) -> list[bytes]:
    """Return the words of a command, parsed as redis-cli does."""

    def plain(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else ESCAPES[found[2]]

    words = []
    for quoted, times, bare in WORD.findall(line):
        if bare:
            words.append(bare.encode())
            continue
        # `\x..` escapes represent bytes; everything else is text.
        parts = re.split(r"(\\x..)", quoted)
        text = b"".join(
            bytes([int(part[2:], 16)])
            if part.startswith("\\x")
            else ESCAPE.sub(plain, part).encode()
            for part in parts
        )
        words.append(text * int(times or 1))
    return words


def cases(file: Path) -> Iterator[list[str]]:
    """Yield the commands of each case in a file that needs only one connection."""
    for case in file.read_text().split("\n== ")[1:]:
        lines = [line for line in case.split("\n")[1:] if line and line[0] not in " #"]
        if not any(OTHERS.match(line) for line in lines) and "\n  waits" not in case:
            yield [line for line in lines if not VOLATILE.search(line)]


def shown(reply: Any) -> str:
    """Return a reply as text that does not depend on the order of a store's items."""
    if isinstance(reply, dict):
        reply = list(reply.items())
    if isinstance(reply, list | tuple | set):
        return f"[{', '.join(sorted(map(shown, reply)))}]"
    return repr(reply)


def typed(r: Any) -> Iterator[Any]:
    """Yield results of methods that accept or return fractions."""
    yield r.set("f", 1.25), r.incrbyfloat("f", 1.5), r.get("f"), r.hincrbyfloat("h", "f", 0.25)
    yield r.zadd("z", {"a": 1.5, "b": 2.25}), r.zscore("z", "a"), r.zincrby("z", 0.125, "b")
    yield r.zrange("z", 0, -1, withscores=True), r.zrangebyscore("z", 1.25, "(2.5")
    yield r.zmscore("z", ["a", "b"]), r.zpopmin("z"), r.blpop(["none"], 0.001)
    yield r.geoadd("g", (13.361389, 38.115556, "p")), r.geopos("g", "p")
    yield r.geosearch("g", longitude=15.5, latitude=37.5, radius=200.5, unit="km", withdist=True)
    yield r.eval("return {tostring(1.5), tonumber('2.5') * 2, cjson.encode({1.25})}", 0)
    with r.pipeline() as pipe:
        yield pipe.incrbyfloat("f", 0.5).zadd("y", {"c": 0.5}).zscore("y", "c").execute()


def main(name: str, url: str, files: list[str]) -> None:
    """Run the files, and finally print which locale was active."""
    locale.setlocale(locale.LC_ALL, name)
    text = ctypes.create_string_buffer(16)
    ctypes.CDLL(None).snprintf(text, 16, b"%.1f", ctypes.c_double(1.5))
    # Disable the timeout, because the test's time limit detects a reply that never arrives.
    with undercroft.Redis.from_url(url, protocol=3, socket_timeout=None) as r:
        for file in files:
            for commands in cases(Path(file)):
                r.flushall()
                r.function_flush()
                for command in commands:
                    try:
                        reply = r.execute_command(*words_of(command))
                    except Exception as error:
                        reply = error
                    print(command[:80], "->", shown(reply))
        r.flushall()
        for result in typed(r):
            print(shown(list(result) if isinstance(result, tuple) else result))
    print("1.5 is", text.value.decode(), file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
