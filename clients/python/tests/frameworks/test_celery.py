"""Tests Celery with tasks queued in a served store and results in shared memory."""

import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import undercroft
from celery import Celery
from celery.backends.redis import CHORD_PART_RETURN_LUA
from celery.exceptions import TimeoutError
from kombu import Connection, Exchange, Queue
from redis.exceptions import ResponseError
from undercroft.celery import Backend

ROOT = Path(__file__).resolve().parents[4]
SERVER = ROOT / "target/debug/undercroft"
EXAMPLE = ROOT / "examples/python"


@pytest.fixture(params=["served store", "redis-server"])
def broker(request: pytest.FixtureRequest, path: str) -> Iterator[str]:
    """Yield the URL of the broker that queues tasks."""
    if request.param == "redis-server":
        socket = request.getfixturevalue("server_socket")
        yield f"redis+socket://{socket}?virtual_host=10"
        return
    if not SERVER.exists():
        pytest.skip(f"{SERVER} is not built: no store is served")
    socket = f"{path}.socket"
    command = [SERVER, "serve", "--store", f"{path}.queue", "--port", "0", "--unixsocket", socket]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        if not any(" serves " in line for line in iter(server.stdout.readline, "")):
            pytest.fail(f"the store is not served; exit status {server.wait()}")
        yield f"redis+socket://{socket}"
    finally:
        server.terminate()
        server.communicate()


@pytest.fixture(params=["in shared memory", "beside the queues"])
def results(request: pytest.FixtureRequest, broker: str, path: str) -> str:
    """Return the URL of the result backend."""
    return broker if request.param == "beside the queues" else f"undercroft://{path}"


@pytest.fixture
def worker(broker: str, results: str) -> Iterator[dict[str, str]]:
    """Yield the environment for a program whose tasks a worker runs."""
    environment = os.environ | {"QUEUE": broker, "RESULTS": results}
    command = [sys.executable, "-m", "celery", "--app", "tasks", "worker", "--concurrency", "1"]
    running = subprocess.Popen(
        [*command, "--loglevel", "INFO"],
        cwd=EXAMPLE,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert running.stdout is not None
    lines: list[str] = []
    for line in iter(running.stdout.readline, ""):
        lines.append(line)
        if re.search(r"ready\.$", line):
            break
    else:
        pytest.fail("the worker did not start:\n" + "".join(lines))
    # Keep reading, so that later output of the worker does not fill the pipe.
    rest = threading.Thread(target=running.stdout.read)
    rest.start()
    try:
        yield environment
    finally:
        running.terminate()
        running.wait()
        rest.join()


def test_a_worker_runs_tasks(worker: dict[str, str]) -> None:
    run = subprocess.run(
        [sys.executable, "tasks.py"],
        cwd=EXAMPLE,
        env=worker,
        capture_output=True,
        text=True,
        check=False,
        # The timeout detects a chord that never ends because its tasks are not counted.
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    page = (ROOT / "docs/celery.md").read_text(encoding="utf-8")
    assert f"```text\n{run.stdout}```" in page
    app = Celery("tasks", broker=worker["QUEUE"])
    # Retry, because a worker accepts control messages shortly after it reports that it is ready.
    answers = (app.control.ping(timeout=1, limit=1) for _ in range(100))
    (answer,) = next(filter(None, answers), [{}])
    ((name, said),) = answer.items()
    assert said == {"ok": "pong"}
    known = app.control.inspect([name], timeout=100, limit=1).registered()
    assert known == {name: ["tasks.fail", "tasks.length", "tasks.total"]}


def test_bindings_of_expired_queues_are_swept(broker: str) -> None:
    with Connection(broker) as connection:
        channel = connection.default_channel
        client, deadlines = channel.client, channel.keyprefix_binding_deadlines
        client.flushdb()
        second_before = client.time()[0] - 1
        for name, exchange, expires in [("a", "left", 60), ("b", "used", 60), ("c", "used", None)]:
            queue = Queue(name, Exchange(exchange, "topic"), f"{name}.*", expires=expires)
            queue(channel).declare()
        # A binding exists for at least one hour, here in milliseconds.
        living = client.zrangebyscore(deadlines, second_before * 1000 + 3_600_000, "inf")
        assert sorted(living) == [b"left", b"used"]
        assert channel.sweep_bindings() == 0
        client.zadd(deadlines, {"left": 1, "used": 1})
        assert channel.sweep_bindings() == 2
        assert channel.get_table("left") == []
        assert sorted(queue for *_, queue in channel.get_table("used")) == ["b", "c"]
        assert not client.exists(deadlines)


def test_a_store_knows_the_scripts_of_chords(r: undercroft.Redis) -> None:
    part = r.register_script(CHORD_PART_RETURN_LUA)
    keys = list("jtsdgc")
    assert part(keys, ["a", "result", 1, 0, 100, 0, 60, "token"]) == [1, None, None, 0]
    r.set("s", 2)
    with r.pipeline() as pipe:
        part(keys, ["b", "another", 1, 1, 100, 0, 60, "token"], client=pipe)
        pipe.zrange("j", 0, -1).get("c")
        assert pipe.execute() == [[2, None, b"2", 1], [b"result", b"another"], b"token"]
    with pytest.raises(ResponseError, match=r"value is not a valid float script: \w+, on @user_s"):
        part(keys, ["c", "third", 1, "last", 100, 0, 60, "token"])


@pytest.fixture
def backend(path: str) -> Backend:
    app = Celery("tasks", broker="memory://", backend=f"undercroft://{path}")
    assert isinstance(app.backend, Backend)
    return app.backend


def test_results_expire_and_are_forgotten(backend: Backend) -> None:
    backend.store_result("one", 42, "SUCCESS")
    key = backend.get_key_for_task("one")
    assert 86_300 < backend.client.ttl(key) <= 86_400
    assert backend.get_result("one") == 42
    backend.forget("one")
    assert backend.client.exists(key) == 0
    assert backend.get_state("one") == "PENDING"


def test_a_result_wakes_its_waiter(backend: Backend) -> None:
    result = backend.app.AsyncResult("late")
    # The result arrives after the check, so within the hour only the message can wake the waiter.
    late = partial(backend.store_result, "late", [1], "SUCCESS")
    assert result.get(interval=3600, on_interval=late) == [1]


def test_each_of_many_results_wakes_its_waiter(backend: Backend) -> None:
    looks = []
    look = backend.mget
    backend.mget = lambda keys: looks.append(len(keys)) or look(keys)  # type: ignore[method-assign]
    ids = ["a", "b", "c", "d"]
    backend.store_result("a", 0, "SUCCESS")
    coming = iter(ids[1:])

    def next_comes() -> None:
        for task_id in coming:
            backend.store_result(task_id, 0, "STARTED")
            backend.store_result(task_id, 0, "SUCCESS")
            break

    found = []
    for task_id, _ in backend.get_many(ids, interval=3600, on_interval=next_comes):
        found.append(task_id)
        if task_id != "a":
            next_comes()
    assert found == ids
    # The first read covers all results and the second the missing results. One read follows each
    # notification.
    assert looks == [4, 3, 1, 1, 1]
    # Existing results are found immediately.
    group = backend.app.GroupResult("group", [backend.app.AsyncResult(each) for each in ids])
    assert group.get() == [0] * 4


def test_results_without_a_notification_are_found_by_polling(backend: Backend) -> None:
    backend.store_result("elsewhere", 42, "SUCCESS")

    def silently() -> None:
        source, target = map(backend.get_key_for_task, ("elsewhere", "here"))
        backend.client.copy(source, target)

    ((task_id, meta),) = backend.get_many(["here"], interval=0.01, on_interval=silently)
    assert (task_id, meta["result"]) == ("here", 42)
    asked: list[None] = []
    found = backend.get_many(
        ["never"], interval=0, max_iterations=3, on_interval=lambda: asked.append(None)
    )
    assert list(found) == []
    assert len(asked) == 3


def test_waiting_with_a_zero_interval_works(backend: Backend) -> None:
    asked: list[None] = []

    def third() -> None:
        asked.append(None)
        if len(asked) == 3:
            backend.store_result("late", 42, "SUCCESS")

    assert backend.wait_for("late", interval=0, on_interval=third)["result"] == 42


def test_waiting_too_long_raises_a_timeout(backend: Backend) -> None:
    for timeout in (0, 0.01):
        with pytest.raises(TimeoutError):
            backend.app.AsyncResult("never").get(timeout=timeout)
        with pytest.raises(TimeoutError):
            list(backend.get_many(["never"], timeout=timeout))


@pytest.mark.parametrize("expires", [0, None])
def test_results_that_never_expire_are_kept(backend: Backend, expires: int | None) -> None:
    app = backend.app
    app.conf.result_expires = expires
    backend = Backend(app, backend.url)
    body = app.signature("tasks.total")
    parts = [app.AsyncResult(name) for name in ("one", "two")]
    backend.apply_chord(("group", parts), body)
    for number, part in enumerate(parts):
        backend.store_result(part.id, number, "SUCCESS")
        request = SimpleNamespace(id=part.id, group="group", chord=body)
        backend.on_chord_part_return(request, "SUCCESS", number)
        assert backend.client.ttl(backend.get_key_for_task(part.id)) == -1
    with app.connection_for_read() as connection:
        message = connection.SimpleQueue("celery").get(block=False)
        assert message.payload[0] == [[0, 1]]
        message.ack()


def test_a_backend_can_be_pickled(backend: Backend) -> None:
    backend.store_result("one", 42, "SUCCESS")
    again = pickle.loads(pickle.dumps(backend))
    assert again.url == backend.url
    assert again.get_result("one") == 42
