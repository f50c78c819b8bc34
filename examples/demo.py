"""Demonstrates the main use case on real data: many processes, one store, one of them killed.

Loads Python's unicodedata into a new store in shared memory: names as strings, categories as sets,
code points by the length of their names as a sorted set, and lists of code points to process. Four
Python workers look names up, count their words and write the results. At the same time a Rust
process uses the store, and redis-py and redis-cli use it through ``undercroft serve``. One worker
is killed in the middle of a write. Finally all data is checked, and the duration of operations is
compared with that on a Redis server, if one is installed.
"""

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unicodedata
from pathlib import Path

import redis
import undercroft
from demo import picture, timing
from demo.processes import output_of, result, running, wait_for
from demo.screen import Progress, heading, line, table, verdict

ROOT = Path(__file__).parents[1]
PARTS = Path(__file__).parent / "demo"
WORKERS = 4
BLOCK = 200  # names in a worker's batch
BY_LENGTH = "by length of name"
STEP = 0.1  # seconds between two measurements of the workers' speed
Names = dict[str, str]


def load(r: undercroft.Redis) -> tuple[Names, int]:
    """Store all named code points in transactions; return the names and transaction count."""
    names: Names = {}
    blocks, seconds = 0, 0.0
    progress = Progress(sys.maxunicode + 1)
    points: dict[str, str] = {}
    for code in range(sys.maxunicode + 1):
        name = unicodedata.name(chr(code), None)
        if name is not None:
            points[f"U+{code:04X}"] = name
        if len(points) == BLOCK or (points and code == sys.maxunicode):
            records = {f"name:{point}": name for point, name in points.items()}
            names |= records
            members: dict[str, list[str]] = {}
            for point in points:
                members.setdefault(f"category:{category(point)}", []).append(point)
            since = time.perf_counter()
            with r.pipeline(transaction=True) as commands:
                commands.mset(records)
                commands.rpush(f"block:{blocks}", *points)
                commands.zadd(BY_LENGTH, {point: len(name) for point, name in points.items()})
                for key, some in members.items():
                    commands.sadd(key, *some)
                commands.execute()
            seconds += time.perf_counter() - since
            blocks += 1
            points.clear()
        if code % 1024 == 0:
            progress.show(code)
    progress.clear()
    line("loaded", f"{len(names):,} code points of Unicode {unicodedata.unidata_version}")
    line("strings", "their names, such as name:U+1F980")
    line("lists", f"{blocks:,} of {BLOCK} to process: block:0, block:1 ...")
    line("sets", f"{len(categories(r))} categories, such as category:So")
    line("a sorted set", f'"{BY_LENGTH}", all code points')
    took = f"{seconds / len(names) * 1e6:.1f} us for the four records of each code point"
    line("in the store", f"in {seconds:.2f} s, {BLOCK} names in a transaction: {took}")
    return names, blocks


def category(point: str) -> str:
    """Return unicodedata's category of a code point such as U+1F980."""
    return unicodedata.category(chr(int(point[2:], 16)))


def categories(r: undercroft.Redis) -> list[str]:
    """Return the keys of the sets that contain code points by category."""
    return sorted(r.scan_iter("category:*", count=10_000))


def redis_cli(socket: Path, *commands: list[str]) -> None:
    """Show redis-cli's output for a few commands."""
    if not shutil.which("redis-cli"):
        line(
            "redis-cli", "skipped: redis-cli is not installed (Debian: apt-get install redis-tools)"
        )
        return
    for command in commands:
        reply = output_of("redis-cli", "-s", socket, "--no-raw", *command)
        line("redis-cli", f"{shlex.join(command):<42} {reply}")


def pace(r: undercroft.Redis, seconds: float) -> list[float]:
    """Return the total number of names that workers look up per second, for each interval."""
    found = []
    before, since = int(r.get("names") or 0), time.perf_counter()
    for _ in range(round(seconds / STEP)):
        time.sleep(STEP)
        names, now = int(r.get("names") or 0), time.perf_counter()
        found.append((names - before) / (now - since))
        before, since = names, now
    return found


def state_of(pid: int) -> str:
    """Return the letter of a process's state, such as R, S or T."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def kill_while_writing(binary: Path, store: Path, victim: subprocess.Popen[str]) -> str:
    """Kill a worker while `undercroft stat` shows that it holds locks; return those locks."""
    for attempt in range(1, 201):
        victim.send_signal(signal.SIGSTOP)
        wait_for(lambda: state_of(victim.pid) == "T", "SIGSTOP")
        held = [
            text.split(":")[0].strip()
            for text in output_of(binary, "stat", "--store", store).splitlines()
            if f"pid {victim.pid} " in text and "holds the lock" in text
        ]
        if held:
            victim.kill()
            victim.wait()
            line(
                "killed",
                f"worker {WORKERS} (pid {victim.pid}) with SIGKILL, in the middle of a write",
            )
            locks = f"the lock of {held[0]}" if len(held) == 1 else f"{len(held)} locks"
            line("", f"it held {locks}, according to undercroft stat")
            return locks
        victim.send_signal(signal.SIGCONT)
        time.sleep(0.001 * (attempt % 7))
    raise RuntimeError("the worker was never caught during a write")


def check(binary: Path, store: Path, r: undercroft.Redis, names: Names, torn: int) -> bool:
    """Check the store's structure, and compare every value with unicodedata."""
    good = verdict("structure", True, output_of(binary, "check", "--store", store))
    wrong = turns_wrong = 0
    for number in range(r.exists(*[f"block:{at}" for at in range(len(names) // BLOCK + 1)])):
        points = r.lrange(f"block:{number}", 0, -1)
        keys = [f"name:{point}" for point in points]
        wrong += sum(names[key] != name for key, name in zip(keys, r.mget(keys), strict=True))
        results = [text.split(" ") for text in r.mget([f"words:{point}" for point in points])]
        counts = [str(len(names[key].split(" "))) for key in keys]
        wrong += sum(count != found[1] for count, found in zip(counts, results, strict=True))
        turns_wrong += len({turn for turn, _ in results}) != 1
    good &= verdict("values", wrong == 0, f"{2 * len(names):,} compared with unicodedata")
    good &= check_collections(r, names)
    good &= verdict("torn writes", torn + turns_wrong == 0, f"{torn + turns_wrong} seen")
    total = int(r.get("names") or 0)
    each = [int(r.get(f"names:worker {number}") or 0) for number in range(1, WORKERS + 1)]
    # A difference of one block is possible, because the worker may have died between its two
    # increments.
    text = f"the shared counter is {total:,}, but the workers' counters add up to {sum(each):,}"
    return verdict("counters", total - sum(each) in (0, BLOCK), text) and good


def check_collections(r: undercroft.Redis, names: Names) -> bool:
    """Compare every member of the sets and of the sorted set with unicodedata."""
    wrong = found = 0
    for key in categories(r):
        members = r.smembers(key)
        found += len(members)
        wrong += sum(key != f"category:{category(point)}" for point in members)
    lengths = r.zrange(BY_LENGTH, 0, -1, withscores=True)
    wrong += sum(len(names[f"name:{point}"]) != length for point, length in lengths)
    wrong += lengths != sorted(lengths, key=lambda pair: (pair[1], pair[0]))
    wrong += 2 * len(names) - found - len(lengths)
    return verdict("members", wrong == 0, f"{found + len(lengths):,} in sets, in order")


def timings(directory: Path, names: Names, r: undercroft.Redis, served: Path) -> dict[str, float]:
    """Show the duration of operations, in this process and over sockets; return that of a GET."""
    with contextlib.ExitStack() as stack:
        clients: dict[str, timing.Client] = {"this process": r}
        if shutil.which("redis-server"):
            path = directory / "redis.sock"
            options = f"--port 0 --unixsocket {path} --dir {directory} --save".split()
            stack.enter_context(running("redis-server", *options, "", log=directory / "redis.log"))
            wait_for(path.exists, "redis-server")
            clients["redis-server"] = redis.Redis(unix_socket_path=str(path), decode_responses=True)
        clients["undercroft serve"] = redis.Redis(
            unix_socket_path=str(served), decode_responses=True
        )
        found = timing.measure(clients, names)
    peer = "redis-server" if "redis-server" in clients else "undercroft serve"
    rows = [["microseconds per call", *clients, f"{peer} takes"]]
    for operation, times in found.items():
        figures = [f"{times[name]:.2f}" for name in clients]
        ratio = times[peer] / times["this process"]
        rows.append([operation, *figures, f"{ratio:.{0 if ratio >= 10 else 1}f} times as long"])
    table(rows)
    print(
        f"  this process maps the store; the others are called with redis-py {redis.__version__} "
        "on a unix socket"
    )
    if peer != "redis-server":
        print("  redis-server is not installed, so there is no comparison with it")
    return found["get"]


def run(binaries: Path, directory: Path) -> bool:
    """Run the complete demo on a store in a directory; return whether every check passed."""
    store, socket, binary = directory / "store", directory / "socket", binaries / "undercroft"
    python = sys.executable
    with contextlib.ExitStack() as stack:
        heading("1. Load Python's unicodedata into a store in shared memory")
        r = stack.enter_context(undercroft.Redis(store, decode_responses=True))
        names, blocks = load(r)

        heading("2. Use it from many processes at once")
        serve: list[str | Path] = [
            binary,
            "serve",
            "--store",
            store,
            "--port",
            "0",
            "--unixsocket",
            socket,
        ]
        stack.enter_context(running(*serve, log=directory / "serve.log"))
        wait_for(socket.exists, "undercroft serve")
        start = [(python, PARTS / "worker.py", store, str(at + 1)) for at in range(WORKERS)]
        workers = [stack.enter_context(running(*map(str, command))) for command in start]
        native = stack.enter_context(running(binaries / "undercroft-demo", store))
        stock = stack.enter_context(running(python, PARTS / "stock_client.py", socket))
        line(
            "Python",
            f"{WORKERS} workers look up names, count words and write {BLOCK} results at a time",
        )
        line("Rust", "1 process reads the results while the workers write them")
        line("redis-py", "1 process does the same through undercroft serve on a unix socket")
        redis_cli(
            socket,
            ["GET", "name:U+1F980"],
            ["SISMEMBER", "category:So", "U+1F980"],
            ["ZREVRANK", BY_LENGTH, "U+1F980"],
            ["INCR", "served"],
        )
        wait_for(lambda: int(r.get("turns") or 0) > blocks, "the first pass over all names", 60)
        before = pace(r, 1.5)

        heading("3. Kill one of them during a write")
        held = kill_while_writing(binary, store, workers[-1])
        after = pace(r, 1.5)
        line(
            "names per second",
            f"{statistics.mean(before):,.0f} before, {statistics.mean(after):,.0f} after, "
            f"by {WORKERS - 1} of {WORKERS} workers",
        )
        redis_cli(socket, ["INCR", "served"], ["DBSIZE"])

        heading("4. What each process found")
        r.set("stop", "now")
        slowest = 0.0
        for number, worker in enumerate(workers[:-1], 1):
            found = result(worker)
            slowest = max(slowest, found["ms"])
            words = f"{found['words']:,} words, the most common are {', '.join(found['common'])}"
            line(f"worker {number}", f"{found['names']:,} names, {words}")
        line(f"worker {WORKERS}", "killed; no other process had to wait")
        seen, views = result(native), result(stock)
        line("Rust", f"{seen['values']:,} results in {seen['views']:,} views, {seen['torn']} torn")
        line("", f"the longest name: {seen['longest']}")
        line(f"redis-py {views['version']}", f"{views['views']:,} views, {views['torn']} torn")
        line("slowest MSET", f"{slowest:.1f} ms, among the surviving workers")

        heading("5. Check all results")
        good = check(binary, store, r, names, seen["torn"] + views["torn"])

        heading("6. Measure one operation")
        get = timings(directory, names, r, socket)
        others = WORKERS - 1
        picture.show(
            picture.Story(
                before=before,
                after=after,
                step=STEP,
                victim=f"1 of {WORKERS} Python workers, by kill -9 while it held {held}",
                survivors=f"the other {others} workers, a Rust process, redis-py, redis-cli: "
                f"no write took over {slowest:.0f} ms",
                checked=("all" if good else "NOT ALL of the")
                + f" {4 * len(names):,} records, compared one by one; torn writes: "
                + str(seen["torn"] + views["torn"]),
                get=get,
            )
        )
    return good


def main() -> int:
    """Run the demo in a temporary directory; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--binaries",
        type=Path,
        default=ROOT / "target/release",
        help="folder of undercroft and undercroft-demo",
    )
    binaries = parser.parse_args().binaries.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    started = time.monotonic()
    try:
        # A container's /tmp is often an overlay file system, which stores do not support.
        with tempfile.TemporaryDirectory(prefix="undercroft-demo-", dir="/dev/shm") as directory:
            good = run(binaries, Path(directory))
    except KeyboardInterrupt:
        print("\ninterrupted: all processes are stopped and the store is removed")
        return 130
    state = "all checks passed" if good else "A CHECK FAILED, see above"
    print(
        f"\n{state}, in {time.monotonic() - started:.0f} s; "
        "all processes are stopped and the store is removed"
    )
    return 0 if good else 1


if __name__ == "__main__":
    os.environ.pop("UNDERCROFT_STORE", None)
    sys.exit(main())
